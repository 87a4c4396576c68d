"""The running moments of observations, against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dusdi import normalise


def moments(*batches):
    found = normalise.init(len(batches[0][0]))
    for rows in batches:
        found = normalise.update(found, jnp.asarray(rows, jnp.float32))
    return found


@pytest.mark.parametrize("function", [moments, jax.jit(moments)], ids=["plain", "compiled"])
def test_moments_of_two_batches_are_those_of_all_rows(function):
    """First column: 1, 3, 5, 7, 9 with mean 5 and variance (16 + 4 + 0 + 4 + 16) / 5 = 8.

    Second column: 0, 0, 2, 2, 6 with mean 2 and variance (4 + 4 + 0 + 0 + 16) / 5 = 4.8.
    """
    found = function([[1.0, 0.0], [3.0, 0.0]], [[5.0, 2.0], [7.0, 2.0], [9.0, 6.0]])
    assert found.count == 5
    np.testing.assert_allclose(found.mean, [5.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(found.variance, [8.0, 4.8], rtol=1e-6)


def test_the_initial_moments_have_no_weight():
    found = moments([[4.0], [6.0]])
    assert (float(found.mean[0]), float(found.variance[0])) == (5.0, 1.0)
    found = moments([[4.0]])
    assert (float(found.mean[0]), float(found.variance[0])) == (4.0, 0.0)


def test_observations_are_shifted_and_scaled():
    """The variance 4 makes a deviation of 2, up to the 1e-6 that keeps the divisor from 0."""
    found = normalise.Normaliser(jnp.float32(9), jnp.array([1.0, -2.0]), jnp.array([4.0, 0.25]))
    scaled = normalise.apply(found, jnp.array([[5.0, -2.0], [1.0, -1.0]]))
    np.testing.assert_allclose(scaled, [[2.0, 0.0], [0.0, 2.0]], rtol=1e-5)


def test_a_constant_entry_becomes_zero_and_outliers_are_clipped_at_ten_deviations():
    found = moments([[3.0, 0.0], [3.0, 2.0]])
    scaled = normalise.apply(found, jnp.array([[3.0, 1.0], [3.0, 100.0], [4.0, -100.0]]))
    np.testing.assert_allclose(scaled, [[0.0, 0.0], [0.0, 10.0], [10.0, -10.0]], atol=1e-6)


def test_before_any_update_observations_stay_as_they_are_up_to_the_clipping():
    scaled = normalise.apply(normalise.init(3), jnp.array([[0.5, -3.0, 40.0]]))
    np.testing.assert_allclose(scaled, [[0.5, -3.0, 10.0]], rtol=1e-5)


def test_observations_stay_as_they_are_if_moments_are_not_used():
    raw = jnp.array([[0.5, -3.0, 40.0]])
    np.testing.assert_array_equal(normalise.apply(moments([[1.0] * 3]), raw, used=False), raw)
