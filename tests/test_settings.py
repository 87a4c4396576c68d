import dataclasses

import pytest

from dusdi.config import PRESETS, Config, PPOConfig, configure, from_json
from dusdi.errors import UsageError


def test_paper_preset_is_the_papers_table():
    config = configure("paper", {}, {})
    assert (config.actor_lr, config.critic_lr, config.discriminator_lr) == (1e-4, 1e-4, 1e-4)
    assert (config.batch_size, config.tau, config.alpha) == (1024, 0.01, 0.02)
    assert (
        config.actor_hidden == config.critic_hidden == config.discriminator_hidden == (1024, 1024)
    )
    assert (config.steps_per_update, config.num_envs, config.skill_length) == (2, 4, 50)
    assert (config.log_std_min, config.log_std_max) == (-10, 2)
    assert (config.penalty_weight, config.skill_values, config.steps, config.max_skills) == (
        0.1,
        5,
        4_000_000,
        4096,
    )
    assert config.decompose_q and config.penalty == "paper" and config.skill_input == "concat"


def test_every_field_is_documented():
    assert all(
        field.metadata["doc"] for kind in (Config, PPOConfig) for field in kind.fields().values()
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_survive_json(preset):
    config = configure(preset, {}, {})
    assert from_json(config.to_json()) == config


def test_the_world_changes_the_preset_and_the_user_has_the_last_word():
    presets = {"fast": {"alpha": 0.5, "discount": 0.8}}
    config = configure("fast", presets, {"alpha": 0.7})
    assert (config.alpha, config.discount, config.preset) == (0.7, 0.8, "fast")
    assert configure("debug", presets, {}).alpha == configure("debug", {}, {}).alpha


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"alhpa": 1.0}, "alpha"),
        ({"penalty": "clubb"}, "club"),
        ({"steps": 0}, "steps"),
        ({"num_envs": 6, "steps_per_update": 4}, "multiple of steps_per_update"),
        ({"input_limit": 8, "input_gain": 0.0}, "input_limit needs input_gain"),
        ({"input_limit": -1}, "input_limit must be at least 0"),
        ({"num_envs": 3, "steps_per_update": 1}, "replay_capacity"),
        ({"skill_values": 1}, "at least 2"),
        ({"mask_steps": 50}, "skill_length"),
        ({"discount": 1.0}, "discount"),
        ({"tau": 0.0}, "tau"),
        ({"actor_hidden": ()}, "actor_hidden"),
        ({"penalty_weight": -0.1}, "penalty_weight"),
        ({"seed": 2**31}, "seed"),
        ({"seed": -1}, "seed"),
        ({"learn_alpha": True, "target_entropy": 0.7}, "log 2"),
        ({"normalise_observations": False}, "discriminator_bumps"),
        ({"discriminator_hidden": (0,)}, "discriminator_hidden"),
        ({"elsewhere_weight": float("inf")}, "elsewhere_weight"),
        ({"elsewhere_steps": 0}, "elsewhere_steps"),
        ({"discriminator_decay": -1.0}, "discriminator_decay"),
        ({"reward_floor": 1.0}, "reward_floor"),
    ],
)
def test_bad_values_are_refused_with_the_field_named(fields, message):
    with pytest.raises(UsageError, match=message):
        configure("debug", {}, fields)


def test_unknown_preset_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean fast"):
        configure("fats", {}, {})


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().steps = 3  # type: ignore[misc]
