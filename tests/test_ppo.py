"""PPO over skills: formulas by hand, whom the causal policy gradient credits, and a probe."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import make_space

from dusdi.agents.ppo import PPO, HighLevelSteps
from dusdi.presets import PPO_PRESETS
from dusdi.settings import PPOSettings
from dusdi.spaces import Box, Categorical, Sphere

KEY = jax.random.PRNGKey(0)
DEFAULTS = dict(normalise_returns=False, entropy_weight=0.0)
MIXED = make_space(a=Box(1), b=Categorical(2), c=Sphere(2), d=Categorical(2))


def categories(components, values):
    return make_space(**{f"c{i}": Categorical(values) for i in range(components)})


def make_ppo(causal, space=None, observation_size=3, agent="ppo", **fields):
    values = {**PPO_PRESETS["fast"], **PPO_PRESETS["debug"], **DEFAULTS, **fields}
    known = {name: value for name, value in values.items() if name in PPOSettings.fields()}
    causal = np.asarray(causal, bool)
    space = space or categories(causal.shape[1], 4)
    return PPO(observation_size, space, causal, agent, PPOSettings(**known))


def make_batch(ppo, rows=32):
    """Choices of a policy away from its near-uniform start, so that components differ."""

    def compute():
        keys = jax.random.split(KEY, 3)
        observation = jax.random.normal(keys[0], (rows, ppo.observation_size))
        params = ppo.init(keys[1]).params
        params = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(keys[2], x.shape), params)
        choice = ppo.sample(params, keys[2], observation)
        log_prob, _ = ppo.log_prob(params, observation, choice)
        nothing = jnp.zeros((rows, len(ppo.causal)))
        no = jnp.zeros(rows)
        return params, HighLevelSteps(
            observation, choice, log_prob, nothing, nothing, nothing, no, no
        )

    return jax.jit(compute)()


def gradient_of_outputs(monkeypatch, ppo, params, batch, advantage):
    """How the loss changes with the policy's outputs for each component, [B, C, size]."""
    inner = PPO._outputs

    def loss(shift):
        with monkeypatch.context() as patch:
            patch.setattr(
                PPO, "_outputs", lambda self, p, o: [out + shift for out in inner(self, p, o)]
            )
            return ppo.policy_loss(params, batch, ppo.credit(advantage))[0]

    (shape,) = [out.shape for out in jax.eval_shape(lambda: inner(ppo, params, batch.observation))]
    return np.asarray(jax.jit(jax.grad(loss))(jnp.zeros(shape)))


# --- formulas ---


def column(*numbers):
    return jnp.array(numbers, jnp.float32)[:, None, None]


def test_advantages_are_the_discounted_sums_of_errors():
    ppo = make_ppo(np.ones((1, 1)), discount=0.5, gae_lambda=0.5)
    rollout = HighLevelSteps(
        observation=None,
        skill=None,
        log_prob=None,
        value=column(1.0, 2.0, 3.0),
        next_value=column(2.0, 3.0, 8.0),
        reward=column(1.0, 1.0, 1.0),
        terminated=jnp.array([[0.0], [0.0], [1.0]]),
        done=jnp.array([[0.0], [0.0], [1.0]]),
    )
    # errors: 1 + 1 - 1 = 1; 1 + 1.5 - 2 = .5; 1 + 0 - 3 = -2 (nothing follows); factor .25
    expected = [1 + 0.25 * (0.5 - 0.5), 0.5 - 0.5, -2.0]
    np.testing.assert_allclose(ppo.advantages(rollout)[:, 0, 0], expected)


def test_advantages_stop_at_the_end_of_an_episode_but_count_the_value_of_what_was_cut_off():
    ppo = make_ppo(np.ones((1, 1)), discount=0.5, gae_lambda=1.0)
    zeros = jnp.zeros((2, 1, 1))
    never = jnp.zeros((2, 1))
    first = jnp.array([[1.0], [0.0]])
    rollout = HighLevelSteps(None, None, None, zeros, zeros + 4, zeros, never, first)
    np.testing.assert_allclose(ppo.advantages(rollout)[:, 0, 0], [2.0, 2.0])


def test_the_clipped_surrogate_by_hand():
    ppo = make_ppo(np.ones((1, 1)), categories(1, 2), clip=0.2)
    params, batch = make_batch(ppo, rows=2)
    # old probabilities such that the ratios are 2 and 0.5; credits -1 and 1 after normalisation
    batch = batch._replace(log_prob=batch.log_prob - jnp.log(jnp.array([[2.0], [0.5]])))
    loss, metrics = jax.jit(ppo.policy_loss)(params, batch, jnp.array([[-3.0], [5.0]]))
    # min(2 x -1, 1.2 x -1) = -2 and min(.5 x 1, .8 x 1) = .5
    assert float(loss) == pytest.approx(-(-2 + 0.5) / 2, rel=1e-5)
    assert float(metrics["clipped"]) == 1.0
    expected = ((2 - 1 - np.log(2)) + (0.5 - 1 + np.log(2))) / 2
    assert float(metrics["kl"]) == pytest.approx(expected, rel=1e-4)


def test_credit_by_hand():
    advantage = jnp.array([[1.0, 2.0, 4.0]])
    causal = [[True, False], [True, True], [False, True]]
    np.testing.assert_allclose(make_ppo(causal, agent="cpg").credit(advantage), [[3, 6]])
    np.testing.assert_allclose(make_ppo(causal).credit(advantage), [[7]])


def test_log_probabilities_and_entropies_of_mixed_components_by_hand(monkeypatch):
    ppo = make_ppo(np.ones((1, 4)), MIXED)
    # outputs: box 1, then logits (log 3, 0), direction (0.2, 0.4), logits (0, 0)
    out = jnp.array([[1.0, np.log(3.0), 0.0, 0.2, 0.4, 0.0, 0.0]])
    monkeypatch.setattr(PPO, "_policy", None)
    monkeypatch.setattr(PPO, "_outputs", lambda self, params, observation: MIXED.split(out))
    params = {"free": [jnp.array([[0.0]]), jnp.zeros((2, 0)), jnp.array([[0.0, 0.0]])]}
    choice = jnp.array([[2.0, 1, 0.2, 1.4, 0]])
    log_prob, entropy = ppo.log_prob(params, None, choice)
    half_log = 0.5 * np.log(2 * np.pi)
    expected = [[-0.5 - half_log, np.log(0.25), -0.5 - 2 * half_log, np.log(0.5)]]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5)
    binary = -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    gauss = half_log + 0.5
    np.testing.assert_allclose(entropy, [[gauss, binary, 2 * gauss, np.log(2)]], rtol=1e-5)
    np.testing.assert_allclose(ppo.bounded(choice), [[1, 1, 0.1414214, 0.9899495, 0]], rtol=1e-5)
    mode = ppo.mode(params, None)
    np.testing.assert_allclose(mode, [[1, 0, 0.4472136, 0.8944272, 0]], rtol=1e-5)


# --- whom the causal policy gradient credits ---


def test_with_a_diagonal_matrix_a_component_feels_no_other_channel(monkeypatch):
    ppo = make_ppo(np.eye(3), agent="cpg")
    params, batch = make_batch(ppo)
    advantage = jnp.zeros((32, 3)).at[:, 1].set(jax.random.normal(KEY, (32,)))
    gradient = gradient_of_outputs(monkeypatch, ppo, params, batch, advantage)
    assert (gradient[:, [0, 2]] == 0).all()
    assert np.abs(gradient[:, 1]).max() > 1e-4


def test_with_one_channel_and_one_component_the_causal_gradient_is_that_of_ppo(monkeypatch):
    advantage = jax.random.normal(KEY, (32, 1))
    gradients = []
    for agent in ("ppo", "cpg"):
        ppo = make_ppo(np.ones((1, 3)), agent=agent)
        params, batch = make_batch(ppo)
        gradients.append(gradient_of_outputs(monkeypatch, ppo, params, batch, advantage))
    assert np.abs(gradients[0]).max() > 1e-4
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-7)


def test_a_component_no_reward_depends_on_gets_no_gradient(monkeypatch):
    ppo = make_ppo([[True, False], [True, False]], agent="cpg", entropy_weight=0.1)
    params, batch = make_batch(ppo)
    advantage = jax.random.normal(KEY, (32, 2))
    gradient = gradient_of_outputs(monkeypatch, ppo, params, batch, advantage)
    assert (gradient[:, 1] == 0).all()
    assert np.abs(gradient[:, 0]).max() > 1e-4


# --- learning ---


def wanted(space, observation):
    """What each component should be: the sign of its own observation entry, or that number."""
    parts = []
    for group in space.groups:
        own = observation[:, group.members % observation.shape[1]][..., None]
        if group.space.categories:
            parts.append((own > 0).astype(jnp.int32))
        else:
            angle = jnp.clip(own, -1, 1)
            parts.append(jnp.concatenate([angle, jnp.sqrt(1 - angle**2)][: group.space.width], -1))
    return space.join(parts)


def probe_rollout(ppo, state, key, steps=8, envs=32):
    """A probe of single steps: each component is paid for how near it is to what is wanted."""
    space = ppo.skill_space
    observe, choose = jax.random.split(key)
    observation = jax.random.normal(observe, (steps * envs, ppo.observation_size))
    choice = ppo.sample(state.params, choose, observation)
    log_prob, _ = ppo.log_prob(state.params, observation, choice)
    error = (ppo.bounded(choice) - wanted(space, observation)) ** 2
    paid = jnp.stack([-error[:, columns].sum(-1) for columns in space.columns], axis=1)
    reward = paid if len(ppo.causal) > 1 else paid.sum(-1, keepdims=True)
    value = ppo.value(state, observation)
    ended = jnp.ones(steps * envs)
    flat = HighLevelSteps(observation, choice, log_prob, value, value, reward, ended, ended)
    return jax.tree.map(lambda x: x.reshape(steps, envs, *x.shape[1:]), flat)


def train(ppo, iterations, scale=1.0):
    def iterate(state, key):
        rollout_key, update_key = jax.random.split(key)
        rollout = probe_rollout(ppo, state, rollout_key)
        rollout = rollout._replace(reward=scale * rollout.reward)
        return ppo.update(state, update_key, rollout)[0], None

    keys = jax.random.split(KEY, iterations)
    state = jax.jit(lambda: jax.lax.scan(iterate, ppo.init(KEY), keys)[0])()
    observation = jax.random.normal(jax.random.PRNGKey(9), (500, 3))
    chosen = np.asarray(jax.jit(ppo.mode)(state.params, observation))
    return chosen, np.asarray(wanted(ppo.skill_space, observation))


FAST = dict(normalise_returns=True, learning_rate=3e-3, batch_size=64, hidden=(32,), epochs=4)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "cpg"])
def test_it_learns_what_each_category_should_be(agent):
    causal = np.eye(3) if agent == "cpg" else np.ones((1, 3))
    chosen, right = train(make_ppo(causal, categories(3, 2), agent=agent, **FAST), 80)
    assert (chosen == right).mean() > 0.95


def test_it_learns_what_components_of_all_kinds_should_be():
    chosen, right = train(make_ppo(np.eye(4), MIXED, agent="cpg", **FAST), 80)
    error = np.abs(chosen - right)
    assert error[:, [1, 4]].mean() < 0.07  # categories: shares that are wrong
    assert error[:, 0].mean() < 0.2
    assert np.sum(chosen[:, 2:4] * right[:, 2:4], axis=1).mean() > 0.9  # cosines


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_small_rewards_are_learned_from_as_soon_as_large_ones(scale):
    """They are not lost in what values say before they know anything."""
    ppo = make_ppo(np.ones((1, 3)), categories(3, 2), **{**FAST, "hidden": (16,)})
    observation = jax.random.normal(KEY, (100, 3))
    first = jax.jit(lambda: ppo.value(ppo.init(KEY), observation))()
    assert np.abs(first).max() < 0.01
    chosen, right = train(ppo, 30, scale)
    assert (chosen == right).mean() > 0.9


def test_an_update_stops_when_the_policy_has_moved_too_far():
    moved = {}
    for target_kl in (0.0, 1e-9):
        ppo = make_ppo(np.ones((1, 2)), target_kl=target_kl, epochs=5, batch_size=8)

        def compute(ppo=ppo):
            state = ppo.init(KEY)
            rollout = probe_rollout(ppo, state, KEY)
            after, _ = ppo.update(state, KEY, rollout)
            pair = (ppo._outputs(s.params, rollout.observation[0])[0] for s in (state, after))
            return jnp.abs(jnp.subtract(*pair)).max()

        moved[target_kl] = float(jax.jit(compute)())
    assert 0 < moved[1e-9] < moved[0.0] / 2


def test_rows_that_fill_no_minibatch_are_left_out():
    """256 rows in minibatches of 100: two a time."""
    counts = []
    for batch_size, epochs in ((128, 1), (100, 1), (100, 3)):
        ppo = make_ppo(np.ones((1, 2)), batch_size=batch_size, epochs=epochs)

        def compute(ppo=ppo):
            state = ppo.init(KEY)
            return ppo.update(state, KEY, probe_rollout(ppo, state, KEY))[0].optimiser

        leaves = jax.tree.leaves(jax.jit(compute)())
        counts += [int(leaf) for leaf in leaves if leaf.dtype == jnp.int32]
    assert counts == [2, 2, 6]


def test_normalised_returns_do_not_change_what_values_mean():
    ppo = make_ppo(
        np.ones((1, 2)),
        normalise_returns=True,
        learning_rate=1e-2,
        epochs=20,
        batch_size=64,
        discount=0.0,
    )

    def compute():
        state = ppo.init(KEY)
        rollout = probe_rollout(ppo, state, KEY)
        rollout = rollout._replace(reward=jnp.full((8, 32, 1), 300.0))
        observation = rollout.observation.reshape(-1, 3)

        def iterate(state, key):
            value = ppo.value(state, observation).reshape(8, 32, 1)
            return ppo.update(state, key, rollout._replace(value=value, next_value=value))[0], None

        state, _ = jax.lax.scan(iterate, state, jax.random.split(KEY, 3))
        return ppo.value(state, observation)

    np.testing.assert_allclose(jax.jit(compute)(), 300.0, rtol=0.02)
