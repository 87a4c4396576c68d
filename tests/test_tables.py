"""Tables at several widths: whatever the terminal, no word of them is cut."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from terminal import python

from dusdi.cli.evaluate import COMPONENT_HEADINGS, component_rows, score_rows
from dusdi.cli.tables import column_widths, console, print_table
from dusdi.metrics.dci import NAMES

FACTORS = ["agent position", "ammo state", "target state"]
REPORT = {
    **dict.fromkeys(NAMES, 0.5),
    **{f"{name}_std": 0.25 for name in NAMES},
    "components": FACTORS,
    "factors": FACTORS,
    "own_factors": FACTORS,
    "importance": np.eye(3).tolist(),
    "accuracy": [0.75] * 3,
    "chance": [0.125] * 3,
    "states_to_skills": {
        **dict.fromkeys(NAMES, 0.5),
        "accuracy": [0.875] * 3,
        "chance": [0.25] * 3,
    },
}
TABLES = {
    "scores": (("", *NAMES), score_rows(REPORT, REPORT), None),
    "components": (COMPONENT_HEADINGS, component_rows(REPORT), 2),
    "one long word": (("name", "value"), [["x" * 75, "1"], ["short", "2"]], 1),
}


def printed(width, headings, rows, numbers_from=None, title=""):
    output = io.StringIO()
    console = Console(file=output, width=width)
    print_table(console, headings, rows, title=title, numbers_from=numbers_from)
    return output.getvalue()


def words(text):
    return re.findall(r"[^\s│┃]+", text)


@pytest.mark.parametrize("width", [30, 60, 80, 120])
@pytest.mark.parametrize("name", ["scores", "components"])
def test_every_word_is_there_and_lines_fit(width, name):
    headings, rows, numbers_from = TABLES[name]
    text = printed(width, headings, rows, numbers_from, title="a title")
    # In a list, the first heading is not needed.
    cells = [*headings[1:], *(cell for row in rows for cell in row)]
    expected = [word for cell in cells for word in cell.split()]
    there = [word.rstrip(":") for word in words(text)]
    assert set(expected) <= set(there) and "…" not in text
    assert sum(there.count(f"{number:.3f}") for number in (0.5, 0.875)) >= 3
    assert all(len(line.rstrip()) <= width for line in text.splitlines())


def test_cells_have_lines_around_them_if_there_is_space():
    assert "┃ component " in printed(80, *TABLES["components"])
    narrow = printed(60, *TABLES["components"])
    assert "┃" not in narrow and "────" in narrow
    assert re.search(r"^agent +agent +0\.875 +0\.250 1\.000 +0\.750 +0\.125$", narrow, re.M)
    assert "  predicted from states: 0.875" in printed(40, *TABLES["components"])


def test_a_word_that_is_longer_than_a_line_stays_whole_in_a_list():
    text = printed(60, *TABLES["one long word"])
    assert "x" * 75 in text and "  value: 1" in text
    title = "DCI of /tmp/" + "x" * 75
    assert title.split()[-1] in printed(60, *TABLES["scores"], title=title)


def test_space_goes_first_to_the_column_that_needs_least():
    lines = [["one two three four", "1 ± 2", "3"]]
    assert column_widths(lines, 5 + 1 + 1) == [5, 1, 1]
    assert column_widths(lines, 5 + 1 + 1 - 1) is None
    assert column_widths(lines, 5 + 1 + 1 + 4) == [5, 5, 1]
    assert column_widths(lines, 5 + 1 + 1 + 6) == [7, 5, 1]
    assert column_widths(lines, 100) == [18, 5, 1]


PRINT = """
import sys
sys.path.insert(0, {folder!r})
from test_tables import TABLES
from dusdi.cli.tables import console, print_table
for name in ("scores", "components"):
    headings, rows, numbers_from = TABLES[name]
    print_table(console(), headings, rows, title=name, numbers_from=numbers_from)
"""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_a_person_sees_in_a_terminal_is_whole(width, request):
    terminal = python(PRINT.format(folder=str(request.path.parent)), width=width)
    terminal.read()
    text = "\n".join(terminal.lines())
    assert terminal.process.returncode == 0, text
    headings = {word for heading in (*NAMES, *COMPONENT_HEADINGS) for word in heading.split()}
    assert headings <= set(words(text)), text
    assert "…" not in text and text.count("agent") >= 1 and text.count("position") >= 2


def test_lines_that_are_piped_do_not_end_with_blanks(capsys):
    headings, rows, numbers_from = TABLES["components"]
    print_table(console(), headings, rows, title="components", numbers_from=numbers_from)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > len(rows) and [line.rstrip() for line in lines] == lines
