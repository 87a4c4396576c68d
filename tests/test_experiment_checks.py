"""Methods that can't be in an experiment are refused before anything is run."""

import dataclasses
from pathlib import Path

import pytest

from dusdi import experiments
from dusdi.cli import main
from dusdi.errors import UsageError
from dusdi.experiments import EXPERIMENTS, Settings, reproduce
from dusdi.experiments.checks import CHOICE_OF_METHODS
from dusdi.methods import METHODS
from dusdi.methods.diayn import Diayn
from dusdi.methods.sac import Flat
from dusdi.skill_space import SkillSpace

WORLD = "gunner-2d"


class Explorer(Diayn):
    """A method that explores without skills; what it learns is fine-tuned."""

    name = "explorer"
    used_by = "fine-tuning"

    def __init__(self, spec, settings):
        self.skill_space = SkillSpace(())


class SkillsToTune(Diayn):
    """A method that says that its result is fine-tuned, but learns skills."""

    name = "skills-to-tune"
    used_by = "fine-tuning"


class NothingToChoose(Explorer):
    """A method that says that a hierarchy chooses its skills, but has none."""

    name = "nothing-to-choose"
    used_by = "hierarchy"


class OtherFlat(Flat):
    """Another method that learns a task from its reward."""

    name = "other-flat"


@pytest.fixture
def done(monkeypatch):
    """The jobs that were begun, each of which fails at once."""
    begun = []

    def begin(job, folders, progress=False):
        begun.append(job.kind)
        raise ZeroDivisionError

    monkeypatch.setattr(experiments, "run", begin)
    for method in (Explorer, SkillsToTune, NothingToChoose, OtherFlat):
        monkeypatch.setitem(METHODS, method.name, method)
    return begun


@pytest.fixture
def settings(tmp_path):
    options = {"seeds": 1, "preset": "debug", "worlds": (WORLD,), "progress": False}
    return Settings(tmp_path / "results", tmp_path / "runs", **options)


@pytest.mark.parametrize(
    ("name", "methods", "message"),
    [
        ("table1", ("sac",), "'sac' can't be in table1: it learns from a task's reward"),
        ("table1", ("dusdi", "sac"), "choose among dusdi, diayn"),
        ("table1", ("explorer",), "explorer.* has no skills whose disentanglement"),
        ("more-factors", ("explorer",), "explorer.* has no skills whose disentanglement"),
        ("more-factors", ("sac",), "'sac' can't be in more-factors"),
        ("fig4", ("other-flat",), "'other-flat' can't be in fig4: it learns from a task's reward"),
        ("tuning", ("other-flat",), "'other-flat' can't be in tuning: it learns from a task's"),
        ("fig4", ("dusdi", "skills-to-tune"), "only a policy without any is fine-tuned"),
        ("fig4", ("nothing-to-choose",), "no skills that a task could choose among"),
        ("susd", ("icm",), "'icm' can't be in susd: it has no skills"),
        ("susd", ("dusdi", "sac"), "'sac' can't be in susd: it learns from a task's reward"),
        ("table1", ("dusd",), "did you mean dusdi"),
        ("fig4", ("dusd",), "did you mean dusdi"),
        ("more-factors", ("dusd",), "did you mean dusdi"),
        ("fig4", ("dusdi", "sac", "dusdi"), "names 'dusdi' twice"),
    ],
)
def test_a_method_that_can_not_be_in_an_experiment_is_refused(
    done, settings, name, methods, message
):
    worlds = () if name in ("more-factors", "susd") else settings.worlds
    with pytest.raises(UsageError, match=message):
        reproduce(name, dataclasses.replace(settings, worlds=worlds, methods=methods))
    assert done == [] and not settings.out.exists()


@pytest.mark.parametrize("method", ["sac", "explorer", "diayn"])
def test_methods_that_can_be_in_the_figure_of_tasks_are_begun(done, settings, method):
    with pytest.raises(experiments.DusdiError, match="jobs failed"):
        reproduce("fig4", dataclasses.replace(settings, methods=(method,)))
    assert done  # which is when they failed


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - set(CHOICE_OF_METHODS)))
def test_experiments_without_a_choice_of_methods_say_so(done, settings, name):
    with pytest.raises(UsageError, match=f"{name} compares variants of DUSDi.* is for table1"):
        reproduce(name, dataclasses.replace(settings, methods=("diayn",)))
    assert done == []


@pytest.mark.parametrize("name", CHOICE_OF_METHODS)
def test_the_other_experiments_make_the_methods_that_are_chosen(settings, name):
    experiment = experiments.load_experiment(name)
    wanted = dataclasses.replace(settings, worlds=(), methods=("diayn",))
    methods = {cell.labels["method"].split(", ")[0] for cell in experiment.cells(wanted)}
    assert methods - {"scripted reference", "pictures"} == {"diayn"}


def test_a_folder_of_runs_that_can_not_be_written_is_said_before_anything_is_run(done, settings):
    settings.runs.write_text("precious")
    with pytest.raises(UsageError, match=r"can't write into .*runs .*--runs"):
        reproduce("fig3", settings)
    assert done == []


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ("", "results"),
        ("--seeds 5 --worlds gunner-2d --jobs 2", "results"),
        ("--preset debug", "runs/results"),
        ("--preset debug --out results", "results"),
        ("--steps 20_480", "runs/results"),
        ("--task-steps 20_480", "runs/results"),
        ("--evaluation-steps 20_000", "runs/results"),
        ("--seeds 1", "runs/results"),
    ],
)
def test_only_published_settings_are_written_into_the_published_results(monkeypatch, words, folder):
    chosen = []
    monkeypatch.setattr(
        "dusdi.cli.reproduce.reproduce", lambda name, settings: chosen.append(settings) or []
    )
    assert main(["reproduce", "table1", *words.split()]) == 0
    assert chosen[0].out == Path(folder)
