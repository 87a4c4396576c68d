"""The spaces of skill components, pinned to numbers worked out by hand and to scipy's densities."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from dusdi.errors import UsageError
from dusdi.skill_space import merged
from dusdi.spaces import Box, Categorical, Sphere, parse_space, space_text

KEY = jax.random.PRNGKey(0)
LOG2 = math.log(2.0)
LOG3 = math.log(3.0)
SPACES = [Categorical(5), Box(2), Sphere(2), Sphere(3)]


def row(*numbers):
    return jnp.array([numbers], jnp.float32)


# --- values ---


def test_categories_are_drawn_evenly_and_stored_as_one_whole_number():
    values = np.asarray(Categorical(5).sample(KEY, (20_000, 2)))
    assert values.shape == (20_000, 2, 1)
    assert values.dtype == np.int32
    shares = np.stack([(values == value).mean(0) for value in range(5)])
    np.testing.assert_allclose(shares, 0.2, atol=0.015)


def test_boxes_are_drawn_evenly():
    values = np.asarray(Box(3).sample(KEY, (20_000,)))
    assert values.shape == (20_000, 3)
    assert np.abs(values).max() <= 1
    quarters = np.stack(
        [np.mean((values >= a) & (values < a + 0.5), 0) for a in (-1, -0.5, 0, 0.5)]
    )
    np.testing.assert_allclose(quarters, 0.25, atol=0.015)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_directions_are_drawn_evenly(m):
    values = np.asarray(Sphere(m).sample(KEY, (20_000,)))
    np.testing.assert_allclose(np.linalg.norm(values, axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(values.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(values.T @ values / 20_000, np.eye(m) / m, atol=0.01)


def test_networks_see_categories_one_hot_and_numbers_as_they_are():
    for xp in (np, jnp):
        code = Categorical(3).encode(np.array([[2], [0]]), xp)
        np.testing.assert_array_equal(code, [[0, 0, 1], [1, 0, 0]])
        assert code.dtype == np.float32
        numbers = np.array([[0.5, -1.0]], np.float32)
        np.testing.assert_array_equal(Box(2).encode(numbers, xp), numbers)
        np.testing.assert_array_equal(Sphere(2).encode(numbers, xp), numbers)


@pytest.mark.parametrize("space", SPACES, ids=space_text)
def test_decoding_is_the_inverse_of_encoding(space):
    values = np.asarray(space.sample(KEY, (50, 3)))
    decoded = space.decode(space.encode(values, np))
    np.testing.assert_allclose(decoded, values, atol=1e-6)
    assert decoded.dtype == values.dtype
    assert space.check(values)


def test_decoding_takes_the_nearest_value():
    np.testing.assert_array_equal(Categorical(3).decode(np.array([0.1, -1, 0.3])), [2])
    np.testing.assert_allclose(Box(2).decode(np.array([1.5, -0.2])), [1, -0.2])
    np.testing.assert_allclose(Sphere(2).decode(np.array([0.3, 0.4])), [0.6, 0.8])
    np.testing.assert_allclose(Sphere(3).decode(np.zeros(3)), [1, 0, 0])


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (Categorical(5), [5]),
        (Categorical(5), [-1]),
        (Categorical(5), [0.5]),
        (Categorical(5), [np.nan]),
        (Box(2), [0.0, 1.01]),
        (Box(2), [np.nan, 0.0]),
        (Sphere(2), [0.5, 0.5]),
        (Sphere(2), [np.nan, 1.0]),
    ],
)
def test_values_outside_are_refused(space, value):
    assert not space.check(np.array([value]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categorical(1),
        lambda: Categorical(1_000_001),
        lambda: Box(0),
        lambda: Sphere(1),
        lambda: Box(1_001),
    ],
)
def test_impossible_sizes_are_refused(make):
    with pytest.raises(UsageError, match="component has"):
        make()


# --- what discriminators say ---


def test_categorical_log_ratio_by_hand():
    head = jnp.array([[LOG3, 0.0], [LOG3, 0.0]])  # q = (3/4, 1/4), prior 1/2
    ratio = Categorical(2).log_ratio(head, jnp.array([[0], [1]]))
    np.testing.assert_allclose(ratio.at_value, [math.log(1.5), math.log(0.5)], rtol=1e-5)
    mean = (math.log(1.5) + math.log(0.5)) / 2
    np.testing.assert_allclose(ratio.over_prior, mean, rtol=1e-5)
    np.testing.assert_array_equal(ratio.score, [1, 0])


def test_among_equally_likely_values_a_guess_is_right_by_chance():
    heads = jnp.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0]])
    score = Categorical(4).log_ratio(heads, jnp.zeros((3, 1), jnp.int32)).score
    np.testing.assert_allclose(score, [1 / 4, 1 / 2, 1])
    wrong = Categorical(4).log_ratio(heads[2:], jnp.ones((1, 1), jnp.int32)).score
    np.testing.assert_allclose(wrong, 0)


def test_the_background_class_takes_its_share_by_hand():
    head = jnp.array([[LOG3, 0.0]])  # and a 0 for the background: q = (3/5, 1/5), 1/5 is left
    space = Categorical(2)
    ratio = space.log_ratio(head, jnp.array([[0]]), background=True)
    np.testing.assert_allclose(ratio.at_value, math.log(6 / 5), rtol=1e-5)
    np.testing.assert_allclose(ratio.over_prior, (math.log(6 / 5) + math.log(2 / 5)) / 2, rtol=1e-5)
    np.testing.assert_allclose(space.log_background(head), math.log(1 / 5), rtol=1e-6)
    assert ratio.score == 1


@pytest.mark.parametrize("space", [Box(2), Sphere(2)])
def test_continuous_components_have_no_background(space):
    head = jnp.ones((3, space.head_size))
    value = space.sample(KEY, (3,))
    np.testing.assert_array_equal(space.log_background(head), 0)
    plain = space.log_ratio(head, value)
    np.testing.assert_array_equal(space.log_ratio(head, value, True).at_value, plain.at_value)


def test_box_log_ratio_is_the_gaussian_density_against_the_uniform_one():
    head = row(0.3, -2.0, -0.5, 0.7)
    value = row(0.5, -0.9)
    ratio = Box(2).log_ratio(head, value)
    mean = np.tanh([0.3, -2.0])
    density = stats.norm.logpdf([0.5, -0.9], mean, np.exp([-0.5, 0.7])).sum()
    np.testing.assert_allclose(ratio.at_value, density + 2 * LOG2, rtol=1e-5)
    error = np.mean((np.array([0.5, -0.9]) - mean) ** 2)
    np.testing.assert_allclose(ratio.score, 1 - 3 * error, rtol=1e-5)


def test_box_deviations_are_bounded():
    value = row(0.25)
    for raw, bounded in ((-9.0, -4.0), (5.0, 1.0)):
        there = Box(1).log_ratio(row(0.0, raw), value).at_value
        expected = stats.norm.logpdf(0.25, 0, math.exp(bounded)) + LOG2
        np.testing.assert_allclose(there, expected, rtol=1e-4)


@pytest.mark.parametrize("concentration", [0.01, 1.0, 7.0, 30.0, 50.0])
@pytest.mark.parametrize("m", [2, 3])
def test_sphere_log_ratio_is_the_von_mises_fisher_density_against_the_uniform_one(m, concentration):
    direction = np.eye(m)[0]
    value = np.zeros(m)
    value[:2] = [0.6, 0.8]
    ratio = Sphere(m).log_ratio(row(*(concentration * direction)), row(*value))
    # E exp(k t) is I_0(k) for m = 2 and sinh(k) / k for m = 3.
    if m == 2:
        normaliser = math.log(special.i0(concentration))
    else:
        normaliser = math.log(math.sinh(concentration) / concentration)
    tolerance = dict(rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ratio.at_value, 0.6 * concentration - normaliser, **tolerance)
    np.testing.assert_allclose(ratio.over_prior, -normaliser, **tolerance)
    np.testing.assert_allclose(ratio.score, 0.6, rtol=1e-5)
    density = stats.vonmises_fisher(direction, concentration).logpdf(value)
    uniform = -math.log(2 * np.pi if m == 2 else 4 * np.pi)
    np.testing.assert_allclose(ratio.at_value, density - uniform, **tolerance)


def test_sphere_concentrations_are_bounded_and_large_spheres_have_a_density():
    at_most = Sphere(3).log_ratio(row(50.0, 0, 0), row(1.0, 0, 0))
    beyond = Sphere(3).log_ratio(row(500.0, 0, 0), row(1.0, 0, 0))
    np.testing.assert_allclose(beyond.at_value, at_most.at_value, rtol=1e-6)
    # A coordinate of a direction in m dimensions is nearly normal, of variance 1 / m.
    head = np.zeros(1000, np.float32)
    head[0] = 5.0
    ratio = Sphere(1000).log_ratio(jnp.asarray(head)[None], jnp.asarray(head)[None] / 5)
    np.testing.assert_allclose(ratio.over_prior, -25 / 2000, rtol=0.01)


def test_a_sphere_that_knows_nothing_has_a_gradient():
    gradient = jax.grad(lambda h: Sphere(3).log_ratio(h, row(0, 0.6, 0.8)).at_value.sum())
    np.testing.assert_allclose(gradient(jnp.zeros((1, 3))), [[0, 0.6, 0.8]], atol=1e-4)


@pytest.mark.parametrize("space", SPACES, ids=space_text)
def test_the_mean_over_the_prior_is_that_of_many_draws(space):
    head = jax.random.normal(KEY, (space.head_size,))
    values = space.sample(jax.random.PRNGKey(1), (200_000,))
    ratio = space.log_ratio(jnp.broadcast_to(head, (200_000, space.head_size)), values)
    np.testing.assert_allclose(ratio.at_value.mean(), ratio.over_prior[0], atol=0.02)
    if not isinstance(space, Box):  # whose Gaussians reach outside
        np.testing.assert_allclose(jnp.exp(ratio.at_value).mean(), 1, atol=0.02)


@pytest.mark.parametrize("space", SPACES, ids=space_text)
def test_knowing_nothing_scores_chance(space):
    values = space.sample(KEY, (100_000,))
    head = jnp.zeros((100_000, space.head_size)).at[:, 0].set(1e-3)
    score = float(space.log_ratio(head, values).score.mean())
    assert score == pytest.approx(space.chance, abs=0.01)


# --- policies over values ---


def test_categorical_policy_by_hand():
    space = Categorical(2)
    out = jnp.array([[LOG3, 0.0], [LOG3, 0.0]])
    free = jnp.zeros((2, 0))
    log_prob = space.log_prob(out, free, jnp.array([[0], [1]]))
    np.testing.assert_allclose(log_prob, [math.log(0.75), math.log(0.25)], rtol=1e-5)
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    np.testing.assert_allclose(space.entropy(out, free), entropy, rtol=1e-5)
    np.testing.assert_array_equal(space.mode(out), [[0], [0]])
    drawn = space.draw(KEY, jnp.broadcast_to(out[0], (20_000, 2)), free)
    assert drawn.shape == (20_000, 1)
    assert float(drawn.mean()) == pytest.approx(0.25, abs=0.01)
    assert space.policy_parameters.shape == (0,)


@pytest.mark.parametrize("space", [Box(2), Sphere(2)])
def test_continuous_policies_are_gaussians(space):
    out = row(0.4, -2.0)
    free = jnp.array([-1.0, 0.5])
    choice = row(0.1, 0.3)
    normal = stats.norm([0.4, -2.0], np.exp([-1.0, 0.5]))
    log_prob = space.log_prob(out, free, choice)
    np.testing.assert_allclose(log_prob, normal.logpdf([0.1, 0.3]).sum(), rtol=1e-5)
    np.testing.assert_allclose(space.entropy(out, free), normal.entropy().sum(), rtol=1e-5)
    drawn = space.draw(KEY, jnp.broadcast_to(out, (20_000, 2)), free)
    np.testing.assert_allclose(drawn.mean(0), [0.4, -2.0], atol=0.04)
    np.testing.assert_allclose(drawn.std(0), np.exp([-1.0, 0.5]), rtol=0.03)
    np.testing.assert_allclose(space.policy_parameters, [-0.5, -0.5])


def test_choices_become_values_in_their_space():
    np.testing.assert_allclose(Box(2).bounded(row(1.5, -0.3)), [[1, -0.3]])
    np.testing.assert_allclose(Box(2).mode(row(1.5, -0.3)), [[1, -0.3]])
    np.testing.assert_allclose(Sphere(2).bounded(row(3.0, 4.0)), [[0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(Sphere(2).mode(row(3.0, 4.0)), [[0.6, 0.8]], rtol=1e-6)
    np.testing.assert_array_equal(Categorical(3).bounded(jnp.array([[2]])), [[2]])


# --- texts ---


@pytest.mark.parametrize("space", SPACES, ids=space_text)
def test_spaces_are_written_as_they_are_read(space):
    assert parse_space(space_text(space)) == space
    assert parse_space(space) is space


@pytest.mark.parametrize("text", ["categorical", "categorical:", "box:two", "ball:3", "", 5])
def test_other_texts_are_refused_with_the_forms_named(text):
    with pytest.raises(UsageError, match="categorical:K, box:M or sphere:M"):
        parse_space(text)


def test_sizes_in_texts_are_checked():
    with pytest.raises(UsageError, match="2 to 1,000,000 values"):
        parse_space("categorical:1")


def test_directions_by_hand():
    np.testing.assert_allclose(Sphere(2).direction(row(0.6, 0.8)), [[0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(Box(2).direction(row(0.1, -1.0)), [[0.1, -1.0]], rtol=1e-6)
    # ((0, 1, 0) - 1/3) * 3/2
    np.testing.assert_allclose(Categorical(3).direction(jnp.array([1])), [-0.5, 1, -0.5], atol=1e-6)
    np.testing.assert_allclose(Categorical(2).direction(jnp.array([0])), [1, -1], atol=1e-6)


def test_one_space_for_all_combinations():
    assert merged([Categorical(5), Categorical(3)], most=100) == Categorical(15)
    assert merged([Categorical(5)] * 10, most=4096) == Categorical(4096)
    assert merged([Box(2), Box(3)], most=4096) == Box(5)
    assert merged([Sphere(2), Sphere(2)], most=4096) == Sphere(4)
    with pytest.raises(UsageError, match="one kind, not box and categorical; choose the same"):
        merged([Box(2), Categorical(2)], most=4096)


@pytest.mark.parametrize("size", ["2", 2.0, 2.5, True, None, math.nan])
@pytest.mark.parametrize("kind", [Categorical, Box, Sphere])
def test_sizes_are_whole_numbers(kind, size):
    with pytest.raises(UsageError, match=f"a {kind.kind} component has .*, not {size!r}"):
        kind(size)


def test_only_a_single_value_is_told_that_it_expresses_nothing():
    with pytest.raises(UsageError, match=r"not 1000001$"):
        Categorical(1_000_001)
    with pytest.raises(UsageError, match="not 1; with one value"):
        Categorical(1)
