"""The intrinsic rewards, pinned to numbers worked out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dusdi.objectives import make_objective
from dusdi.objectives.discriminator import Discriminators

from dusdi.errors import UsageError
from dusdi.skills import Continuous, Discrete
from dusdi.types import Transition


def transitions(skill, next_observation=None, skill_age=50):
    skill = jnp.asarray(skill)
    rows = len(skill)
    observation = (
        jnp.zeros((rows, 4))
        if next_observation is None
        else jnp.asarray(next_observation, jnp.float32)
    )
    age = jnp.full(rows, skill_age)
    return Transition(
        observation,
        jnp.zeros((rows, 2)),
        jnp.zeros((rows, 0)),
        observation,
        jnp.zeros(rows),
        skill,
        age,
    )


def with_heads(monkeypatch, heads):
    """Makes the discriminators answer with the given raw outputs, [B, heads, head]: q_phi's first, then q_psi's."""

    def answer(self, params, observation):
        first = len(self.targets) if self.name == "penalty" else 0
        return jnp.asarray(heads)[:, first : first + len(self.targets)]

    monkeypatch.setattr(Discriminators, "_heads", answer)


def reward_of(objective, batch, step=0):
    state = objective.init(jax.random.PRNGKey(0))
    with_jit = jax.jit(objective.reward)(state, batch, jnp.int32(step))
    np.testing.assert_allclose(with_jit, objective.reward(state, batch, jnp.int32(step)), rtol=1e-6)
    return np.asarray(with_jit)


KEY = jax.random.PRNGKey(0)
LOG3 = math.log(3.0)
# Two components with two values; own heads first, then those that see the other factors.
# q_phi = (3/4, 1/4) and (1/2, 1/2); q_psi = (1/4, 3/4) and (3/4, 1/4).
HEADS = [[[LOG3, 0.0], [0.0, 0.0], [0.0, LOG3], [LOG3, 0.0]]]


def test_dusdi_reward_by_hand(monkeypatch, spec, make_config):
    with_heads(monkeypatch, HEADS)
    objective = make_objective(spec, make_config(skill_values=2, penalty_weight=0.1))
    reward = reward_of(objective, transitions([[0, 1]]))
    # r^0 = log(2 * 3/4) - 0.1 log(2 * 1/4);  r^1 = log(2 * 1/2) - 0.1 log(2 * 1/4)
    np.testing.assert_allclose(reward, [[0.405465 + 0.0693147, 0.0693147]], atol=1e-6)


def test_a_floor_bounds_the_reward_and_leaves_nothing_worth_nothing(monkeypatch, spec, make_config):
    with_heads(monkeypatch, [[[-100.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], HEADS[0]])
    objective = make_objective(
        spec, make_config(skill_values=2, penalty_weight=0.1, reward_floor=0.2)
    )
    # log(.8 * 2 q + .2) for q = 0 and 1/2, then 3/4 and 1/2; the penalty has no floor: q_psi = 1/2 twice, then 1/4 twice
    expected = [[math.log(0.2), 0.0], [math.log(1.4) + 0.0693147, 0.0693147]]
    np.testing.assert_allclose(
        reward_of(objective, transitions([[0, 1], [0, 1]])), expected, atol=1e-5
    )


def test_nobodys_place_takes_its_share_by_hand(monkeypatch, spec, make_config):
    with_heads(monkeypatch, HEADS)
    objective = make_objective(
        spec, make_config(skill_values=2, penalty_weight=0.1, elsewhere_weight=1.0)
    )
    # outputs (log 3, 0) and a 0 for nobody: q = (3/5, 1/5), and (1/3, 1/3) for the second component; q_psi has no such answer
    expected = [[math.log(6 / 5) + 0.0693147, math.log(2 / 3) + 0.0693147]]
    np.testing.assert_allclose(reward_of(objective, transitions([[0, 1]])), expected, atol=1e-6)


def test_nobodys_place_counts_with_the_square_of_the_steps(spec, make_config):
    """Without transitions that count, what moves the discriminators is nobody's place alone."""
    objective = make_objective(
        spec, make_config(mask_steps=10, elsewhere_weight=1.0, elsewhere_steps=1000)
    )
    state, batch = (
        objective.init(KEY),
        transitions([[0, 1], [1, 0]], [[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]], skill_age=1),
    )

    def momentum(step):
        updated, _ = objective.update(state, KEY, batch, jnp.int32(step))
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(updated.own.optimiser[0].mu)])

    assert (momentum(0) == 0).all() and (momentum(1000) != 0).any()
    np.testing.assert_allclose(momentum(500), momentum(1000) / 4, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(momentum(2000), momentum(1000), rtol=1e-5)


def test_nobodys_place_is_for_discrete_skills(spec, make_config):
    objective = make_objective(spec, make_config(skill_kind="continuous", elsewhere_weight=1.0))
    assert objective._own.elsewhere == 0


def test_a_place_is_worth_more_to_a_skill_that_is_there_more(spec, make_config):
    """Value 0 of the box's component is at 1 (nine times in ten) or at -1, value 1 always at 0."""
    rng, rows = np.random.default_rng(0), 256
    skill = rng.integers(0, 2, (rows, 2))
    place = np.where(skill[:, 1] == 1, 0.0, np.where(rng.random(rows) < 0.9, 1.0, -1.0))
    batch = transitions(skill, np.stack([*np.zeros((2, rows)), place, np.zeros(rows)], axis=1))
    probe = transitions([[0, 0], [0, 0]], [[0, 0, 1.0, 0], [0, 0, -1.0, 0]])

    def worth(weight):
        config = make_config(
            skill_values=2, penalty_weight=0.0, elsewhere_weight=weight,
            discriminator_hidden=(), discriminator_bumps=8, discriminator_lr=3e-2, elsewhere_steps=500,
        )  # fmt: skip
        objective = make_objective(spec, config)
        state, update = objective.init(KEY), jax.jit(objective.update)
        for step in range(500):
            state, _ = update(state, jax.random.fold_in(KEY, step), batch, jnp.int32(step))
        return np.asarray(objective.reward(state, probe, jnp.int32(0)))[:, 1]

    often, seldom = worth(0.0)
    np.testing.assert_allclose(
        [often, seldom], math.log(2), atol=0.05
    )  # to mutual information, one is as good as the other
    often, seldom = worth(1.0)
    assert often > seldom + 0.3


def test_decay_keeps_discriminators_small(spec, make_config):
    def size(decay):
        objective = make_objective(
            spec, make_config(discriminator_decay=decay, discriminator_lr=1e-2)
        )
        state, update = objective.init(KEY), jax.jit(objective.update)
        batch = transitions([[0, 1], [1, 0]], np.eye(2, 4))
        for _ in range(100):
            state, _ = update(state, KEY, batch, jnp.int32(0))
        return sum(float(jnp.sum(x**2)) for x in jax.tree.leaves(state.own.params))

    assert size(0.1) < 0.5 * size(0.0)


def test_club_penalty_by_hand(monkeypatch, spec, make_config):
    with_heads(monkeypatch, HEADS)
    objective = make_objective(
        spec, make_config(skill_values=2, penalty_weight=0.1, penalty="club")
    )
    reward = reward_of(objective, transitions([[0, 1]]))
    # the penalty is log 1/4 - (log 1/4 + log 3/4) / 2 = -log(3) / 2 in both
    np.testing.assert_allclose(reward, [[0.405465 + 0.0549306, 0.0549306]], atol=1e-6)


def test_knowing_nothing_is_worth_nothing(monkeypatch, spec, make_config):
    with_heads(monkeypatch, np.zeros((3, 4, 5)))
    objective = make_objective(spec, make_config(skill_values=5))
    np.testing.assert_allclose(
        reward_of(objective, transitions(np.zeros((3, 2), int))), 0, atol=1e-6
    )


def test_penalty_schedule(monkeypatch, spec, make_config):
    with_heads(monkeypatch, HEADS)
    objective = make_objective(spec, make_config(skill_values=2, penalty_start=1000))
    batch = transitions([[0, 1]])
    np.testing.assert_allclose(reward_of(objective, batch, step=999), [[0.405465, 0.0]], atol=1e-6)
    np.testing.assert_allclose(
        reward_of(objective, batch, step=1000), [[0.474780, 0.0693147]], atol=1e-6
    )


def test_first_steps_of_a_skill_are_worth_nothing_and_teach_nothing(spec, make_config):
    objective = make_objective(spec, make_config(mask_steps=10))
    state = objective.init(jax.random.PRNGKey(0))
    batch = transitions([[0, 1]], skill_age=10)
    assert (reward_of(objective, batch) == 0).all()
    updated, _ = objective.update(state, KEY, batch, jnp.int32(0))
    for part in (0, 1):
        jax.tree.map(np.testing.assert_array_equal, updated[part].params, state[part].params)
    later, _ = objective.update(state, KEY, batch._replace(skill_age=jnp.array([11])), jnp.int32(0))
    assert any(
        jax.tree.leaves(
            jax.tree.map(lambda a, b: (a != b).any(), later.own.params, state.own.params)
        )
    )


def test_continuous_reward_by_hand(monkeypatch, spec, make_config):
    # own heads: N(tanh 0, 1) and N(tanh 0, e); others: the same as the first
    with_heads(monkeypatch, [[[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])
    objective = make_objective(
        spec, make_config(skill_kind="continuous", skill_dim=1, penalty_weight=0.1)
    )
    reward = reward_of(objective, transitions([[[0.5], [1.0]]]))
    # log N(.5; 0, 1) = -1.0439385, log N(1; 0, e) = -1.9866061, log N(1; 0, 1) = -1.4189385, -log p = log 2 = .6931472
    np.testing.assert_allclose(
        reward, [[0.9 * -0.3507913, -1.2934590 - 0.1 * -0.7257913]], atol=1e-5
    )


def test_continuous_club_is_the_mean_over_the_prior(monkeypatch, spec, make_config):
    heads = np.random.default_rng(0).normal(size=(1, 2, 4)).astype(np.float32)
    with_heads(monkeypatch, heads)
    config = make_config(skill_kind="continuous", skill_dim=2)
    discriminators = make_objective(spec, config)._own
    _, over_prior, _ = discriminators.log_ratio({}, transitions(np.zeros((1, 2, 2), np.float32)))
    draws = (
        np.random.default_rng(1)
        .uniform(-1, 1, (200_000, 1, 2))
        .repeat(2, axis=1)
        .astype(np.float32)
    )
    monkeypatch.setattr(
        Discriminators,
        "_heads",
        lambda self, params, x: jnp.broadcast_to(heads, (len(draws), 2, 4)),
    )
    sampled, _, _ = discriminators.log_ratio({}, transitions(draws, np.zeros((len(draws), 4))))
    np.testing.assert_allclose(sampled.mean(0), over_prior[0], rtol=0.02, atol=0.02)


def entries_seen(discriminators):
    """Which observation entries each head depends on, bool [heads, D]."""
    params = discriminators.init(jax.random.PRNGKey(0)).params
    jacobian = jax.jacobian(lambda x: discriminators._heads(params, x[None])[0])(
        jnp.array([0.3, -0.2, 0.7, 0.1])
    )
    return np.abs(jacobian).sum(1) > 0


def test_each_discriminator_sees_only_its_part_of_the_state(spec, make_config):
    objective = make_objective(spec, make_config())
    ball, box = [1, 1, 0, 0], [0, 0, 1, 0]  # proprioception (entry 3) is seen by none
    np.testing.assert_array_equal(entries_seen(objective._own), [ball, box])
    np.testing.assert_array_equal(entries_seen(objective._others), [box, ball])


@pytest.mark.parametrize("method", ["diayn", "diayn-mc"])
def test_diayn_sees_the_whole_controlled_state(method, spec, make_config):
    discriminators = make_objective(spec, make_config(method=method))._discriminators
    np.testing.assert_array_equal(entries_seen(discriminators).any(0), [True, True, True, False])


def test_diayn_reward_by_hand(monkeypatch, spec, make_config):
    with_heads(monkeypatch, [[[LOG3, 0.0, 0.0, 0.0]]])
    objective = make_objective(spec, make_config(method="diayn", skill_values=2))
    assert objective.skill_space == Discrete(1, 4)
    # q = (1/2, 1/6, 1/6, 1/6), prior 1/4
    np.testing.assert_allclose(reward_of(objective, transitions([[0]])), [[math.log(2)]], atol=1e-6)
    np.testing.assert_allclose(
        reward_of(objective, transitions([[1]])), [[math.log(4 / 6)]], atol=1e-6
    )


def test_skill_spaces_of_the_methods(spec, make_config):
    def space(**fields):
        return make_objective(spec, make_config(**fields)).skill_space

    assert space() == space(method="diayn-mc") == Discrete(2, 5)
    assert space(method="diayn") == Discrete(1, 25)
    assert space(method="diayn", max_skills=20) == Discrete(1, 20)
    assert space(skill_kind="continuous", skill_dim=3) == Continuous(2, 3)
    assert space(method="diayn", skill_kind="continuous", skill_dim=3) == Continuous(1, 6)


def test_unknown_method_names_the_nearest(spec, make_config):
    with pytest.raises(UsageError, match="did you mean dusdi"):
        make_objective(spec, make_config(method="dussdi"))
