"""PPO over skills: formulas worked out by hand, what the causal policy gradient credits, and learning on a probe."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dusdi.config import PPOConfig, configure

from dusdi.agents.ppo import PPO, Rollout
from dusdi.skills import Continuous, Discrete

KEY = jax.random.PRNGKey(0)
DEFAULTS = dict(normalise_returns=False, entropy_weight=0.0, num_envs=32, rollout_length=8)


def make_ppo(causal, space=None, observation_size=3, **fields):
    config = configure("debug", {}, {**DEFAULTS, **fields}, PPOConfig)
    causal = np.asarray(causal, bool)
    return PPO(observation_size, space or Discrete(causal.shape[1], 4), causal, config)


def make_batch(ppo, rows=32, channels=None):
    keys = jax.random.split(KEY, 3)
    observation = jax.random.normal(keys[0], (rows, ppo.observation_size))
    params = ppo.init(keys[1]).params
    # away from the near-uniform start, so that components differ
    params = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(keys[2], x.shape), params)
    skill = ppo.sample(params, keys[2], observation)
    log_prob, _ = ppo.log_prob(params, observation, skill)
    nothing = jnp.zeros((rows, channels or len(ppo.causal)))
    return params, Rollout(
        observation, skill, log_prob, nothing, nothing, nothing, jnp.zeros(rows), jnp.zeros(rows)
    )


def gradient_of_logits(ppo, params, batch, advantage):
    """By how much the loss changes with each logit [B, C, K] of the policy, through its output layer."""

    def loss(shift):
        inner = PPO.logits
        try:
            PPO.logits = lambda self, p, o: inner(self, p, o) + shift
            return ppo.policy_loss(params, batch, ppo.credit(advantage))[0]
        finally:
            PPO.logits = inner

    return jax.grad(loss)(jnp.zeros(ppo.logits(params, batch.observation).shape))


def test_advantages_are_the_discounted_sums_of_errors():
    ppo = make_ppo(np.ones((1, 1)), discount=0.5, gae_lambda=0.5)
    column = lambda *x: jnp.array(x, jnp.float32)[:, None, None]  # noqa: E731
    rollout = Rollout(
        observation=None,
        skill=None,
        log_prob=None,
        value=column(1.0, 2.0, 3.0),
        next_value=column(2.0, 3.0, 8.0),
        reward=column(1.0, 1.0, 1.0),
        terminated=jnp.array([[0.0], [0.0], [1.0]]),
        over=jnp.array([[0.0], [0.0], [1.0]]),
    )
    # errors: 1 + 1 - 1 = 1; 1 + 1.5 - 2 = .5; 1 + 0 - 3 = -2 (nothing follows); then backwards with factor .25
    np.testing.assert_allclose(
        ppo.advantages(rollout)[:, 0, 0], [1 + 0.25 * (0.5 - 0.5), 0.5 - 0.5, -2.0]
    )


def test_advantages_do_not_cross_the_end_of_an_episode_but_count_the_value_of_what_was_cut_off():
    ppo = make_ppo(np.ones((1, 1)), discount=0.5, gae_lambda=1.0)
    zeros = jnp.zeros((2, 1, 1))
    rollout = Rollout(
        None, None, None, zeros, zeros + 4, zeros, jnp.zeros((2, 1)), jnp.array([[1.0], [0.0]])
    )
    np.testing.assert_allclose(ppo.advantages(rollout)[:, 0, 0], [2.0, 2.0])


def test_the_clipped_surrogate_by_hand():
    ppo = make_ppo(np.ones((1, 1)), Discrete(1, 2), clip=0.2)
    params, batch = make_batch(ppo, rows=2)
    # old probabilities such that the ratios are 2 and 0.5; credits -1 and 1 after normalisation
    batch = batch._replace(log_prob=batch.log_prob - jnp.log(jnp.array([[2.0], [0.5]])))
    loss, metrics = ppo.policy_loss(params, batch, jnp.array([[-3.0], [5.0]]))
    # min(2 x -1, 1.2 x -1) = -2 and min(.5 x 1, .8 x 1) = .5
    assert float(loss) == pytest.approx(-(-2 + 0.5) / 2, rel=1e-5)
    assert float(metrics["clipped"]) == 1.0
    assert float(metrics["kl"]) == pytest.approx(
        ((2 - 1 - np.log(2)) + (0.5 - 1 + np.log(2))) / 2, rel=1e-4
    )


def test_with_a_diagonal_matrix_a_components_logits_feel_no_other_channel():
    ppo = make_ppo(np.eye(3), agent="cpg")
    params, batch = make_batch(ppo)
    advantage = jnp.zeros((32, 3)).at[:, 1].set(jax.random.normal(KEY, (32,)))
    gradient = np.asarray(gradient_of_logits(ppo, params, batch, advantage))
    assert (gradient[:, 0] == 0).all() and (gradient[:, 2] == 0).all()
    assert np.abs(gradient[:, 1]).max() > 1e-4


def test_with_a_full_matrix_and_one_channel_the_causal_gradient_is_that_of_ppo():
    advantage = jax.random.normal(KEY, (32, 1))
    gradients = []
    for agent in ("ppo", "cpg"):
        ppo = make_ppo(np.ones((1, 3)), agent=agent)
        params, batch = make_batch(ppo)
        gradients.append(np.asarray(gradient_of_logits(ppo, params, batch, advantage)))
    assert np.abs(gradients[0]).max() > 1e-4
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-7)


def test_a_component_no_reward_depends_on_gets_no_gradient():
    ppo = make_ppo([[True, False], [True, False]], agent="cpg")
    params, batch = make_batch(ppo)
    gradient = np.asarray(gradient_of_logits(ppo, params, batch, jax.random.normal(KEY, (32, 2))))
    assert (gradient[:, 1] == 0).all() and np.abs(gradient[:, 0]).max() > 1e-4


def test_an_update_stops_when_the_policy_has_moved_too_far():
    moved = {}
    for target_kl in (0.0, 1e-9):
        ppo = make_ppo(np.ones((1, 2)), target_kl=target_kl, epochs=5, batch_size=8)
        state = ppo.init(KEY)
        rollout = probe_rollout(ppo, state, KEY)
        after, _ = ppo.update(state, KEY, rollout)
        before, now = (ppo.logits(s.params, rollout.observation[0]) for s in (state, after))
        moved[target_kl] = float(jnp.abs(now - before).max())
    assert 0 < moved[1e-9] < moved[0.0] / 2


def probe_rollout(ppo, state, key, steps=8, copies=32):
    """A probe of single steps: each component is right if it names the sign of its own observation entry."""
    observe, choose = jax.random.split(key)
    observation = jax.random.normal(observe, (steps * copies, ppo.observation_size))
    skill = ppo.sample(state.params, choose, observation)
    log_prob, _ = ppo.log_prob(state.params, observation, skill)
    components = ppo.skill_space.components
    if isinstance(ppo.skill_space, Discrete):
        right = (skill == (observation[:, :components] > 0)).astype(jnp.float32)
    else:
        right = -((skill[..., 0] - jnp.clip(observation[:, :components], -1, 1)) ** 2)
    reward = right if len(ppo.causal) > 1 else right.sum(-1, keepdims=True)
    value, ended = ppo.value(state, observation), jnp.ones(steps * copies)
    flat = Rollout(observation, skill, log_prob, value, value, reward, ended, ended)
    return jax.tree.map(lambda x: x.reshape(steps, copies, *x.shape[1:]), flat)


@pytest.mark.parametrize("agent", ["ppo", "cpg"])
@pytest.mark.parametrize(
    "space", [Discrete(3, 2), Continuous(3, 1)], ids=["discrete", "continuous"]
)
def test_it_learns_what_each_component_should_do(agent, space):
    causal = np.eye(3) if agent == "cpg" else np.ones((1, 3))
    ppo = make_ppo(
        causal,
        space,
        agent=agent,
        normalise_returns=True,
        learning_rate=3e-3,
        batch_size=64,
        hidden=(32,),
        epochs=4,
    )

    def iterate(state, key):
        rollout_key, update_key = jax.random.split(key)
        state, metrics = ppo.update(state, update_key, probe_rollout(ppo, state, rollout_key))
        return state, metrics["entropy"]

    state, _ = jax.jit(lambda s: jax.lax.scan(iterate, s, jax.random.split(KEY, 80)))(ppo.init(KEY))
    observation = jax.random.normal(jax.random.PRNGKey(9), (500, 3))
    chosen = np.asarray(ppo.mode(state.params, observation))
    if isinstance(space, Discrete):
        assert (chosen == (np.asarray(observation) > 0)).mean() > 0.95
    else:
        assert np.abs(chosen[..., 0] - np.clip(observation, -1, 1)).mean() < 0.2


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_small_rewards_are_learned_from_as_soon_as_large_ones(scale):
    """They are not lost in what values say before they know anything."""
    ppo = make_ppo(
        np.ones((1, 3)),
        Discrete(3, 2),
        normalise_returns=True,
        learning_rate=3e-3,
        batch_size=64,
        epochs=4,
    )
    assert np.abs(ppo.value(ppo.init(KEY), jax.random.normal(KEY, (100, 3)))).max() < 0.01

    def iterate(state, key):
        rollout_key, update_key = jax.random.split(key)
        rollout = probe_rollout(ppo, state, rollout_key)
        return ppo.update(state, update_key, rollout._replace(reward=scale * rollout.reward))

    state, _ = jax.jit(lambda s: jax.lax.scan(iterate, s, jax.random.split(KEY, 30)))(ppo.init(KEY))
    observation = jax.random.normal(jax.random.PRNGKey(9), (500, 3))
    assert (
        np.asarray(ppo.mode(state.params, observation)) == (np.asarray(observation) > 0)
    ).mean() > 0.9


def test_normalised_returns_do_not_change_what_values_mean():
    ppo = make_ppo(
        np.ones((1, 2)),
        normalise_returns=True,
        learning_rate=1e-2,
        epochs=20,
        batch_size=64,
        discount=0.0,
    )
    state = ppo.init(KEY)
    rollout = probe_rollout(ppo, state, KEY)._replace(
        reward=jnp.full((8, 32, 1), 300.0), terminated=jnp.ones((8, 32))
    )
    for key in jax.random.split(KEY, 3):
        value = ppo.value(state, rollout.observation.reshape(-1, 3)).reshape(8, 32, 1)
        state, _ = ppo.update(state, key, rollout._replace(value=value, next_value=value))
    np.testing.assert_allclose(ppo.value(state, rollout.observation[0]), 300.0, rtol=0.02)
