"""How the settings of a run come about: layers, where each value comes from, and JSON."""

import dataclasses
from types import SimpleNamespace

import pytest
from probes import Noise, settings_for

from dusdi.envs import WORLDS
from dusdi.errors import CheckpointError, UsageError
from dusdi.methods import METHODS
from dusdi.methods.base import MethodSettings
from dusdi.presets import PPO_PRESETS, PRESETS
from dusdi.resolve import (
    DOWNSTREAM_GROUPS,
    DownstreamSettings,
    Layer,
    PretrainSettings,
    changed,
    pretrain_groups,
    resolve_downstream,
    resolve_pretrain,
)
from dusdi.settings import setting
from dusdi.tasks import TASKS, make_task

WORLD = SimpleNamespace(
    spec=Noise.spec,
    presets={"fast": {"alpha": 0.5, "discount": 0.8, "penalty_lr": 1e-3, "tau": 0.5}},
    method_presets={"fast": {"dusdi": {"alpha": 0.6, "penalty_start": 5}}},
    task_presets={"fast": {"ppo": {"clip": 0.3}, "sac": {"tau": 0.03}}},
)


def test_each_layer_counts_more_than_those_before_it():
    settings, origins = resolve_pretrain(
        WORLD, "dusdi", "fast", {"alpha": 0.7}, more=[Layer("a start", {"tau": 0.4})]
    )
    found = {name: (settings.flat()[name], origins[name]) for name in origins}
    assert found["penalty_weight"] == (0.5, "dusdi's preset fast")
    assert found["num_envs"] == (256, "preset fast")
    assert found["rbf_features"] == (16, "dusdi's preset fast")
    assert found["discount"] == (0.8, "world noise")
    assert found["penalty_start"] == (5, "world noise")
    assert found["tau"] == (0.4, "a start")
    assert found["alpha"] == (0.7, "you")
    assert (settings.method, settings.preset) == ("dusdi", "fast")
    assert set(origins) == set(settings.flat())


def test_a_methods_preset_counts_more_than_the_shared_one():
    settings, origins = resolve_pretrain(WORLD, "sac", "debug")
    assert (settings.run.steps, origins["steps"]) == (6_400, "sac's preset debug")
    assert (settings.sac.actor_lr, origins["actor_lr"]) == (1e-3, "sac's preset fast")
    # The shared preset debug comes after the method's preset fast.
    assert (settings.networks.actor_hidden, origins["actor_hidden"]) == ((16, 16), "preset debug")


def test_the_flat_agent_is_soft_actor_critic_as_its_authors_have_it():
    """And not the variant for skills, which leaves out entropy and deviations by state."""
    settings = settings_for(Noise.spec, "sac", "fast")
    sac = settings.sac
    networks = settings.networks
    assert sac.entropy_backup == "split" and not sac.decompose_q
    assert not networks.state_independent_std and not networks.additive_actor
    assert (sac.twin_critics, sac.learn_alpha, sac.target_entropy) == (True, True, -0.5)
    assert networks.actor_hidden == networks.critic_hidden == (128, 128)
    assert (networks.input_gain, networks.log_std_min) == (0.0, -5.0)
    assert (sac.discount, sac.tau, sac.actor_lr, sac.critic_lr) == (0.99, 0.01, 1e-3, 1e-3)
    assert settings_for(Noise.spec, "sac", "paper").sac.discount == 0.99


def test_what_debug_does_not_say_is_that_of_fast():
    fast = settings_for(Noise.spec, preset="fast").flat()
    debug = settings_for(Noise.spec, preset="debug").flat()
    different = {name for name in fast if fast[name] != debug[name]}
    assert different == set(PRESETS["debug"])
    paper = settings_for(Noise.spec, preset="paper")
    assert paper.objective == METHODS["dusdi"].Settings()


def test_worlds_presets_are_for_the_preset_they_name():
    debug, _ = resolve_pretrain(WORLD, "dusdi", "debug")
    assert debug.sac.alpha == PRESETS["fast"]["alpha"]


def test_what_a_world_says_of_other_methods_settings_is_passed_over():
    class Other(METHODS["diayn"]):
        Settings = MethodSettings
        presets = {}

    settings, origins = resolve_pretrain(WORLD, Other, "fast")
    assert "penalty_lr" not in origins
    assert settings.sac.discount == 0.8


def test_a_method_whose_preset_names_no_setting_is_refused():
    class Misspelt(METHODS["diayn"]):
        presets = {"fast": {"mask_step": 0}}

    with pytest.raises(UsageError, match="unknown setting 'mask_step'; did you mean mask_steps"):
        resolve_pretrain(WORLD, Misspelt, "fast")


@pytest.mark.parametrize("agent", ["ppo", "cpg"])
def test_runs_over_skills(agent):
    settings, origins = resolve_downstream(WORLD, agent, "fast", {"epochs": 3})
    assert (settings.ppo.clip, origins["clip"]) == (0.3, "task noise")
    assert (settings.ppo.epochs, origins["epochs"]) == (3, "you")
    assert (settings.run.num_envs, origins["num_envs"]) == (64, "preset fast")
    assert origins["value_weight"] == "default"
    assert settings.agent == agent


def test_flat_runs_leave_the_worlds_presets_for_skills_out():
    settings, origins = resolve_downstream(WORLD, "sac", "fast")
    assert (settings.sac.tau, origins["tau"]) == (0.03, "task noise")
    assert (settings.sac.discount, origins["discount"]) == (0.99, "sac's preset fast")
    assert settings.method == "sac"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"alhpa": 1.0}, "unknown setting 'alhpa'; did you mean alpha"),
        ({"num_envs": 6, "steps_per_update": 4}, "steps_per_update, too, for instance to 2 or 6"),
        ({"num_envs": 3, "steps_per_update": 1}, "replay_capacity .* for instance 2049"),
        ({"mask_steps": 50}, "mask_steps .50. must be smaller than skill_length"),
        ({"normalise_observations": False}, "rbf_features need normalise_observations"),
        ({"steps": 320}, "nothing would be learned in 320 steps: the first 320 are random"),
        ({"steps": 30, "random_steps": 0}, "nothing would be learned in 30 steps: the first 32"),
    ],
)
def test_what_does_not_go_together_is_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        settings_for(Noise.spec, **fields)


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(UsageError, match="unknown preset 'fats'; did you mean fast"):
        settings_for(Noise.spec, preset="fats")
    with pytest.raises(UsageError, match="unknown method 'dussdi'; did you mean dusdi"):
        settings_for(Noise.spec, "dussdi")
    with pytest.raises(UsageError, match="unknown agent 'pp0'; did you mean ppo"):
        resolve_downstream(WORLD, "pp0")
    with pytest.raises(UsageError, match="unknown setting 'epoch'; did you mean epochs"):
        resolve_downstream(WORLD, "ppo", fields={"epoch": 3})
    with pytest.raises(UsageError, match=r"batch_size .81. must not be more than the 80"):
        resolve_downstream(WORLD, "ppo", "debug", {"batch_size": 81})


def test_a_methods_settings_may_not_share_names_with_those_of_all_runs():
    @dataclasses.dataclass(frozen=True)
    class Clashing(METHODS["dusdi"].Settings):
        batch_size: int = setting(3, "of something else")

    method = type("Clash", (METHODS["dusdi"],), {"name": "clash", "Settings": Clashing})
    with pytest.raises(UsageError, match="setting batch_size has the name of another"):
        settings_for(Noise.spec, method)


def test_methods_that_can_not_be_imported_are_refused():
    with pytest.raises(UsageError, match="can't be imported"):
        settings_for(Noise.spec, "no_such_module:Method")
    with pytest.raises(UsageError, match="can't be imported"):
        settings_for(Noise.spec, "dusdi.methods:Missing")
    with pytest.raises(UsageError, match=r"is not a class of dusdi.Method"):
        settings_for(Noise.spec, "dusdi.types:Factor")
    with pytest.raises(UsageError, match="a method is a name or a class"):
        settings_for(Noise.spec, 3)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_settings_survive_json(method, preset):
    settings = settings_for(Noise.spec, method, preset)
    data = settings.to_json()
    assert PretrainSettings.from_json(data) == settings
    for damaged in (
        {name: value for name, value in data.items() if name != "sac"},
        {**data, "more": {}},
        {**data, "method": "dussdi"},
        {**data, "method": 3},
        {**data, "preset": 3},
        {**data, "run": {**data["run"], "num_envs": 7}},
        None,
        [],
    ):
        with pytest.raises(CheckpointError):
            PretrainSettings.from_json(damaged)


@pytest.mark.parametrize("preset", PPO_PRESETS)
def test_settings_of_runs_over_skills_survive_json(preset):
    settings = resolve_downstream(WORLD, "cpg", preset).settings
    data = settings.to_json()
    assert DownstreamSettings.from_json(data) == settings
    with pytest.raises(CheckpointError, match="must not be more"):
        DownstreamSettings.from_json({**data, "ppo": {**data["ppo"], "batch_size": 10**6}})


def test_settings_can_be_changed_by_name():
    settings = settings_for(Noise.spec)
    longer = changed(settings, {"steps": 10_000, "alpha": 0.3})
    assert (longer.run.steps, longer.sac.alpha) == (10_000, 0.3)
    assert dataclasses.replace(longer, run=settings.run, sac=settings.sac) == settings
    with pytest.raises(UsageError, match="did you mean steps"):
        changed(settings, {"stesp": 1})


@pytest.mark.parametrize("name", WORLDS)
def test_presets_of_worlds_name_fields_of_some_method(name):
    kinds = [kind for method in METHODS.values() for kind in pretrain_groups(method).values()]
    known = {field for kind in kinds for field in kind.fields()}
    presets = WORLDS[name].presets
    own = WORLDS[name].method_presets
    assert {*presets, *own} <= set(PRESETS)
    assert {field for preset in presets.values() for field in preset} <= known
    assert {method for preset in own.values() for method in preset} <= set(METHODS)


@pytest.mark.parametrize("name", TASKS)
def test_presets_of_tasks_name_fields_of_their_agents(name):
    task = make_task(name)
    flat = {field for kind in pretrain_groups(METHODS["sac"]).values() for field in kind.fields()}
    over_skills = {field for kind in DOWNSTREAM_GROUPS.values() for field in kind.fields()}
    for agents in task.task_presets.values():
        assert set(agents) <= {"ppo", "sac"}
        assert set(agents.get("ppo", {})) <= over_skills
        assert set(agents.get("sac", {})) <= flat
    for agent in ("ppo", "sac"):
        resolve_downstream(task, agent, "fast")
        resolve_downstream(task, agent, "debug")
        resolve_downstream(task, agent, "paper")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", WORLDS)
def test_every_method_has_settings_in_every_world(name, preset):
    for method in METHODS:
        resolve_pretrain(WORLDS[name](), method, preset)
