"""Networks: what ensembles compute, masks, FiLM, gains, features, and the actor's deviations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dusdi.nets import (
    Actor,
    EnsembleMLP,
    masked,
    masked_columns,
    rbf_features,
    squashed_gaussian,
)
from dusdi.types import OneHot

KEY = jax.random.PRNGKey(0)
X = jnp.array([[1.0, 2.0], [-0.5, 4.0], [3.0, 0.0]])
SKILL = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def member(params, i, x, skill=None):
    """What member i of an ensemble computes, by plain matrix products."""
    layers = jax.tree.map(np.asarray, params["params"])
    kernel = layers["state"]["kernel"][:, i]
    if "gain" in layers["state"]:
        kernel = kernel * layers["state"]["gain"][:, i]
    h = np.asarray(x) @ kernel + layers["state"]["bias"][i, 0]
    if "skill" in layers:
        h = h + np.asarray(skill) @ layers["skill"]["kernel"][:, i]
    if "film" in layers:
        h = h * (1 + np.asarray(skill) @ layers["film"]["kernel"][:, i])
    h = np.maximum(h, 0)
    if "hidden_0" in layers:
        h = h @ layers["hidden_0"]["kernel"][i] + layers["hidden_0"]["bias"][i, 0]
        h = np.maximum(h, 0)
    return h @ layers["output"]["kernel"][i] + layers["output"]["bias"][i, 0]


def shaken(params):
    """Parameters of which none is at its start: biases are zero and gains are equal there."""
    return jax.tree.map(lambda x: x + 0.3 * jax.random.normal(KEY, x.shape), params)


@pytest.mark.parametrize("film", [False, True])
def test_a_category_that_is_looked_up_gives_what_its_one_hot_gives(film):
    network = EnsembleMLP(members=2, hidden=(4, 5), outputs=3, film=film)
    params = shaken(network.init(KEY, X, skill=SKILL))
    looked_up = OneHot(jnp.array([0, 1, 2]), 3)

    def total(params, skill):
        out = network.apply(params, X, skill=skill)
        return jnp.sum(out**2), out

    (_, wanted), wanted_grads = jax.value_and_grad(total, has_aux=True)(params, SKILL)
    (_, found), grads = jax.value_and_grad(total, has_aux=True)(params, looked_up)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), grads, wanted_grads)


@pytest.mark.parametrize("film", [False, True])
@pytest.mark.parametrize("gain", [0.0, 0.1])
@pytest.mark.parametrize("hidden", [(5,), (5, 4)])
def test_ensembles_are_independent_networks(hidden, gain, film):
    network = EnsembleMLP(3, hidden, 2, film=film, input_gain=gain)
    params = shaken(jax.jit(lambda: network.init(KEY, X, skill=SKILL))())
    out = jax.jit(network.apply)(params, X, skill=SKILL)
    for i in range(3):
        np.testing.assert_allclose(out[i], member(params, i, X, SKILL), rtol=1e-4, atol=1e-5)
    total = EnsembleMLP(3, hidden, 2, film=film, input_gain=gain, total=True)
    np.testing.assert_allclose(
        jax.jit(total.apply)(params, X, skill=SKILL), out.sum(0), rtol=1e-4, atol=1e-5
    )


def test_inputs_in_several_arrays_are_as_good_as_one():
    network = EnsembleMLP(3, (5,), 2)
    more = jnp.array([[0.5], [0.1], [-2.0]])
    params = jax.jit(lambda: network.init(KEY, X, more))()
    whole = jnp.concatenate([X, more], axis=1)
    np.testing.assert_allclose(
        network.apply(params, X, more), network.apply(params, whole), rtol=1e-5, atol=1e-6
    )


def test_masks_by_hand():
    mask = np.array([[True, False, True], [False, True, False]])
    columns, visible = masked_columns(mask)
    np.testing.assert_array_equal(visible, [[True, True], [True, False]])
    np.testing.assert_array_equal(columns[visible], [0, 2, 1])
    seen = masked(jnp.array([[1.0, 2.0, 3.0]]), mask)
    np.testing.assert_array_equal(seen, [[[1, 3]], [[2, 0]]])


def test_initial_weights_are_as_large_as_all_inputs_ask_for():
    network = EnsembleMLP(1, (400,), 1, film=True)
    params = jax.jit(lambda: network.init(KEY, jnp.zeros((1, 10)), skill=jnp.zeros((1, 6))))()
    layers = params["params"]
    # Uniform numbers up to 1 / sqrt(fan in): the skill counts among the inputs of its layer, FiLM
    # scales differ from 1 by up to 1.
    for name, bound in (("state", 10**-0.5), ("skill", 16**-0.5), ("film", 1.0), ("output", 0.05)):
        kernel = np.abs(layers[name]["kernel"])
        assert 0.97 * bound < kernel.max() <= bound


def test_rbf_features_by_hand():
    # Centres -2.5, 0 and 2.5, of width 2.5.
    near, far = np.exp(-0.5), np.exp(-2.0)
    features = rbf_features(jnp.array([[0.0, -7.0]]), 3)
    np.testing.assert_allclose(features, [[near, 1, near, 1, near, far]], rtol=1e-5)


def test_state_independent_deviations_depend_on_no_input():
    actor = Actor(2, (8,), 3, film=True, input_gain=0.1, state_independent_std=True)
    params = jax.jit(lambda: actor.init(KEY, X, skill=SKILL, skill_mask=None))()
    params["params"]["log_std"] = jnp.array([0.1, 0.2, 0.3])
    mean, log_std = actor.apply(params, X, skill=SKILL, skill_mask=None)
    np.testing.assert_allclose(log_std, [[0.1, 0.2, 0.3]] * 3)
    assert (np.asarray(mean[0]) != np.asarray(mean[1])).all()
    other = Actor(2, (8,), 3, film=True, input_gain=0.1, state_independent_std=False)
    params = jax.jit(lambda: other.init(KEY, X, skill=SKILL, skill_mask=None))()
    _, log_std = other.apply(params, X, skill=SKILL, skill_mask=None)
    assert (np.asarray(log_std[0]) != np.asarray(log_std[1])).all()


def test_squashed_gaussian_density_is_that_of_tanh():
    mean = jnp.array([[0.3, -1.0]])
    log_std = jnp.array([[-0.5, 0.2]])
    action, log_prob = squashed_gaussian(KEY, mean, log_std)
    raw = np.arctanh(np.asarray(action, np.float64))
    density = stats.norm.logpdf(raw, mean, np.exp(log_std)) - np.log1p(-np.square(action))
    np.testing.assert_allclose(log_prob, density.sum(-1), rtol=1e-3)


def test_squashed_gaussian_density_integrates_to_one():
    mean = jnp.full((200_000, 1), 0.3)
    action, log_prob = jax.jit(squashed_gaussian)(KEY, mean, jnp.full_like(mean, -0.5))
    # E[1 / p(a)] over the interval is its length if p is the density of a.
    inside = jnp.abs(action[:, 0]) < 0.9
    np.testing.assert_allclose(jnp.mean(jnp.where(inside, jnp.exp(-log_prob), 0.0)), 1.8, rtol=0.02)
