"""Experiments on canned records: what jobs give is made up, so that nothing is trained."""

import pytest

from dusdi import experiments
from dusdi.experiments import Settings
from dusdi.experiments.records import write_record
from dusdi.metrics.dci import NAMES

FIRST, SECOND = "gunner-2d", "household"


class Fake:
    """Does jobs without any work: records come from functions of the job, by kind."""

    def __init__(self):
        self.done = []
        self.commit = "aaa"
        self.cores = 1
        self.scores = {
            "dci": lambda job: dci_scores(0.5 + 0.1 * job.settings["seed"]),
            "expert": lambda job: dci_scores(0.9),
            "return": lambda job: {"return": 5.0, "random_skills": 1.0, "scripted_reference": 9.0},
        }
        self.seconds = lambda job: 2.0
        self.curve = lambda job: {"step": [10, 20], "return": [1.0, 3.0], "accuracy": [0.4, 0.6]}

    def __call__(self, job, folders, progress=False):
        self.done.append(f"{job.kind} {job.name}")
        made = {"commit": self.commit, "cores": self.cores}
        record = {"measured_with": made, "made_with": [made]}
        record["seconds"] = self.seconds(job)
        if job.kind in self.scores:
            record["scores"] = self.scores[job.kind](job)
        else:
            job.folder(folders.runs).mkdir(parents=True, exist_ok=True)
            curve = self.curve(job)
            metric = "accuracy" if job.kind == "skills" else "return"
            seconds = [float(step) for step in curve["step"]]
            record["metric"] = metric
            record["curve"] = {"step": curve["step"], "seconds": seconds, metric: curve[metric]}
        return write_record(folders.records, job, record)

    def take(self):
        """Returns what was done since the last time."""
        done = self.done
        self.done = []
        return done


def dci_scores(value):
    each = dict.fromkeys(NAMES, value)
    return {"skills to states": each, "states to skills": each}


@pytest.fixture
def fake(monkeypatch):
    """Nothing is trained."""
    made = Fake()
    monkeypatch.setattr(experiments, "run", made)
    there = "dusdi.experiments.running.is_trained"
    monkeypatch.setattr(there, lambda job, runs: job.folder(runs).exists())
    return made


@pytest.fixture
def settings(tmp_path):
    options = {"seeds": 2, "preset": "debug", "worlds": (FIRST, SECOND), "progress": False}
    return Settings(tmp_path / "results", tmp_path / "runs", **options)


def page(settings, name):
    return (settings.out / f"{name}.md").read_text()


def row(text, start):
    """Returns the cells of the first row of a table that starts like this."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]
