"""Tables that can be read at any width: no word is cut, however narrow the terminal is."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dusdi.messages import wrap

WIDTH_OF_FILES = 140  # of tables where the output is not a terminal


class _Trimmed(io.TextIOBase):
    """Standard output without the blanks that fill up the lines of a table."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +$", "", text, flags=re.M))

    def flush(self) -> None:
        sys.stdout.flush()


def console() -> Console:
    """A console for tables, which are as wide as the terminal if there is one."""
    if sys.stdout.isatty():
        return Console()
    return Console(file=_Trimmed(), width=WIDTH_OF_FILES)  # type: ignore[arg-type]


def print_table(
    output: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    numbers_from: int | None = None,
) -> None:
    """Prints a table with lines around its cells, or without if there is little space.

    Where even single words would not fit beside each other, each row is a list.

    Args:
      output: where to.
      headings: of the columns; the first column names the row.
      rows: texts, as many in each as there are columns.
      title: printed above.
      numbers_from: the first column of those that hold numbers, which stand on the right.
    """
    if title:
        output.print(Text(wrap(title, output.width), style="bold"), soft_wrap=True)
    count = len(headings)
    for table, between in (
        (Table(box=box.HEAVY_HEAD), 3 * count + 1),
        (Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0), count - 1),
    ):
        widths = column_widths([headings, *rows], output.width - between)
        if widths is None:
            continue
        for index, (heading, width) in enumerate(zip(headings, widths, strict=True)):
            is_number = numbers_from is not None and index >= numbers_from
            table.add_column(Text(heading), width=width, justify="right" if is_number else "left")
        for row in rows:
            table.add_row(*map(Text, row))
        output.print(table)
        return
    print_list(output, headings, rows)


def print_list(output: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints the cells of each row below each other; empty ones are left out."""
    for first, *cells in rows:
        output.print(Text(wrap(first, output.width), style="bold"), soft_wrap=True)
        for heading, cell in zip(headings[1:], cells, strict=True):
            if cell:
                text = wrap(f"{heading}: {cell}", output.width - 2)
                output.print(Padding(Text(text), (0, 0, 0, 2)), soft_wrap=True)


def column_widths(lines: Sequence[Sequence[str]], space: int) -> list[int] | None:
    """The widths of columns that share some space; None if a word would have to be cut.

    Every column gets what its longest word needs. What is left goes to those that need least to
    have all their texts in one line.
    """
    columns = list(zip(*lines, strict=True))
    widths = [
        max(cell_len(word) for text in column for word in [*text.split(), ""]) for column in columns
    ]
    wanted = [max(map(cell_len, column)) for column in columns]
    left = space - sum(widths)
    if left < 0:
        return None
    for index in sorted(range(len(columns)), key=lambda i: wanted[i] - widths[i]):
        more = min(left, wanted[index] - widths[index])
        widths[index] += more
        left -= more
    return widths
