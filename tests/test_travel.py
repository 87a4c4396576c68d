"""Distance travelled as a source of reward, pinned to numbers by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import make_batch, make_space

from dusdi.sources.controllability import Controllability, ControllabilitySettings
from dusdi.sources.travel import Travel, TravelSettings, mean_travel
from dusdi.spaces import Box, Categorical, Sphere

KEY = jax.random.PRNGKey(0)
STEP = jnp.int32(0)
BALL = [True, True, False, False]
BOX = [False, False, True, False]
DIRECTION = make_space(skill=Sphere(2))
PAIR = make_space(ball=Sphere(2), box=Box(1))


def make_travel(space=DIRECTION, masks=(BALL,), settings=None, **fields):
    given = dict(travel_hidden=(), travel_lr=1e-2, **(settings or {}))
    return Travel(
        space, tuple(range(len(space))), np.array(masks), TravelSettings(**given), **fields
    )


def make_density(entries=BALL, **fields):
    settings = ControllabilitySettings(**{"density_hidden": (), **fields})
    return Controllability(np.array(entries), settings)


def linear(params, *kernels):
    """Parameters of networks without hidden layers, with these weights [members, in, out]."""
    made = []
    for part, kernel in zip(params, kernels, strict=True):
        zeros = jax.tree.map(jnp.zeros_like, part)
        shape = zeros["params"]["output"]["kernel"].shape
        zeros["params"]["output"]["kernel"] = jnp.asarray(kernel, jnp.float32).reshape(shape)
        made.append(zeros)
    return made


def with_density(travel, state, means, deviations):
    """A state whose density of changes is the same everywhere."""
    params = jax.tree.map(jnp.zeros_like, state.density.params)
    logs = [math.log(deviation) for deviation in deviations]
    bias = params["params"]["output"]["bias"]
    params["params"]["output"]["bias"] = jnp.array([means, logs]).reshape(bias.shape)
    return state.replace(density=state.density.replace(params=params))


def first_state(travel, *kernels):
    state = jax.jit(travel.init)(KEY)
    return state.replace(params=linear(state.params, *kernels))


# --- formulas ---


def test_reward_is_the_way_along_the_direction():
    # phi(s) = (2 s_0, s_1 - s_0); the step (1, 3) leads by (2, 2); .6 * 2 + .8 * 2
    travel = make_travel(settings={"travel_scale": 10.0})
    state = first_state(travel, [[[2.0, -1.0], [0.0, 1.0]]])
    batch = make_batch(np.array([[0.6, 0.8]], np.float32), [[2.0, 4.0, 9, 9]], [[1.0, 1.0, 0, 0]])
    np.testing.assert_allclose(travel.reward(state, batch, STEP), [[28.0]], rtol=1e-6)


def test_components_of_all_kinds_travel_in_spaces_of_their_own():
    space = make_space(ball=Categorical(3), box=Box(1), arm=Box(1))
    travel = make_travel(space, [BALL, BOX, [False, False, False, True]])
    state = first_state(travel, [[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]], [[[4.0]], [[5.0]]])
    skill = np.array([[1, 0.5, -0.2]], np.float32)
    batch = make_batch(skill, [[1.0, 7.0, 2.0, 3.0]], [[0.0, 0.0, 0.0, 0.0]])
    # (1, 2, 3) . (-.5, 1, -.5) = 0; 4 * 2 * .5; 5 * 3 * -.2
    np.testing.assert_allclose(travel.reward(state, batch, STEP), [[0.0, 4.0, -3.0]], atol=1e-5)


def test_each_network_sees_only_its_part_of_the_state():
    travel = make_travel(PAIR, [BALL, BOX])

    def reward(after):
        batch = make_batch(np.array([[0.6, 0.8, 1.0]], np.float32), after[None], np.zeros((1, 4)))
        return travel.reward(travel.init(KEY), batch, STEP)[0]

    seen = np.asarray(jax.jit(jax.jacobian(reward))(jnp.ones(4))) != 0
    np.testing.assert_array_equal(seen, [BALL, BOX])


def updated(travel, state, batch):
    return jax.jit(lambda state: travel.update(state, KEY, batch, STEP))(state)


def update_metrics(travel, state, batch):
    return jax.tree.map(float, updated(travel, state, batch)[1])


def test_the_constraint_is_on_the_mean_over_all_dimensions():
    # The ball moves by (1, 2), the box by 2.
    kernels = [[[1.0, 0.0], [0.0, 2.0]]], [[[2.0]]]
    skill = np.array([[1.0, 0.0, 0.5]], np.float32)
    batch = make_batch(skill, [[1.0, 1.0, 1.0, 0.0]], np.zeros((1, 4)))
    together = make_travel(PAIR, [BALL, BOX])
    metrics = update_metrics(together, first_state(together, *kernels), batch)
    # 1 - (1 + 4 + 4) / 3
    assert metrics == pytest.approx(
        {"travel/ball": 1.0, "travel/box": 1.0, "multiplier": 30.0, "room": -2.0}, rel=1e-5
    )
    apart = make_travel(PAIR, [BALL, BOX], shared=False)
    metrics = update_metrics(apart, first_state(apart, *kernels), batch)
    # 1 - (1 + 4) / 2 and 1 - 4
    assert metrics["room/ball"] == pytest.approx(-1.5)
    assert metrics["room/box"] == pytest.approx(-3.0)


@pytest.mark.parametrize(("length", "gradient"), [(2.0, -3.0), (0.5, 1e-3)])
def test_the_multiplier_rises_while_steps_are_too_long(length, gradient):
    """The gradient of log lambda is min(epsilon, 1 - mean square), here of moves (x, x)."""
    travel = make_travel(settings={"travel_multiplier_lr": 0.1})
    state = first_state(travel, [[[length, length], [0.0, 0.0]]])
    batch = make_batch(np.array([[1.0, 0.0]], np.float32), [[1.0, 0, 0, 0]], np.zeros((1, 4)))
    after, _ = updated(travel, state, batch)
    np.testing.assert_allclose(after.multiplier_optimiser[0].mu, [0.1 * gradient], rtol=1e-5)
    # The first step of Adam has the size of its rate.
    expected = math.log(30) - 0.1 * np.sign(gradient)
    np.testing.assert_allclose(after.log_multiplier, [expected], rtol=1e-4)


def test_the_gradient_of_phi_by_hand():
    # phi(s) = x s_0 with a move of x = 2 in one dimension, z = -1, lambda = 30:
    # the loss is -(-x + 30 (1 - x^2)), its gradient 1 + 60 x = 121.
    space = make_space(skill=Box(1))
    travel = make_travel(space, [[True, False, False, False]])
    state = first_state(travel, [[[2.0]]])
    batch = make_batch(np.array([[-1.0]], np.float32), [[1.0, 0, 0, 0]], np.zeros((1, 4)))
    after, _ = updated(travel, state, batch)
    momentum = after.optimiser[0].mu[0]["params"]["output"]["kernel"]
    np.testing.assert_allclose(np.ravel(momentum), [0.1 * 121], rtol=1e-5)
    # With room to spare the constraint counts nothing: the gradient is 1.
    state = first_state(travel, [[[0.5]]])
    after, _ = updated(travel, state, batch)
    momentum = after.optimiser[0].mu[0]["params"]["output"]["kernel"]
    np.testing.assert_allclose(np.ravel(momentum), [0.1], rtol=1e-5)


def test_the_distance_of_csd_by_hand():
    travel = make_travel(density=make_density(), controllability=True)
    state = first_state(travel, [[[1.0, 0.0], [0.0, 1.0]]])
    state = with_density(travel, state, means=[1.0, 0.0], deviations=[1.0, 4.0])
    batch = make_batch(np.array([[1.0, 0.0]], np.float32), [[2.0, 4.0, 9, 9]], np.zeros((1, 4)))
    # 1/sigma = (1, 1/4) with geometric mean 1/2, so w = (2, 1/2);
    # surprise = (2 - 1)^2 * 4 and 4^2 / 4; d^2 = 4, less (2^2 + 4^2) / 2
    surprise = travel.density.surprise(state.density.params, batch)
    np.testing.assert_allclose(surprise, [[4.0, 4.0]], rtol=1e-5)
    metrics = update_metrics(travel, state, batch)
    assert metrics["room"] == pytest.approx(4.0 - 10.0, rel=1e-5)
    # Mean over entries of ((x - mu) / sigma)^2 / 2 + log sigma + log(2 pi) / 2
    expected = (0.5 + 0.5 + math.log(4)) / 2 + 0.5 * math.log(2 * math.pi)
    assert metrics["loss/density"] == pytest.approx(expected, rel=1e-5)


def test_small_deviations_have_a_floor():
    density = make_density(least_deviation=0.5)
    travel = make_travel(density=density, controllability=True)
    state = with_density(
        travel, jax.jit(travel.init)(KEY), means=[0.0, 0.0], deviations=[1e-5, 2.0]
    )
    batch = make_batch(np.array([[1.0, 0.0]], np.float32), [[1.0, 1.0, 0, 0]], np.zeros((1, 4)))
    # sigma = (.5, 2): 1/sigma = (2, .5), whose geometric mean is 1
    surprise = density.surprise(state.density.params, batch)
    np.testing.assert_allclose(surprise, [[4.0, 0.25]], rtol=1e-5)


def test_headlines_are_mean_distances():
    assert mean_travel(PAIR, {"travel/ball": 1.0, "travel/box": 2.0}) == {"travel": 1.5}
    assert mean_travel(PAIR, {"accuracy/ball": 1.0}) == {}


def test_the_density_counts_entries_that_are_hard_to_control():
    """Entry 0 changes by 0.1 or so in a step, entry 1 by 1: a move by 1 is farther in entry 0."""
    density = make_density(density_hidden=(16,), density_lr=1e-2)
    rng = np.random.default_rng(0)
    before = rng.normal(size=(512, 4))
    after = before + rng.normal(size=(512, 4)) * [0.1, 1.0, 1.0, 1.0]
    batch = make_batch(np.zeros((512, 2), np.float32), after, before)

    def step(state, _):
        return density.update(state, batch)

    state, losses = jax.jit(lambda s: jax.lax.scan(step, s, None, 500))(density.init(KEY))
    # The entropies of both Gaussians, per entry: log(sigma) + (1 + log(2 pi)) / 2
    assert losses[-1] == pytest.approx(0.5 * math.log(0.1) + 1.4189, abs=0.1)
    moves = make_batch(np.zeros((2, 2), np.float32), np.eye(2, 4), np.zeros((2, 4)))
    first, second = np.diag(density.surprise(state.params, moves))
    assert 50 < first / second < 200  # (1 / 0.1)^2 if means and deviations were exact


def test_the_weights_of_susd_by_hand():
    density = make_density([True, True, True, False])
    travel = make_travel(PAIR, [BALL, BOX], density=density, weighted=True)
    state = first_state(travel, [[[1.0, 0.0], [0.0, 1.0]]], [[[1.0]]])
    state = with_density(travel, state, means=[0.0, 0.0, 0.0], deviations=[1.0, 2.0, 4.0])
    skill = np.array([[1.0, 0.0, 0.5]], np.float32)
    batch = make_batch(skill, [[3.0, 2.0, 4.0, 9.0]], np.zeros((1, 4)))
    # The geometric mean of 1/sigma is 1/2, so w = (2, 1, 1/2); surprise = (9 * 4, 4, 16 / 4);
    # c = (40 / 3, 4 / 3); travelled 3 and 4 * .5
    expected = [[3 * math.sqrt(40 / 3), 2 * math.sqrt(4 / 3)]]
    np.testing.assert_allclose(travel.reward(state, batch, STEP), expected, rtol=1e-5)
    assert update_metrics(travel, state, batch)["weight/ball"] == pytest.approx(math.sqrt(40 / 3))
