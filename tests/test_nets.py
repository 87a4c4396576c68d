"""Networks: products in half precision, inputs that are dropped, and an actor whose deviations are free."""

import jax
import jax.numpy as jnp
import numpy as np

import dusdi.nets
from dusdi.nets import Actor, EnsembleMLP, half_matmul, largest_gains, narrow, widen

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
        return jax.grad(
            lambda a, b: jnp.sum(multiply(a, b) * jnp.array([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]])),
            (0, 1),
        )(A, B)

    for half, whole in zip(total(half_matmul), total(jnp.matmul), strict=True):
        np.testing.assert_array_equal(half, whole)


def test_half_precision_is_used_only_where_the_processor_knows_it(monkeypatch):
    network = EnsembleMLP(2, (4,), 1, half=True)
    x = jnp.full((1, 3), 1 + 2.0**-9)
    params = network.init(jax.random.PRNGKey(0), x)
    whole = EnsembleMLP(2, (4,), 1).apply(params, x)
    for known in (True, False):
        monkeypatch.setattr(dusdi.nets, "knows_bfloat16", lambda known=known: known)
        assert np.array_equal(network.apply(params, x), whole) != known


def test_free_deviations_depend_on_no_input():
    actor = Actor(
        members=2, hidden=(8,), actions=3, gate=True, input_gain=0.1, half=True, free_std=True
    )
    skill = jax.nn.one_hot(jnp.array([0, 3]), 4)
    params = actor.init(jax.random.PRNGKey(0), A[:2], skill=skill, skill_mask=None)
    params["params"]["log_std"] = jnp.array([0.1, 0.2, 0.3])
    mean, log_std = actor.apply(params, A[:2], skill=skill, skill_mask=None)
    np.testing.assert_allclose(log_std, [[0.1, 0.2, 0.3]] * 2)
    assert (np.asarray(mean[0]) != np.asarray(mean[1])).all()


def test_only_the_largest_gains_of_each_network_are_kept_with_what_adam_remembers_of_them():
    gain = jnp.array([[0.3, -0.2], [-0.5, 0.1], [0.1, 0.4]])[
        ..., None
    ]  # three inputs, two networks
    kernel = jnp.arange(12.0).reshape(3, 2, 2) + 1
    params = {"state": {"gain": gain, "kernel": kernel}, "output": {"kernel": kernel}}
    seen = largest_gains(params, 2)
    np.testing.assert_array_equal(seen, [[0, 1], [0, 2]])
    narrowed = narrow(params, seen)
    np.testing.assert_allclose(narrowed["state"]["gain"][..., 0], [[0.3, -0.5], [-0.2, 0.4]])
    np.testing.assert_allclose(narrowed["state"]["kernel"], [[[1, 2], [5, 6]], [[3, 4], [11, 12]]])
    assert narrowed["output"]["kernel"] is kernel
    wide = widen(narrowed, seen, 3)
    np.testing.assert_allclose(
        wide["state"]["gain"][..., 0], [[0.3, -0.2], [-0.5, 0.0], [0.0, 0.4]]
    )
    np.testing.assert_allclose(
        wide["state"]["kernel"], [[[1, 2], [3, 4]], [[5, 6], [0, 0]], [[0, 0], [11, 12]]]
    )
    np.testing.assert_array_equal(largest_gains(wide, 2), seen)


def test_narrow_networks_compute_the_same_as_wide_ones_with_the_same_gradients():
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    x, action, skill = (
        jax.random.normal(key, (6, size)) for key, size in zip(keys, (7, 3, 4), strict=False)
    )
    network = EnsembleMLP(5, (8, 8), 2, gate=True, input_gain=0.1)
    params = network.init(keys[3], x, action, skill=skill)
    params["params"]["state"]["gain"] = jax.random.normal(keys[3], (10, 5, 1))
    seen = largest_gains(params, 3)
    narrowed = narrow(params, seen)

    @jax.jit
    def value_and_gradients(params, seen):
        def total(params, action):
            out = network.apply(params, x, action, skill=skill, seen=seen)
            return jnp.sum(out**2), out

        return jax.value_and_grad(total, (0, 1), has_aux=True)(params, action)

    (_, out), (by_params, by_action) = value_and_gradients(narrowed, seen)
    (_, whole_out), (by_whole_params, by_whole_action) = value_and_gradients(
        widen(narrowed, seen, 10), None
    )
    expected = whole_out, narrow(by_whole_params, seen), by_whole_action
    for ours, theirs in zip(
        *map(jax.tree.leaves, ((out, by_params, by_action), expected)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
