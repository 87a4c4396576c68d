"""Training speed of several checkouts in turns: `python -m bench.checkouts FOLDER FOLDER …`.

Each discovers skills with its own preset `fast`, in a process of its own with the libraries of this
one. The rate is that of the second half of the log, so that compiling and random steps don't count.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = {"gunner-2d": 1_024_000, "multi-particle": 768_000}
ROUNDS = 5
FILE = Path(__file__).parent / "checkouts.json"


def rate(checkout: Path, world: str, steps: int) -> float:
    """Environment steps per second of one run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dusdi", "pretrain", world, "--steps", str(steps)]
        command += ["--seed", "100", "--out", f"{folder}/run"]
        variables = os.environ | {"PYTHONPATH": str(checkout)}
        subprocess.run(command, cwd=checkout, env=variables, check=True, capture_output=True)
        with open(f"{folder}/run/progress.csv", newline="") as file:
            rows = [(float(row["step"]), float(row["seconds"])) for row in csv.DictReader(file)]
    (first, began), (last, ended) = rows[len(rows) // 2], rows[-1]
    return (last - first) / (ended - began)


def commit(checkout: Path) -> str:
    """The commit of a checkout."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(checkouts: list[Path]) -> None:
    """Measures all checkouts and writes every rate, in steps per second, by world and commit."""
    found: dict[str, dict[str, list[int]]] = {}
    for world, steps in STEPS.items():
        own: dict[str, list[int]] = {commit(checkout): [] for checkout in checkouts}
        for _ in range(ROUNDS):
            for checkout in checkouts:
                own[commit(checkout)].append(round(rate(checkout, world, steps)))
        found[world] = own
        print(world, {name: statistics.median(rates) for name, rates in own.items()}, flush=True)
    FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]])
