"""Sources of reward: discriminators and the user's functions, pinned to numbers by hand."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import make_batch, make_space

from dusdi.errors import UsageError
from dusdi.sources.discriminate import Discriminators, DiscriminatorSettings, own_discriminators
from dusdi.sources.functions import FunctionSource, find_function, name_function
from dusdi.spaces import Box, Categorical, Sphere

KEY = jax.random.PRNGKey(0)
LOG3 = math.log(3.0)
STEP = jnp.int32(0)
BALL = [True, True, False, False]
BOX = [False, False, True, False]
PAIR = make_space(ball=Categorical(2), box=Categorical(2))
MIXED = make_space(ball=Sphere(2), box=Categorical(3), arm=Sphere(2))


def make_discriminators(space=PAIR, targets=None, masks=(BALL, BOX), **fields):
    targets = tuple(range(len(space))) if targets is None else targets
    defaults = dict(hidden=(), learning_rate=1e-2, mask_steps=0)
    return Discriminators(
        skill_space=space, targets=targets, masks=np.array(masks), **{**defaults, **fields}
    )


def with_heads(monkeypatch, *heads):
    """Makes discriminators give these outputs: for each group of components, [B, members, head]."""
    arrays = [jnp.asarray(head, jnp.float32) for head in heads]
    monkeypatch.setattr(Discriminators, "_heads", lambda self, params, observation: arrays)


def reward_of(source, batch):
    return np.asarray(jax.jit(lambda: source.reward(source.init(KEY), batch, STEP))())


def updated(source, batch, step=0):
    """The first state of a source, the one after an update, and the metrics."""

    def compute():
        state = source.init(KEY)
        return state, *source.update(state, KEY, batch, jnp.int32(step))

    return jax.jit(compute)()


# --- rewards ---


def test_reward_by_hand(monkeypatch):
    with_heads(monkeypatch, [[[LOG3, 0.0], [0.0, 0.0]]])  # q = (3/4, 1/4) and (1/2, 1/2)
    reward = reward_of(make_discriminators(), make_batch([[0, 1]]))
    np.testing.assert_allclose(reward, [[math.log(1.5), 0.0]], atol=1e-6)


def test_mixed_components_keep_their_places(monkeypatch):
    # Groups: the two spheres, then the category.
    with_heads(monkeypatch, [[[2.0, 0.0], [0.0, 0.0]]], [[[LOG3, 0.0, 0.0]]])
    source = make_discriminators(MIXED, masks=(BALL, BOX, BALL))
    reward = reward_of(source, make_batch(np.array([[0.6, 0.8, 0, 1, 0]], np.float32)))
    # 2 * 0.6 - log I_0(2); q = 3/5 against 1/3; a direction of which nothing is known
    expected = [[1.2 - 0.8239935, math.log(9 / 5), 0.0]]
    np.testing.assert_allclose(reward, expected, atol=1e-5)


def test_a_subset_of_the_components_is_predicted(monkeypatch):
    with_heads(monkeypatch, [[[LOG3, 0.0, 0.0]]], [[[2.0, 0.0]]])
    source = make_discriminators(MIXED, targets=(1, 2), masks=(BOX, BALL))
    reward = reward_of(source, make_batch(np.array([[0, 1, 0, 0.6, 0.8]], np.float32)))
    np.testing.assert_allclose(reward, [[math.log(9 / 5), 1.2 - 0.8239935]], atol=1e-5)
    *_, metrics = updated(source, make_batch(np.zeros((1, 5))))
    assert set(metrics) == {"accuracy/box", "cosine/arm", "loss/discriminator"}


def test_the_prior_bounds_the_reward_and_leaves_nothing_worth_nothing(monkeypatch):
    heads = [[[-100.0, 0.0], [0.0, 0.0]], [[LOG3, 0.0], [0.0, 0.0]]]
    with_heads(monkeypatch, heads)
    source = make_discriminators(prior_mixture=0.2)
    # log(.8 * 2 q + .2) for q = 0 and 1/2, then 3/4 and 1/2
    expected = [[math.log(0.2), 0.0], [math.log(1.4), 0.0]]
    np.testing.assert_allclose(reward_of(source, make_batch([[0, 1], [0, 1]])), expected, atol=1e-5)


def test_the_background_class_takes_its_share(monkeypatch):
    with_heads(monkeypatch, [[[LOG3, 0.0], [0.0, 0.0]]])
    reward = reward_of(make_discriminators(background=1.0), make_batch([[0, 1]]))
    np.testing.assert_allclose(reward, [[math.log(6 / 5), math.log(2 / 3)]], atol=1e-6)


def test_first_steps_of_a_skill_are_worth_nothing_and_teach_nothing():
    source = make_discriminators(mask_steps=10)
    young = make_batch([[0, 1]], np.ones((1, 4)), skill_age=10)
    assert (reward_of(source, young) == 0).all()
    before, after, _ = updated(source, young)
    jax.tree.map(np.testing.assert_array_equal, after.params, before.params)
    old = make_batch([[0, 1]], np.ones((1, 4)), skill_age=11)
    assert (reward_of(source, old) != 0).all()
    before, after, _ = updated(source, old)
    moved = jax.tree.map(lambda a, b: (a != b).any(), after.params, before.params)
    assert any(jax.tree.leaves(moved))


def test_only_transitions_that_count_are_in_loss_and_score(monkeypatch):
    with_heads(monkeypatch, [[[LOG3, 0.0], [0.0, LOG3]], [[0.0, 9.0], [9.0, 0.0]]])
    source = make_discriminators(mask_steps=10)
    batch = make_batch([[0, 0], [0, 1]])._replace(skill_age=jnp.array([20, 5]))
    *_, metrics = updated(source, batch)
    assert (metrics["accuracy/ball"], metrics["accuracy/box"]) == (1, 0)
    # -(log(2 * 3/4) + log(2 * 1/4)) / 2
    assert float(metrics["loss/discriminator"]) == pytest.approx(0.1438410, abs=1e-5)


# --- networks ---


def entries_seen(source):
    """Which observation entries the outputs for each component depend on, bool [targets, D]."""
    point = jnp.array([0.3, -0.2, 0.7, 0.1])
    predicted = source._predicted
    seen = np.zeros((len(predicted), 4), bool)

    def outputs(x):
        return source._heads(source.init(KEY).params, x[None])

    jacobians = jax.jit(jax.jacobian(outputs))(point)
    for group, jacobian in zip(predicted.groups, jacobians, strict=True):
        seen[group.members] = np.abs(jacobian[0]).sum(1) > 0
    return seen


@pytest.mark.parametrize("rbf", [0, 4])
@pytest.mark.parametrize("hidden", [(), (8, 8)])
def test_each_network_sees_only_its_part_of_the_state(hidden, rbf):
    arm = [False, False, False, True]
    source = make_discriminators(
        MIXED,
        masks=(BALL, BOX, arm),
        hidden=hidden,
        rbf_features=rbf,
        rbf_entries=np.array([True, False, True, False]) if rbf else None,
    )
    np.testing.assert_array_equal(entries_seen(source), [BALL, BOX, arm])


@pytest.mark.parametrize(
    ("chosen", "categorical", "expected"),
    [
        ("all", (), [True, True, True, False]),  # the arm is not controlled
        ("single", (), [False, False, True, False]),  # the ball has two entries
        ("single", (1,), [False, True, True, False]),
    ],
)
def test_entries_that_are_seen_as_radial_basis_functions(spec, chosen, categorical, expected):
    spec = dataclasses.replace(spec, categorical=categorical)
    settings = DiscriminatorSettings(rbf_features=4, rbf_on=chosen)
    masks = np.array([BALL, BOX])
    source = own_discriminators(spec, settings, PAIR, (0, 1), masks)
    np.testing.assert_array_equal(source.rbf_entries, expected)
    without = own_discriminators(spec, DiscriminatorSettings(), PAIR, (0, 1), masks)
    assert not without.rbf_entries.any()


def test_a_single_network_predicts_all_components_from_one_mask():
    source = make_discriminators(MIXED, masks=([True, True, True, False],))
    np.testing.assert_array_equal(entries_seen(source), [[True, True, True, False]] * 3)
    heads = jax.eval_shape(lambda x: source._heads(source.init(KEY).params, x), jnp.zeros((5, 4)))
    assert [head.shape for head in heads] == [(5, 2, 2), (5, 1, 3)]


def test_a_single_networks_outputs_are_in_the_order_of_the_components(monkeypatch):
    source = make_discriminators(MIXED, masks=(BALL,))
    params = source.init(KEY).params
    outputs = jnp.arange(7.0)  # 2 of the ball, 3 of the box, 2 of the arm
    bias = params[0]["params"]["output"]["bias"]
    zeros = jax.tree.map(jnp.zeros_like, params)
    zeros[0]["params"]["output"]["bias"] = outputs.reshape(bias.shape)
    spheres, categories = source._heads(zeros, jnp.zeros((1, 4)))
    np.testing.assert_array_equal(spheres, [[[0, 1], [5, 6]]])
    np.testing.assert_array_equal(categories, [[[2, 3, 4]]])


def test_a_network_that_sees_nothing_still_has_a_reward():
    source = make_discriminators(make_space(ball=Categorical(2)), masks=([False] * 4,))
    reward = reward_of(source, make_batch([[0], [1]], np.eye(2, 4)))
    np.testing.assert_allclose(reward, 0.0, atol=1e-6)


def test_discriminators_learn_what_there_is_to_know():
    """A category, a direction and a number that the state tells."""
    space = make_space(ball=Sphere(2), box=Categorical(2), arm=Box(1))
    masks = (BALL, BOX, [False, False, False, True])
    source = make_discriminators(space, masks=masks, hidden=(16,), learning_rate=1e-2)
    skill = np.asarray(space.sample(KEY, 256))
    state = np.stack([2 * skill[:, 1], -skill[:, 0], skill[:, 2] - 0.5, 0.9 * skill[:, 3]], axis=1)
    batch = make_batch(skill, state)

    def step(learned, key):
        return source.update(learned, key, batch, STEP)

    keys = jax.random.split(KEY, 500)
    _, metrics = jax.jit(lambda s: jax.lax.scan(step, s, keys))(source.init(KEY))
    assert metrics["cosine/ball"][-1] > 0.98
    assert metrics["accuracy/box"][-1] == 1
    assert metrics["explained_variance/arm"][-1] > 0.95
    assert metrics["loss/discriminator"][-1] < metrics["loss/discriminator"][0] - 1


# --- regularisation ---


def test_the_background_counts_with_the_square_of_the_steps():
    """Without transitions that count, what moves the networks is the background class alone."""
    source = make_discriminators(mask_steps=10, background=1.0, background_steps=1000)
    batch = make_batch([[0, 1], [1, 0]], np.stack([np.zeros(4), np.ones(4)]), skill_age=1)

    @jax.jit
    def update(step):
        return source.update(source.init(KEY), KEY, batch, step)[0]

    def momentum(step):
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(update(step).optimiser[0].mu)])

    assert (momentum(0) == 0).all()
    assert (momentum(1000) != 0).any()
    np.testing.assert_allclose(momentum(500), momentum(1000) / 4, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(momentum(2000), momentum(1000), rtol=1e-5)


def test_a_place_is_worth_more_to_a_skill_that_is_there_more():
    """Value 0 of the box's component is at 1 (nine times in ten) or at -1, value 1 always at 0."""
    rng = np.random.default_rng(0)
    skill = rng.integers(0, 2, (256, 2))
    place = np.where(skill[:, 1] == 1, 0.0, np.where(rng.random(256) < 0.9, 1.0, -1.0))
    batch = make_batch(skill, np.stack([0 * place, 0 * place, place, 0 * place], axis=1))
    probe = make_batch([[0, 0], [0, 0]], [[0, 0, 1.0, 0], [0, 0, -1.0, 0]])

    def worth(weight):
        source = make_discriminators(
            background=weight,
            background_steps=500,
            learning_rate=3e-2,
            rbf_features=8,
            rbf_entries=np.ones(4, bool),
        )

        def step(state, number):
            return source.update(state, jax.random.fold_in(KEY, number), batch, number)[0], None

        state = jax.jit(lambda s: jax.lax.scan(step, s, jnp.arange(500))[0])(source.init(KEY))
        return np.asarray(source.reward(state, probe, STEP))[:, 1]

    # To mutual information, one place is as good as the other.
    np.testing.assert_allclose(worth(0.0), math.log(2), atol=0.05)
    often, seldom = worth(1.0)
    assert often > seldom + 0.3


# --- functions ---


def moved_as_said(value, before, after):
    """Pays for moving along the direction that the component names."""
    return jnp.sum(value * (after - before), axis=-1)


def is_at(value, before, after):
    """Pays for being where the category says."""
    return -jnp.abs(after[:, 0] - value)


def function_source(spec, space, **functions):
    names = [name_function(function, component) for component, function in functions.items()]
    targets = [space.names.index(component) for component in functions]
    return FunctionSource(spec, space, targets, names)


def test_functions_see_values_and_their_factor_in_the_worlds_units(spec):
    space = make_space(ball=Sphere(2), box=Categorical(5))
    source = function_source(spec, space, ball=moved_as_said, box=is_at)
    raw = make_batch(
        np.array([[0.6, 0.8, 4]], np.float32),
        next_observation=[[3.0, 5.0, 2.5, 9.0]],
        observation=[[1.0, 4.0, 0.0, 9.0]],
    )
    normalised = raw._replace(
        observation=jnp.full((1, 4), 7.0), next_observation=jnp.full((1, 4), 8.0)
    )
    # 0.6 * 2 + 0.8 * 1, and -|2.5 - 4|
    np.testing.assert_allclose(reward_of(source, normalised), [[2.0, -1.5]], rtol=1e-6)
    assert source.update((), KEY, raw, STEP) == ((), {})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda value, before, after: before, r"one number per row, \[3\] for 3 rows; it gave"),
        (lambda value, before, after: before.sum(), "one number per row"),
        (lambda value, before, after: None, "it gave NoneType"),
        (lambda value, before: before, "fails: TypeError"),
        (
            lambda value, before, after: (after - value).sum(-1),
            "fails: (Type|Value)Error",
        ),
        (lambda value, before, after: (after[:, :1] - value).sum(-1), "'ball' mixes rows"),
        (lambda value, before, after: after[:, 7] + value[:, 3, 4], "fails: IndexError"),
    ],
)
def test_functions_that_can_not_be_are_refused_before_learning(spec, function, message):
    with pytest.raises(UsageError, match=message):
        function_source(spec, PAIR, ball=function)


def test_functions_are_found_by_their_name():
    assert find_function(name_function(is_at, "box"), "box") is is_at
    assert find_function("math:fsum", "box") is math.fsum
    with pytest.raises(UsageError, match="can't be imported"):
        find_function("no_such_module:function", "box")
    with pytest.raises(UsageError, match="can't be imported"):
        find_function("math:nothing", "box")
    with pytest.raises(UsageError, match="can't be imported"):
        find_function("math", "box")
    with pytest.raises(UsageError, match="is not a function"):
        find_function("math:pi", "box")
    with pytest.raises(UsageError, match="a reward is a function"):
        name_function(3, "box")


def test_functions_without_a_name_of_their_own_are_kept_apart(spec):
    functions = {
        name: lambda value, before, after, pay=pay: 0 * value + pay
        for name, pay in (("ball", 1.0), ("box", 2.0))
    }
    source = function_source(spec, PAIR, **functions)
    np.testing.assert_allclose(reward_of(source, make_batch([[0, 0]])), [[1.0, 2.0]])
