"""Policy files: folded layers act like the trained actor, in NumPy and JAX, and are small."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Track, linear_skills, make_space, settings_for

from dusdi import normalise
from dusdi.agents.ppo import PPO
from dusdi.envs import WORLDS
from dusdi.errors import CheckpointError, NonFiniteError, UsageError
from dusdi.learner import Learner
from dusdi.policy import (
    fold_actor,
    fold_mlp,
    forward,
    forward_mlp,
    policy_name,
    read_description,
    read_policy,
    write_policy,
)
from dusdi.resolve import resolve_pretrain
from dusdi.settings import PPOSettings
from dusdi.spaces import Box, Categorical

KEY = jax.random.PRNGKey(0)
SMALL = dict(actor_hidden=(8, 6), critic_hidden=(4,), rbf_features=0)


def trained(agent, size):
    """An actor of which no parameter is at its start, and moments of observations."""
    actor = jax.jit(lambda: agent.init(KEY).actor)()
    actor = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(KEY, x.shape), actor)
    data = 5 + 3 * jax.random.normal(KEY, (100, size)) * jnp.arange(1, size + 1)
    return actor, normalise.update(normalise.init(size), data)


def observations(size, count=20):
    """Some are far outside of what was seen, where the normaliser clips."""
    rows = np.random.default_rng(0).normal(5, 10, (count, size)).astype(np.float32)
    rows[0] = 1e4
    rows[1] = -1e4
    return rows


def as_trained(learner, actor, moments, observation, skill):
    seen = learner.normalised(moments, jnp.asarray(observation))
    return np.asarray(jax.jit(learner.agent.mean_action)(actor, seen, skill))


@pytest.mark.parametrize(
    ("additive", "skill_input", "normalised"),
    list(itertools.product([False, True], ["concat", "film"], [False, True])),
)
def test_folded_policies_act_like_the_trained_actor(spec, additive, skill_input, normalised):
    """Gains and deviations as outputs come along with one of the choices."""
    settings = settings_for(
        spec,
        components={"box": "sphere:2"},
        additive_actor=additive,
        skill_input=skill_input,
        normalise_observations=normalised,
        input_gain=0.1 if additive == normalised else 0.0,
        state_independent_std=skill_input == "film",
        **SMALL,
    )
    learner = Learner(spec, settings)
    actor, moments = trained(learner.agent, 4)
    policy = fold_actor(learner.agent, actor, moments)
    skill = np.asarray(learner.method.skill_space.sample(KEY, 20))
    observation = observations(4)
    expected = as_trained(learner, actor, moments, observation, skill)
    assert np.ptp(expected, axis=0).min() > 0.1
    for xp in (np, jnp):
        code = learner.method.skill_space.encode(skill, xp)
        np.testing.assert_allclose(forward(policy, observation, code, xp), expected, atol=1e-5)
    assert all(array.dtype in (np.float32, np.int32) for array in policy.values())


@pytest.mark.parametrize("normalised", [False, True])
def test_folded_flat_policies_act_like_the_trained_actor(normalised):
    settings = settings_for(Track.spec, "sac", normalise_observations=normalised, **{
        name: value for name, value in SMALL.items() if name != "rbf_features"
    })  # fmt: skip
    learner = Learner(Track.spec, settings)
    actor, moments = trained(learner.agent, 2)
    policy = fold_actor(learner.agent, actor, moments)
    observation = observations(2)
    nothing = np.zeros((20, 0), np.int32)
    expected = as_trained(learner, actor, moments, observation, nothing)
    for xp in (np, jnp):
        actions = forward(policy, observation, xp.zeros((20, 0)), xp)
        np.testing.assert_allclose(actions, expected, atol=1e-5)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("hidden", [(8,), (8, 6)])
def test_folded_high_level_policies_say_what_the_trained_one_does(hidden, normalised):
    space = make_space(a=Categorical(3), b=Box(2))
    ppo = PPO(4, space, np.ones((1, 2), bool), "ppo", PPOSettings(hidden=hidden))
    params = jax.jit(lambda: ppo.init(KEY).params)()
    params = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(KEY, x.shape), params)
    moments = normalise.update(normalise.init(4), 5 + 3 * jax.random.normal(KEY, (100, 4)))
    policy = fold_mlp(params["policy"], moments, normalised)
    observation = observations(4)
    seen = normalise.apply(moments, observation) if normalised else observation
    expected = np.asarray(ppo._policy.apply(params["policy"], seen))
    for xp in (np, jnp):
        np.testing.assert_allclose(
            forward_mlp(policy, observation, xp), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", WORLDS)
def test_policies_of_all_worlds_are_small(name, tmp_path):
    world = WORLDS[name]()
    settings = resolve_pretrain(world, "dusdi", "fast").settings
    agent = Learner(world.spec, settings).agent
    shapes = jax.eval_shape(lambda: agent.init(KEY).actor)
    actor = jax.tree.map(lambda x: np.ones(x.shape, x.dtype), shapes)
    policy = fold_actor(agent, actor, normalise.init(world.spec.observation_size))
    description = {"world": world.spec.to_json(), "settings": settings.to_json()}
    write_policy(tmp_path / "policy.safetensors", policy, description)
    assert (tmp_path / "policy.safetensors").stat().st_size < 1_000_000


# --- files ---


def test_what_is_written_is_read(tmp_path):
    policy = {"kernel": np.arange(6.0, dtype=np.float32).reshape(2, 3), "columns": np.arange(3)}
    policy["low"] = np.full(2, -np.inf, np.float32)
    path = tmp_path / policy_name(1, 0)
    write_policy(path, policy, {"seed": 3, "world": {"name": "ü"}})
    description, arrays = read_policy(path)
    assert description == {"format": 1, "seed": 3, "world": {"name": "ü"}}
    assert read_description(path) == description
    jax.tree.map(np.testing.assert_array_equal, arrays, policy)
    assert [policy_name(3, 7), path.name] == ["policy-seed7.safetensors", "policy.safetensors"]
    assert list(tmp_path.iterdir()) == [path]


def test_descriptions_are_read_without_the_arrays(tmp_path):
    path = tmp_path / "policy.safetensors"
    write_policy(path, {"kernel": np.ones((100, 100), np.float32)}, {"seed": 3})
    data = bytearray(path.read_bytes())
    data[-1000] ^= 0xFF
    path.write_bytes(data)
    assert read_description(path)["seed"] == 3
    with pytest.raises(CheckpointError, match="damaged"):
        read_policy(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"\x00" * len(data),
        lambda data: b"not a policy at all, but long enough to look like one",
        lambda data: data.replace(b"format", b"farmot"),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "policy.safetensors"
    write_policy(path, {"kernel": np.ones((10, 10), np.float32)}, {"seed": 3})
    path.write_bytes(damage(path.read_bytes()))
    for read in (read_policy, read_description):
        with pytest.raises(CheckpointError, match=r"policy\.safetensors is damaged .* --resume"):
            read(path)


def test_missing_files_and_numbers_that_are_none_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="damaged or not a policy file"):
        read_policy(tmp_path / "missing.safetensors")
    path = tmp_path / "policy.safetensors"
    write_policy(path, {"kernel": np.array([np.nan], np.float32)}, {"seed": 3})
    with pytest.raises(CheckpointError, match="kernel is not finite"):
        read_policy(path)


# --- skills act ---

SPACE = make_space(a=Categorical(2), b=Box(1))
SKILLS = linear_skills(Track.spec, SPACE, [[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]], skill_length=5)


def test_skills_act_on_one_observation_or_many():
    one = SKILLS.act(np.zeros(2), [1, 0.25])
    np.testing.assert_allclose(one, np.tanh([-1, 0.5]), rtol=1e-6)
    several = SKILLS.act(np.zeros((2, 2)), [[1, 0.25], [0, -1]])
    np.testing.assert_allclose(several, np.tanh([[-1, 0.5], [1, -2]]), rtol=1e-6)
    for skill in ([1, 0.25], [[1, 0.25]]):
        same = SKILLS.act(np.zeros((3, 2)), skill)
        np.testing.assert_allclose(same, np.tanh([[-1, 0.5]] * 3), rtol=1e-6)
    traced = jax.jit(SKILLS.mean_action)(SKILLS.params, jnp.zeros((1, 2)), jnp.array([[1, 0.25]]))
    np.testing.assert_allclose(traced[0], one, rtol=1e-5)


@pytest.mark.parametrize(
    ("observation", "skill", "message"),
    [
        (np.zeros(3), [1, 0.0], "'track' have 2 entries"),
        (np.zeros((2, 2, 2)), [1, 0.0], "'track' have 2 entries"),
        (np.zeros(2), [2, 0.0], "component 'a'"),
        (np.zeros(2), [1, 0.0, 0.0], "a skill here has"),
        (np.zeros((3, 2)), [[1, 0.0], [0, 0.0]], "one for each of 3 observations"),
        (np.zeros(2), [[1, 0.0], [0, 0.0]], "one for each of 1 observations"),
        (np.zeros((4, 2)), [[[1, 0.0]]], "one for each of 4 observations"),
    ],
)
def test_skills_refuse_what_does_not_fit(observation, skill, message):
    with pytest.raises(UsageError, match=message):
        SKILLS.act(observation, skill)


def test_actions_that_are_not_finite_are_refused():
    with pytest.raises(NonFiniteError, match="not finite"):
        linear_skills(Track.spec, SPACE, np.full((3, 2), np.nan), 5).act(np.zeros(2), [1, 0.0])
