"""Runs benchmarks: `python -m bench [--only NAME ...] [--quick] [--out FILE]`.

Results are shown, and merged by benchmark into a JSON file, each with its settings, the commit and
the wall time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.acting import act, hierarchy
from bench.learning import learning
from bench.memory import memory
from bench.pictures import pictures
from bench.timing import Result
from bench.training import compile_time, training
from bench.updates import factors, update
from bench.worlds import environment, physics
from dusdi.provenance import provenance

FOLDER = Path(__file__).parent
BENCHMARKS: dict[str, Callable[[bool], Result]] = {
    "environment": environment,
    "update": update,
    "factors": factors,
    "memory": memory,
    "training": training,
    "compile": compile_time,
    "physics": physics,
    "pictures": pictures,
    "act": act,
    "hierarchy": hierarchy,
    "learning": learning,
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = make_parser().parse_args(arguments)
    out = options.out or (None if options.quick else FOLDER / "results.json")
    for name in options.only or BENCHMARKS:
        result = measure(name, options.quick)
        Console().print(show(name, result["numbers"]))
        if out is not None:
            stored = json.loads(out.read_text()) if out.exists() else {}
            out.write_text(json.dumps({**stored, name: result}, indent=2) + "\n")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = "; ".join(f"{name}: {summary(name)}" for name in BENCHMARKS)
    text = f"benchmarks to run; default: all. {names}"
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=text)
    text = "tiny sizes, to see that it works; the numbers mean nothing"
    parser.add_argument("--quick", action="store_true", help=text)
    text = "JSON to merge the results into; default: bench/results.json, none if quick"
    parser.add_argument("--out", type=Path, help=text)
    return parser


def summary(name: str) -> str:
    """The first line of a benchmark's docstring."""
    return (BENCHMARKS[name].__doc__ or "").splitlines()[0]


def measure(name: str, quick: bool) -> dict[str, Any]:
    """The result of one benchmark in the form in which it is stored."""
    began = time.monotonic()
    result = BENCHMARKS[name](quick)
    return {
        "numbers": result.numbers,
        "settings": result.settings,
        "quick": quick,
        "made_with": provenance(),
        "seconds": round(time.monotonic() - began, 1),
    }


def show(name: str, numbers: dict[str, float]) -> Table:
    table = Table("", name, title=summary(name), title_justify="left", min_width=60)
    for what, value in numbers.items():
        digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 3
        table.add_row(what.replace("_", " "), f"{value:,.{digits}f}")
    table.columns[1].justify = "right"
    return table


if __name__ == "__main__":
    main()
