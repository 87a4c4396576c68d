"""SAC on probe problems of rising difficulty whose values are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dusdi.config import configure

from dusdi.agents.sac import SAC
from dusdi.nets import squashed_gaussian
from dusdi.skills import Discrete
from dusdi.types import Transition

BATCH = 128


def learn(sac, make_batch, updates=1500):
    """Trains on batches that `make_batch(key) -> (transition, reward)` draws."""

    def step(state, key):
        batch_key, update_key = jax.random.split(key)
        batch, reward = make_batch(batch_key)
        state, metrics = sac.update(state, update_key, batch, reward)
        return state, metrics

    keys = jax.random.split(jax.random.PRNGKey(1), updates)
    return jax.jit(lambda s: jax.lax.scan(step, s, keys)[0])(sac.init(jax.random.PRNGKey(0)))


def make_sac(channels=1, observation_size=2, action_size=1, skill_space=Discrete(1, 2), **fields):
    defaults = dict(
        actor_hidden=(32, 32), critic_hidden=(32, 32), discount=0.9, alpha=1e-3, input_gain=0.0
    )
    config = configure("fast", {}, {**defaults, **fields})
    components = (
        tuple(range(channels)) if channels == skill_space.components else (None,) * channels
    )
    return SAC(observation_size, action_size, skill_space, components, config)


def batch_of(key, observation, action, successor, terminated):
    skill = jnp.zeros((BATCH, 1), jnp.int32)
    done = jnp.full(BATCH, float(terminated))
    return Transition(
        observation, action, jnp.zeros((BATCH, 0)), successor, done, skill, jnp.full(BATCH, 20)
    )


def uniform_action(key, size=1):
    return jax.random.uniform(key, (BATCH, size), minval=-1.0, maxval=1.0)


@pytest.mark.parametrize(
    "fields", [{}, {"twin_critics": True}, {"skill_input": "concat", "critic_skill": "all"}]
)
def test_constant_reward_is_worth_its_discounted_sum_in_each_channel(fields):
    sac = make_sac(channels=2, **fields)
    reward = jnp.tile(jnp.array([1.0, -0.5]), (BATCH, 1))

    def make_batch(key):
        return batch_of(
            key, jnp.zeros((BATCH, 2)), uniform_action(key), jnp.zeros((BATCH, 2)), False
        ), reward

    state = learn(sac, make_batch)
    batch, _ = make_batch(jax.random.PRNGKey(2))
    q = sac.q_values(state.critic, batch.observation, batch.action, batch.skill)
    np.testing.assert_allclose(q.mean(1), [10.0, -5.0], rtol=0.05)  # r / (1 - 0.9)


def test_undecomposed_critic_learns_the_sum():
    sac = make_sac(channels=2, decompose_q=False)
    reward = jnp.tile(jnp.array([1.0, -0.5]), (BATCH, 1))

    def make_batch(key):
        return batch_of(
            key, jnp.zeros((BATCH, 2)), uniform_action(key), jnp.zeros((BATCH, 2)), False
        ), reward

    state = learn(sac, make_batch)
    batch, _ = make_batch(jax.random.PRNGKey(2))
    q = sac.q_values(state.critic, batch.observation, batch.action, batch.skill)
    assert q.shape == (1, BATCH)
    np.testing.assert_allclose(q.mean(), 5.0, rtol=0.05)


def test_one_step_bandit():
    sac = make_sac()

    def make_batch(key):
        action = uniform_action(key)
        observation = jnp.zeros((BATCH, 2))
        return batch_of(key, observation, action, observation, True), -((action - 0.4) ** 2)

    state = learn(sac, make_batch)
    batch, reward = make_batch(jax.random.PRNGKey(2))
    q = sac.q_values(state.critic, batch.observation, batch.action, batch.skill)
    np.testing.assert_allclose(q[0], reward[:, 0], atol=0.06)  # nothing follows, so Q is the reward
    mean = sac.mean_action(state.actor, batch.observation[:1], batch.skill[:1])
    np.testing.assert_allclose(mean, 0.4, atol=0.07)


def test_two_step_chain_carries_value_back():
    """The first action chooses the second state; only there a reward is paid, -(x - 0.5)^2."""
    sac = make_sac()

    def make_batch(key):
        which, place_key, key = jax.random.split(key, 3)
        second = jax.random.bernoulli(which, shape=(BATCH, 1))
        action, place = uniform_action(key), uniform_action(place_key)
        first_obs, second_obs = (
            jnp.zeros((BATCH, 2)),
            jnp.concatenate([jnp.ones((BATCH, 1)), place], -1),
        )
        after_first = jnp.concatenate([jnp.ones((BATCH, 1)), action], -1)
        batch = batch_of(key, jnp.where(second, second_obs, first_obs), action, after_first, False)
        reward = jnp.where(second, -((place - 0.5) ** 2), 0.0)
        return batch._replace(terminated=second[:, 0].astype(jnp.float32)), reward

    state = learn(sac, make_batch, updates=3000)
    skill = jnp.zeros((1, 1), jnp.int32)
    np.testing.assert_allclose(
        sac.mean_action(state.actor, jnp.zeros((1, 2)), skill), 0.5, atol=0.1
    )
    actions = jnp.linspace(-0.9, 0.9, 7)[:, None]
    q = sac.q_values(state.critic, jnp.zeros((7, 2)), actions, jnp.zeros((7, 1), jnp.int32))
    np.testing.assert_allclose(q[0], 0.9 * -((actions[:, 0] - 0.5) ** 2), atol=0.15)


def test_each_component_learns_its_own_action():
    """Channel i pays for action entry i being where component i says."""
    places = jnp.array([-0.6, 0.0, 0.6])
    sac = make_sac(channels=2, action_size=2, skill_space=Discrete(2, 3))

    def make_batch(key):
        skill = jax.random.randint(key, (BATCH, 2), 0, 3)
        action = uniform_action(key, 2)
        batch = batch_of(key, jnp.zeros((BATCH, 2)), action, jnp.zeros((BATCH, 2)), True)
        return batch._replace(skill=skill), -((action - places[skill]) ** 2)

    state = learn(sac, make_batch)
    skills = jnp.stack(jnp.meshgrid(jnp.arange(3), jnp.arange(3)), -1).reshape(-1, 2)
    actions = sac.mean_action(state.actor, jnp.zeros((9, 2)), skills)
    np.testing.assert_allclose(actions, places[skills], atol=0.12)


def test_entropy_channel_holds_future_entropy_and_leaves_the_others_pure():
    """With a reward of zero, the skill channel is 0 and the entropy channel gamma * H / (1 - gamma), in units of alpha."""
    sac = make_sac(entropy_backup="channel", alpha=0.5)

    def make_batch(key):
        return batch_of(
            key, jnp.zeros((BATCH, 2)), uniform_action(key), jnp.zeros((BATCH, 2)), False
        ), jnp.zeros((BATCH, 1))

    state = learn(sac, make_batch)
    batch, _ = make_batch(jax.random.PRNGKey(2))
    q = sac.q_values(state.critic, batch.observation, batch.action, batch.skill)
    _, log_prob = squashed_gaussian(
        jax.random.PRNGKey(3), *sac.distribution(state.actor, batch.observation, batch.skill)
    )
    assert q.shape == (2, BATCH)
    np.testing.assert_allclose(q[0], 0.0, atol=0.02)
    np.testing.assert_allclose(q[1].mean(), 0.5 * 0.9 / 0.1 * -log_prob.mean(), rtol=0.1)


def test_learned_temperature_reaches_the_target_entropy():
    sac = make_sac(learn_alpha=True, alpha=0.1, target_entropy=-0.5)

    def make_batch(key):
        action = uniform_action(key)
        observation = jnp.zeros((BATCH, 2))
        return batch_of(key, observation, action, observation, True), -((action - 0.4) ** 2)

    state = learn(sac, make_batch, updates=4000)
    observation, skill = jnp.zeros((4096, 2)), jnp.zeros((4096, 1), jnp.int32)
    _, log_prob = squashed_gaussian(
        jax.random.PRNGKey(3), *sac.distribution(state.actor, observation, skill)
    )
    np.testing.assert_allclose(-log_prob.mean(), -0.5, atol=0.15)


def test_own_critics_do_not_see_other_components():
    sac = make_sac(channels=2, skill_space=Discrete(2, 3), critic_skill="own")
    critic = sac.init(jax.random.PRNGKey(0)).critic
    observation, action = jnp.ones((3, 2)), jnp.ones((3, 1))
    q = sac.q_values(critic, observation, action, jnp.array([[0, 0], [0, 1], [1, 0]]))
    assert q[0, 0] == q[0, 1] and q[0, 0] != q[0, 2]
    assert q[1, 0] == q[1, 2] and q[1, 0] != q[1, 1]


def test_squashed_gaussian_density_integrates_to_one():
    mean, log_std = jnp.array([[0.3]]), jnp.array([[-0.5]])
    keys = jax.random.split(jax.random.PRNGKey(0), 200_000)
    action, log_prob = jax.vmap(lambda key: squashed_gaussian(key, mean, log_std))(keys)
    # E[1 / p(a)] over the interval is its length if p is the density of a
    inside = jnp.abs(action[:, 0, 0]) < 0.9
    np.testing.assert_allclose(
        jnp.mean(jnp.where(inside, jnp.exp(-log_prob[:, 0]), 0.0)), 1.8, rtol=0.02
    )
