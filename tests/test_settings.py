"""Groups of settings: the paper's defaults, ranges, types and JSON."""

import dataclasses
import math

import numpy as np
import pytest

from dusdi.errors import CheckpointError, UsageError
from dusdi.methods import METHODS
from dusdi.presets import PPO_PRESETS, PRESETS
from dusdi.resolve import DOWNSTREAM_GROUPS, pretrain_groups
from dusdi.settings import (
    NetworkSettings,
    PPOSettings,
    RunSettings,
    SACSettings,
    TaskRunSettings,
    without_groups,
)

GROUPS = {
    **{f"{name}/{group}": kind for name, method in METHODS.items()
       for group, kind in pretrain_groups(method).items()},
    **{f"ppo/{group}": kind for group, kind in DOWNSTREAM_GROUPS.items()},
}  # fmt: skip


def test_defaults_are_the_papers_table():
    run = RunSettings()
    sac = SACSettings()
    networks = NetworkSettings()
    dusdi = METHODS["dusdi"].Settings()
    assert (run.steps, run.num_envs, run.skill_length) == (4_000_000, 4, 50)
    assert (sac.actor_lr, sac.critic_lr, dusdi.discriminator_lr) == (1e-4, 1e-4, 1e-4)
    assert (sac.batch_size, sac.tau, sac.alpha, sac.steps_per_update) == (1024, 0.01, 0.02, 2)
    assert networks.actor_hidden == networks.critic_hidden == (1024, 1024)
    assert dusdi.discriminator_hidden == (1024, 1024)
    assert (networks.log_std_min, networks.log_std_max) == (-10, 2)
    assert (dusdi.penalty_weight, dusdi.component) == (0.1, "categorical:5")
    assert METHODS["diayn"].Settings().max_skills == 4096
    assert sac.decompose_q
    assert dusdi.penalty == "paper"
    assert networks.skill_input == "concat"
    ppo = PPOSettings()
    assert (ppo.hidden, ppo.learning_rate, ppo.batch_size) == ((128, 128), 1e-4, 32)
    assert (ppo.clip, ppo.gae_lambda, TaskRunSettings().rollout_length) == (0.1, 0.98, 20)


@pytest.mark.parametrize("kind", GROUPS.values(), ids=GROUPS)
def test_every_field_is_documented_and_groups_are_frozen(kind):
    assert all(field.metadata["doc"] for field in kind.fields().values())
    group = kind()
    for name in list(kind.fields())[:1]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(group, name, 3)


@pytest.mark.parametrize("method", METHODS)
def test_names_are_unique_within_a_run(method):
    names = [name for kind in pretrain_groups(METHODS[method]).values() for name in kind.fields()]
    assert len(names) == len(set(names))


def test_names_are_unique_within_a_run_over_skills():
    names = [name for kind in DOWNSTREAM_GROUPS.values() for name in kind.fields()]
    assert len(names) == len(set(names))


def test_settings_without_groups_stand_beside_those_that_have_none():
    nested = {"method": "dusdi", "run": {"seed": 1, "steps": 2}, "sac": {"tau": 0.5}, "empty": {}}
    assert without_groups(nested) == {"method": "dusdi", "seed": 1, "steps": 2, "tau": 0.5}


def test_presets_name_only_fields_that_there_are():
    pretrain = {name for kind in pretrain_groups(METHODS["sac"]).values() for name in kind.fields()}
    assert {name for preset in PRESETS.values() for name in preset} <= pretrain
    downstream = {name for kind in DOWNSTREAM_GROUPS.values() for name in kind.fields()}
    assert {name for preset in PPO_PRESETS.values() for name in preset} <= downstream
    for method in METHODS.values():
        own = {name for kind in pretrain_groups(method).values() for name in kind.fields()}
        assert {name for preset in method.presets.values() for name in preset} <= own


@pytest.mark.parametrize("kind", GROUPS.values(), ids=GROUPS)
def test_json_round_trip(kind):
    group = kind()
    data = group.to_json()
    assert kind.from_json(data) == group
    if not data:
        return
    first = next(iter(data))
    with pytest.raises(CheckpointError, match="'surprise'"):
        kind.from_json({**data, "surprise": 1})
    for name in data:
        less = {n: value for n, value in data.items() if n != name}
        if name in ("steps", "seed", "seeds"):
            with pytest.raises(CheckpointError, match=f"lacks the setting '{name}'"):
                kind.from_json(less)
        else:
            with pytest.warns(UserWarning, match=f"lacks the setting '{name}'.* the default"):
                assert kind.from_json(less) == group
    with pytest.raises(CheckpointError, match="settings of this run can't be"):
        kind.from_json({**data, first: [[]]})


@pytest.mark.parametrize("data", [None, 3, [], "steps"])
def test_json_that_is_no_table_is_refused(data):
    with pytest.raises(CheckpointError, match="table of names and values"):
        RunSettings.from_json(data)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (RunSettings, {"steps": 0}, "steps must be positive, not 0"),
        (RunSettings, {"steps": 2**31}, "steps must be at most 2,147,483,647"),
        (RunSettings, {"steps": 1.5}, "steps is a whole number, not 1.5"),
        (RunSettings, {"steps": "many"}, "steps is a number, not 'many'"),
        (RunSettings, {"steps": True}, "steps is a number, not True"),
        (RunSettings, {"steps": math.nan}, "steps must be a finite number"),
        (RunSettings, {"steps": 10**400}, "steps is far too large"),
        (RunSettings, {"seed": 2**31}, "seed must be at most"),
        (RunSettings, {"seed": 2**31 - 2, "seeds": 3}, "seed must be from 0 to 2147483644"),
        (RunSettings, {"seed": -1}, "seed must be at least 0"),
        (RunSettings, {"skill_length": 100_001}, "skill_length must be at most 100,000"),
        (NetworkSettings, {"actor_hidden": ()}, "actor_hidden needs at least one layer"),
        (NetworkSettings, {"actor_hidden": (0,)}, "each entry of actor_hidden must be positive"),
        (NetworkSettings, {"actor_hidden": "64"}, "actor_hidden is a list of whole numbers"),
        (NetworkSettings, {"critic_hidden": (16_385,)}, "at most 16,384"),
        (NetworkSettings, {"skill_input": "flim"}, "did you mean film"),
        (NetworkSettings, {"additive_actor": 1}, "additive_actor is true or false, not 1"),
        (NetworkSettings, {"log_std_min": 3.0}, "log_std_min .* must be less than log_std_max"),
        (SACSettings, {"discount": 1.0}, "discount must be less than 1, not 1.0"),
        (SACSettings, {"tau": 0.0}, "tau must be positive"),
        (SACSettings, {"tau": 1.5}, "tau must be at most 1"),
        (SACSettings, {"alpha": math.inf}, "alpha must be a finite number"),
        (SACSettings, {"batch_size": 9, "replay_capacity": 8}, "batch_size .9. must not be more"),
        (SACSettings, {"learn_alpha": True, "target_entropy": 0.7}, "log 2"),
        (PPOSettings, {"hidden": ()}, "hidden needs at least one layer"),
        (PPOSettings, {"gae_lambda": 1.1}, "gae_lambda must be at most 1"),
    ],
)
def test_bad_values_are_refused_with_the_field_named(kind, fields, message):
    with pytest.raises(UsageError, match=message):
        kind(**fields)


def test_values_come_in_their_types():
    networks = NetworkSettings(actor_hidden=64, input_gain=1)
    assert networks.actor_hidden == (64,)
    assert isinstance(networks.input_gain, float)
    assert NetworkSettings(actor_hidden=[8, 8.0]).actor_hidden == (8, 8)
    steps = RunSettings(steps=np.int64(5)).steps
    assert type(steps) is int
    assert type(RunSettings(steps=5e3).steps) is int


@pytest.mark.parametrize(
    ("method", "fields", "message"),
    [
        ("dusdi", {"penalty": "clubb"}, "did you mean club"),
        ("dusdi", {"penalty_weight": -0.1}, "penalty_weight must be at least 0"),
        ("dusdi", {"component": "categorical:1"}, "2 to 1,000,000 values"),
        ("dusdi", {"components": ("ball",)}, "each entry of components is NAME=VALUE, not 'ball'"),
        ("dusdi", {"components": ("ball=box",)}, "a component's space is"),
        ("dusdi", {"components": {"ball": "bx:1"}}, "a component's space is"),
        ("dusdi", {"rewards": ("ball",)}, "each entry of rewards is NAME=VALUE, not 'ball'"),
        ("dusdi", {"rewards": {"ball": 3}}, "a reward is a function or package.module:function"),
        ("dusdi", {"rbf_features": 1}, "rbf_features must be 0"),
        ("dusdi", {"background_weight": math.inf}, "background_weight must be a finite number"),
        ("dusdi", {"background_steps": 0}, "background_steps must be positive"),
        ("dusdi", {"discriminator_hidden": (0,)}, "discriminator_hidden must be positive"),
        ("dusdi", {"prior_mixture": 1.0}, "prior_mixture must be less than 1"),
        ("diayn", {"max_skills": 1}, "max_skills must be at least 2"),
        ("diayn-mc", {"rbf_features": 1}, "rbf_features must be 0"),
    ],
)
def test_bad_values_of_methods_are_refused(method, fields, message):
    with pytest.raises(UsageError, match=message):
        METHODS[method].Settings(**fields)


def test_spaces_may_be_handed_in_as_objects():
    from dusdi.spaces import Box, Sphere

    settings = METHODS["dusdi"].Settings(component=Box(2), components={"ball": Sphere(3)})
    assert settings.component == "box:2"
    assert settings.components == ("ball=sphere:3",)
    assert METHODS["dusdi"].Settings(components={"a": "box:1", "b": Box(2)}).components == (
        "a=box:1",
        "b=box:2",
    )
