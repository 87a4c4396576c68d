"""Networks: products in half precision, and an actor whose deviations are free."""

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.nets import Actor, half_matmul

A = jnp.array([[1.0, 2.0], [-0.5, 4.0], [3.0, 0.0]])
B = jnp.array([[2.0, -1.0], [0.25, 8.0]])


def test_half_products_of_numbers_that_bfloat16_holds_are_exact():
    np.testing.assert_array_equal(half_matmul(A, B), [[2.5, 15.0], [0.0, 32.5], [6.0, -3.0]])


def test_half_products_round_what_bfloat16_does_not_hold_but_add_up_in_float32():
    # 1 + 2^-9 rounds to 1; a sum of 300 ones would stop at 256 if it were kept in bfloat16
    row, column = jnp.full((1, 300), 1 + 2.0**-9), jnp.ones((300, 1))
    assert float(half_matmul(row, column)[0, 0]) == 300.0


def test_gradients_of_half_products_are_those_of_products():
    def total(multiply):
        return jax.grad(lambda a, b: jnp.sum(multiply(a, b) * jnp.array([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]])), (0, 1))(A, B)

    for half, whole in zip(total(half_matmul), total(jnp.matmul), strict=True):
        np.testing.assert_array_equal(half, whole)


def test_free_deviations_depend_on_no_input():
    actor = Actor(members=2, hidden=(8,), actions=3, gate=True, input_gain=0.1, half=True, free_std=True)
    skill = jax.nn.one_hot(jnp.array([0, 3]), 4)
    params = actor.init(jax.random.PRNGKey(0), A[:2], skill=skill, skill_mask=None)
    params["params"]["log_std"] = jnp.array([0.1, 0.2, 0.3])
    mean, log_std = actor.apply(params, A[:2], skill=skill, skill_mask=None)
    np.testing.assert_allclose(log_std, [[0.1, 0.2, 0.3]] * 2)
    assert (np.asarray(mean[0]) != np.asarray(mean[1])).all()
