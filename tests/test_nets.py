"""Networks: products in half precision, inputs that are dropped, and an actor whose deviations are free."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import dusdi.nets
from dusdi.nets import Actor, EnsembleMLP, drop_inputs, half_matmul

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


def test_half_precision_is_used_only_where_the_processor_knows_it(monkeypatch):
    network = EnsembleMLP(2, (4,), 1, half=True)
    x = jnp.full((1, 3), 1 + 2.0**-9)
    params = network.init(jax.random.PRNGKey(0), x)
    whole = EnsembleMLP(2, (4,), 1).apply(params, x)
    for known in (True, False):
        monkeypatch.setattr(dusdi.nets, "knows_bfloat16", lambda known=known: known)
        assert np.array_equal(network.apply(params, x), whole) != known


def test_free_deviations_depend_on_no_input():
    actor = Actor(members=2, hidden=(8,), actions=3, gate=True, input_gain=0.1, input_limit=0, half=True, free_std=True)
    skill = jax.nn.one_hot(jnp.array([0, 3]), 4)
    params = actor.init(jax.random.PRNGKey(0), A[:2], skill=skill, skill_mask=None)
    params["params"]["log_std"] = jnp.array([0.1, 0.2, 0.3])
    mean, log_std = actor.apply(params, A[:2], skill=skill, skill_mask=None)
    np.testing.assert_allclose(log_std, [[0.1, 0.2, 0.3]] * 2)
    assert (np.asarray(mean[0]) != np.asarray(mean[1])).all()


def test_only_the_largest_gains_of_each_network_are_kept_with_what_adam_remembers_of_them():
    gain = jnp.array([[0.3, -0.2], [-0.5, 0.1], [0.1, 0.4]])[..., None]  # three inputs, two networks
    params = {"state": {"gain": gain, "kernel": jnp.ones((3, 2, 4))}}
    moments = jax.tree.map(jnp.ones_like, params)
    dropped, remembered = drop_inputs(params, 2, moments)
    np.testing.assert_allclose(dropped["state"]["gain"][..., 0], [[0.3, -0.2], [-0.5, 0.0], [0.0, 0.4]])
    np.testing.assert_allclose(remembered["state"]["gain"][..., 0], [[1, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(dropped["state"]["kernel"], params["state"]["kernel"])
    again, _ = drop_inputs(dropped, 2, remembered)
    np.testing.assert_array_equal(again["state"]["gain"], dropped["state"]["gain"])
    assert drop_inputs(params, 3)[0] is params


def test_networks_limited_to_the_kept_inputs_compute_the_same_with_the_same_gradients():
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    x, action, skill = (jax.random.normal(key, (6, size)) for key, size in zip(keys, (7, 3, 4), strict=False))
    networks = {limit: EnsembleMLP(5, (8, 8), 2, gate=True, input_gain=0.1, input_limit=limit) for limit in (0, 3)}
    params = networks[0].init(keys[3], x, action, skill=skill)
    params["params"]["state"]["gain"] = jax.random.normal(keys[3], (10, 5, 1))
    (params,) = drop_inputs(params, 3)

    @functools.partial(jax.jit, static_argnums=0)
    def value_and_gradients(limit):
        def total(params, action):
            out = networks[limit].apply(params, x, action, skill=skill)
            return jnp.sum(out**2), out

        (_, out), (by_params, by_action) = jax.value_and_grad(total, (0, 1), has_aux=True)(params, action)
        # What a dropped input's gain would change is the one thing that only the whole network knows.
        gain = by_params["params"]["state"].pop("gain")
        return out, by_params, by_action, gain * (params["params"]["state"]["gain"] != 0)

    for limited, whole in zip(*(jax.tree.leaves(value_and_gradients(limit)) for limit in (3, 0)), strict=True):
        np.testing.assert_allclose(limited, whole, rtol=1e-4, atol=1e-6)
