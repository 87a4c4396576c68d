"""SAC on probe problems of rising difficulty whose values are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import make_space

from dusdi.agents.sac import SAC
from dusdi.nets import squashed_gaussian
from dusdi.presets import PRESETS
from dusdi.settings import NetworkSettings, SACSettings
from dusdi.spaces import Box, Categorical
from dusdi.types import Batch, Transition

BATCH = 128
KEY = jax.random.PRNGKey(0)
ONE = make_space(z=Categorical(2))
TWO = make_space(a=Categorical(3), b=Categorical(3))


def make_sac(channels=1, observation_size=2, action_size=1, space=ONE, **fields):
    """The learner of preset `fast` with small networks."""
    defaults = dict(
        actor_hidden=(32, 32), critic_hidden=(32, 32), discount=0.9, alpha=1e-3, input_gain=0.0
    )
    values = {**PRESETS["fast"], **defaults, **fields}
    groups = [
        kind(**{name: value for name, value in values.items() if name in kind.fields()})
        for kind in (NetworkSettings, SACSettings)
    ]
    return SAC(observation_size, action_size, space, channels, *groups)


def make_batch(observation, action, next_observation, terminated, skill=None):
    terminated = jnp.broadcast_to(jnp.asarray(terminated, jnp.float32), BATCH)
    raw = Transition(
        observation=observation,
        action=action,
        reward=jnp.zeros((BATCH, 0)),
        next_observation=next_observation,
        terminated=terminated,
        skill=jnp.zeros((BATCH, 1), jnp.int32) if skill is None else skill,
        skill_age=jnp.full(BATCH, 20),
    )
    return Batch(*raw, raw=raw)


def learn(sac, draw, updates=1500):
    """Trains on batches that `draw(key) -> (batch, reward)` makes."""

    def step(state, key):
        batch_key, update_key = jax.random.split(key)
        batch, reward = draw(batch_key)
        return sac.update(state, update_key, batch, reward, 0)[0], None

    keys = jax.random.split(jax.random.PRNGKey(1), updates)
    return jax.jit(lambda: jax.lax.scan(step, sac.init(KEY), keys)[0])()


def q_of(sac, state, batch):
    return jax.jit(sac.q_values)(state.critic, batch.observation, batch.action, batch.skill)


def uniform(key, size=1):
    return jax.random.uniform(key, (BATCH, size), minval=-1.0, maxval=1.0)


def constant(reward, terminated=False):
    """Batches of one state, in which every action earns the same."""
    nowhere = jnp.zeros((BATCH, 2))
    rewards = jnp.tile(jnp.array(reward), (BATCH, 1))
    return lambda key: (make_batch(nowhere, uniform(key), nowhere, terminated), rewards)


def bandit(key):
    """One state and one step; the best action is 0.4."""
    action = uniform(key)
    nowhere = jnp.zeros((BATCH, 2))
    return make_batch(nowhere, action, nowhere, True), -((action - 0.4) ** 2)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        pytest.param({"twin_critics": True}, marks=pytest.mark.slow),
        pytest.param({"skill_input": "concat"}, marks=pytest.mark.slow),
    ],
)
def test_constant_reward_is_worth_its_discounted_sum_in_each_channel(fields):
    sac = make_sac(channels=2, **fields)
    draw = constant([1.0, -0.5])
    q = q_of(sac, learn(sac, draw), draw(KEY)[0])
    np.testing.assert_allclose(q.mean(1), [10.0, -5.0], rtol=0.05)  # r / (1 - 0.9)


def test_undecomposed_critic_learns_the_sum():
    sac = make_sac(channels=2, decompose_q=False)
    draw = constant([1.0, -0.5])
    q = q_of(sac, learn(sac, draw), draw(KEY)[0])
    assert q.shape == (1, BATCH)
    np.testing.assert_allclose(q.mean(), 5.0, rtol=0.05)


def test_one_step_bandit():
    sac = make_sac()
    state = learn(sac, bandit)
    batch, reward = bandit(jax.random.PRNGKey(2))
    # Nothing follows, so Q is the reward.
    np.testing.assert_allclose(q_of(sac, state, batch)[0], reward[:, 0], atol=0.06)
    mean = sac.mean_action(state.actor, batch.observation[:1], batch.skill[:1])
    np.testing.assert_allclose(mean, 0.4, atol=0.07)


@pytest.mark.slow
def test_two_step_chain_carries_value_back():
    """The first action chooses the second state; only there a reward is paid, -(x - 0.5)^2."""
    sac = make_sac()

    def draw(key):
        which, place_key, key = jax.random.split(key, 3)
        second = jax.random.bernoulli(which, shape=(BATCH, 1))
        action = uniform(key)
        place = uniform(place_key)
        there = jnp.concatenate([jnp.ones((BATCH, 1)), place], -1)
        after_first = jnp.concatenate([jnp.ones((BATCH, 1)), action], -1)
        observation = jnp.where(second, there, 0.0)
        batch = make_batch(observation, action, after_first, second[:, 0])
        return batch, jnp.where(second, -((place - 0.5) ** 2), 0.0)

    state = learn(sac, draw, updates=3000)
    skill = jnp.zeros((7, 1), jnp.int32)
    first = sac.mean_action(state.actor, jnp.zeros((1, 2)), skill[:1])
    np.testing.assert_allclose(first, 0.5, atol=0.1)
    actions = jnp.linspace(-0.9, 0.9, 7)[:, None]
    q = sac.q_values(state.critic, jnp.zeros((7, 2)), actions, skill)
    np.testing.assert_allclose(q[0], 0.9 * -((actions[:, 0] - 0.5) ** 2), atol=0.15)


def test_each_component_learns_its_own_action():
    """Channel i pays for action entry i being where component i says."""
    places = jnp.array([-0.6, 0.0, 0.6])
    sac = make_sac(channels=2, action_size=2, space=TWO)
    nowhere = jnp.zeros((BATCH, 2))

    def draw(key):
        skill = jax.random.randint(key, (BATCH, 2), 0, 3)
        action = uniform(key, 2)
        return make_batch(nowhere, action, nowhere, True, skill), -((action - places[skill]) ** 2)

    state = learn(sac, draw)
    skills = jnp.stack(jnp.meshgrid(jnp.arange(3), jnp.arange(3)), -1).reshape(-1, 2)
    actions = sac.mean_action(state.actor, jnp.zeros((9, 2)), skills)
    np.testing.assert_allclose(actions, places[skills], atol=0.12)


@pytest.mark.slow
def test_entropy_channel_holds_future_entropy_and_leaves_the_others_pure():
    """With a reward of zero, the skill channel is 0 and the other one alpha gamma H / (1 - gamma).

    H is the entropy of the policy.
    """
    sac = make_sac(entropy_backup="channel", alpha=0.5)
    draw = constant([0.0])
    state = learn(sac, draw)
    batch, _ = draw(jax.random.PRNGKey(2))
    q = q_of(sac, state, batch)
    policy = sac.distribution(state.actor, batch.observation, batch.skill)
    _, log_prob = squashed_gaussian(jax.random.PRNGKey(3), *policy)
    assert q.shape == (2, BATCH)
    np.testing.assert_allclose(q[0], 0.0, atol=0.02)
    np.testing.assert_allclose(q[1].mean(), 0.5 * 0.9 / 0.1 * -log_prob.mean(), rtol=0.1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # Q' = 2 and 3, log pi = -0.7, alpha = 0.5, gamma = 0.9, rewards 1 and -1
        (dict(entropy_backup="none"), [1 + 0.9 * 2, -1 + 0.9 * 3]),
        (dict(entropy_backup="split"), [1 + 0.9 * 2.175, -1 + 0.9 * 3.175]),
        (dict(entropy_backup="channel"), [1 + 0.9 * 2, -1 + 0.9 * 3, 0.9 * 4.35]),
        (dict(entropy_backup="channel", decompose_q=False), [0 + 0.9 * 2.35]),
    ],
)
def test_targets_by_hand(monkeypatch, fields, expected):
    sac = make_sac(channels=2, space=TWO, alpha=0.5, **fields)
    monkeypatch.setattr(
        "dusdi.agents.sac.squashed_gaussian",
        lambda key, mean, log_std: (mean, jnp.full(len(mean), -0.7)),
    )
    monkeypatch.setattr(
        SAC, "q_values",
        lambda self, critic, *rest: jnp.tile(jnp.arange(2.0, 2 + len(expected))[:, None], BATCH),
    )  # fmt: skip
    nowhere = jnp.zeros((BATCH, 2))
    ends = jnp.arange(BATCH) == 0
    skill = jnp.zeros((BATCH, 2), jnp.int32)
    batch = make_batch(nowhere, nowhere[:, :1], nowhere, ends, skill)
    reward = jnp.tile(jnp.array([1.0, -1.0]), (BATCH, 1))
    targets = jax.jit(lambda: sac._targets(sac.init(KEY), KEY, batch, reward))()
    np.testing.assert_allclose(targets[:, 1], expected, rtol=1e-5)
    # Nothing follows where the world ended: the reward alone, and no entropy.
    alone = {1: [0.0], 2: [1.0, -1.0], 3: [1.0, -1.0, 0.0]}[len(expected)]
    np.testing.assert_allclose(targets[:, 0], alone, atol=1e-6)


@pytest.mark.slow
def test_learned_temperature_reaches_the_target_entropy():
    sac = make_sac(learn_alpha=True, alpha=0.1, target_entropy=-0.5)
    state = learn(sac, bandit, updates=4000)
    policy = sac.distribution(state.actor, jnp.zeros((4096, 2)), jnp.zeros((4096, 1), jnp.int32))
    _, log_prob = squashed_gaussian(jax.random.PRNGKey(3), *policy)
    np.testing.assert_allclose(-log_prob.mean(), -0.5, atol=0.15)


def test_an_additive_actor_is_a_sum_over_components():
    space = make_space(a=Categorical(2), b=Box(2), c=Categorical(3))
    sac = make_sac(channels=3, space=space, action_size=2, additive_actor=True)
    np.testing.assert_array_equal(
        sac.actor_skill_mask,
        [[1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]],
    )
    actor = jax.jit(lambda: sac.init(KEY).actor)()
    base = jnp.array([0.0, 0.3, -0.4, 1.0])
    # A change of one component changes the mean by the same amount whatever the others are.
    skills = (
        jnp.stack(
            [base, base.at[0].set(1.0), base.at[3].set(2.0), base.at[jnp.array([0, 3])].set(1.0)]
        )
        .at[3, 3]
        .set(2.0)
    )
    mean, _ = jax.jit(sac.distribution)(actor, jnp.ones((4, 2)), skills)
    np.testing.assert_allclose(mean[1] - mean[0], mean[3] - mean[2], atol=1e-5)
    assert np.abs(mean[1] - mean[0]).max() > 1e-3


def test_the_actor_waits_for_the_critics():
    sac = make_sac(actor_start=64, learn_alpha=True)
    before = sac.init(KEY)
    batch, reward = bandit(KEY)
    update = jax.jit(lambda step: sac.update(before, KEY, batch, reward, step)[0])

    def learned(after):
        """The parts of the state in which some number has changed."""
        return {
            name
            for name, old in vars(before).items()
            if not all(
                map(np.array_equal, jax.tree.leaves(old), jax.tree.leaves(vars(after)[name]))
            )
        }

    critics = {"critic", "target_critic", "critic_optimiser"}
    assert learned(update(63)) == critics
    waited = {"actor", "log_alpha", "actor_optimiser", "alpha_optimiser"}
    assert learned(update(64)) == critics | waited
