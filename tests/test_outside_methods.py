"""Methods from outside the package: one goes all the way, and broken ones are refused."""

import csv
import dataclasses
import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import outside_method
import pytest
from probes import TINY, Track, make_space

import dusdi
from dusdi.controller import solves_task
from dusdi.errors import UsageError
from dusdi.experiments import Settings, reproduce
from dusdi.methods import find_method
from dusdi.methods.base import MethodSettings, named_pairs
from dusdi.settings import setting
from dusdi.spaces import Box, Sphere
from dusdi.trainers import SkillTrainer


@pytest.mark.slow
def test_a_method_from_outside_goes_all_the_way(tmp_path):
    """Named or handed in as a class: pretrain, load, evaluate, downstream."""
    folder = tmp_path / "wander"
    small = dict(steps=640, num_envs=16, progress=False)
    skills = dusdi.pretrain(
        Track(edge=99), method="outside_method:Wander", preset="debug", out=folder, **small
    )
    assert skills.space == make_space(direction=Sphere(2))
    assert skills.settings["objective"] == {"stride": 2.0}  # by its own preset
    with (folder / "progress.csv").open(newline="") as file:
        header = next(csv.reader(file))
    assert header.index("travel") < header.index("loss/critic")
    assert dusdi.load(folder).method == "outside_method:Wander"
    with pytest.warns(UserWarning, match="scores mean little"):
        scores = dusdi.evaluate(folder, Track(edge=99), steps=500)
    assert np.isfinite(scores.disentanglement)
    solution = dusdi.downstream(
        skills, Track(edge=99), preset="debug", progress=False,
        steps=800, num_envs=4, rollout_length=4, log_every=800,
    )  # fmt: skip
    decision = solution.decide(np.zeros((3, 2), np.float32))
    np.testing.assert_allclose(np.linalg.norm(decision, axis=1), 1, atol=1e-5)
    handed_in = dusdi.pretrain(
        Track(edge=99), method=outside_method.Wander, preset="debug", seed=0, stride=2.0, **small
    )
    jax.tree.map(np.testing.assert_array_equal, handed_in.params, skills.params)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:measured on")
def test_a_method_from_outside_is_in_tables_and_figures(tmp_path, monkeypatch):
    monkeypatch.setattr("dusdi.experiments.task_figure.EPISODES", 4)
    settings = Settings(
        tmp_path / "results",
        tmp_path / "runs",
        seeds=1,
        preset="debug",
        fields={"steps": 640},
        evaluation_steps=2_000,
        worlds=("gunner-2d",),
        methods=("dusdi", "outside_method:Wander"),
        task_fields={"steps": 8_000},
        progress=False,
    )
    one_task = dataclasses.replace(settings, tasks=("gunner-2d/limited",))
    for name, table, asked in (
        ("fig4", "fig4-final.csv", one_task),
        ("table1", "table1.csv", settings),
    ):
        files = reproduce(name, asked)
        assert any(path.suffix == ".png" for path in files)
        with (tmp_path / "results" / table).open(newline="") as file:
            methods = [row["method"] for row in csv.DictReader(file)]
        assert {"dusdi", "outside_method:Wander"} <= set(methods)
    records = [json.loads(path.read_text()) for path in (tmp_path / "results/records").iterdir()]
    metrics = [record["metric"] for record in records if record["job"]["kind"] == "skills"]
    assert sorted(metrics) == ["accuracy", "travel"]


class Curious(outside_method.Wander):
    """A method without skills, which is paid for moving at all; its policy is to be fine-tuned."""

    used_by = "fine-tuning"

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.skill_space = dusdi.SkillSpace(())

    def _travelled(self, batch):
        return jnp.abs(batch.raw.next_observation - batch.raw.observation).sum(-1)


@pytest.mark.slow
def test_a_method_without_skills_explores_and_is_fine_tuned(tmp_path):
    small = dict(TINY, preset="debug", progress=False)
    policy = dusdi.pretrain(Track(edge=99), method=Curious, out=tmp_path, **small)
    assert not len(policy.space) and not solves_task(tmp_path)
    with pytest.raises(UsageError, match="a flat policy has no skills"):
        dusdi.evaluate(tmp_path, Track(edge=99))
    with pytest.raises(UsageError, match="agent sac fine-tunes it"):
        dusdi.downstream(tmp_path, Track(edge=99), agent="ppo", progress=False)
    tuned = dusdi.downstream(tmp_path, Track(edge=99), agent="sac", **small)
    assert tuned.description["start"]["id"] == policy.description["id"]


@dataclasses.dataclass(frozen=True)
class _Undocumented(MethodSettings):
    stride: float = 1.0


@dataclasses.dataclass(frozen=True)
class _Clashing(MethodSettings):
    steps: int = setting(1, "the name of a setting that all runs have")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"name": None}, "needs a name"),
        ({"Settings": dict}, "needs Settings"),
        ({"Settings": _Undocumented}, "define its setting stride by setting"),
        ({"Settings": _Clashing}, "its setting steps has the name of another"),
        ({"presets": ["fast"]}, "presets should be like"),
    ],
)
def test_classes_that_are_no_whole_method_are_refused(attributes, message):
    broken = type("Broken", (outside_method.Wander,), attributes)
    with pytest.raises(UsageError, match=message):
        dusdi.pretrain(Track(), method=broken, preset="debug")


def test_an_abstract_method_is_refused():
    with pytest.raises(UsageError, match="lacks __init__, init, reward, update"):
        find_method("dusdi:Method")


def _made_with(**attributes):
    """A method whose `__init__` ends with these attributes."""

    def init(self, spec, settings):
        outside_method.Wander.__init__(self, spec, settings)
        for name, value in attributes.items():
            setattr(self, name, value)

    return {"__init__": init}


TWINS = dusdi.SkillSpace((dusdi.Component("a", Box(1)), dusdi.Component("a", Box(1))))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (_made_with(skill_space=[1]), "should be a SkillSpace"),
        (_made_with(skill_space=TWINS), "more than one component called 'a'"),
        (_made_with(channels=("x", "x")), "more than one channel called 'x'"),
        (_made_with(channels=()), "needs at least one reward channel"),
        ({"init": lambda self, key: {"a": "text"}}, "must return JAX arrays"),
        ({"update": lambda *_: None}, "must return the new state and a dict"),
        ({"update": lambda *_: (jnp.zeros(3), {})}, "a state like that of init"),
        ({"update": lambda *_: ((), {"x": jnp.zeros(2)})}, "the metric 'x' must be one number"),
        ({"update": lambda *_: ((), {"x": "y"})}, "the metric 'x' must be one number"),
        ({"reward": lambda *_: jnp.zeros(3)}, r"must give \[rows, channels\]"),
        ({"reward": lambda *_: None}, "not NoneType"),
    ],
)
def test_broken_methods_are_refused_in_a_sentence(attributes, message):
    broken = type("Broken", (outside_method.Wander,), attributes)
    with pytest.raises(UsageError, match=message):
        dusdi.pretrain(Track(), method=broken, preset="debug", progress=False)


def test_a_headline_that_is_no_dict_is_refused():
    method = SimpleNamespace(name="broken", headline=lambda row: None)
    trainer = SimpleNamespace(learner=SimpleNamespace(method=method))
    with pytest.raises(UsageError, match="headline of the method 'broken' must return a dict"):
        SkillTrainer.summarise(trainer, {"reward/a": 1.0})


def test_a_factor_is_named_once():
    with pytest.raises(UsageError, match="components names 'a' twice"):
        named_pairs("components", ("a=box:2", "a=box:3"))
