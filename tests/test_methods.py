"""The methods: rewards by hand, what they see, their skills, and one from outside the package."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import TINY, Noise, Track, make_batch, make_space, settings_for

from dusdi.errors import UsageError
from dusdi.learner import Learner
from dusdi.methods import find_method
from dusdi.methods.base import mean_score
from dusdi.sources.discriminate import Discriminators
from dusdi.spaces import Box, Categorical, Sphere

KEY = jax.random.PRNGKey(0)
LOG3 = math.log(3.0)
# Two components with two values: q_phi = (3/4, 1/4) and (1/2, 1/2), q_psi = (1/4, 3/4), (3/4, 1/4).
OWN = [[[LOG3, 0.0], [0.0, 0.0]]]
OTHERS = [[[0.0, LOG3], [LOG3, 0.0]]]


def make_method(spec, method="dusdi", **fields):
    settings = settings_for(spec, method, **fields)
    return find_method(settings.method)(spec, settings.objective)


def with_heads(monkeypatch, own, others=None):
    """Makes q_phi and q_psi give these outputs, [B, components, head] each."""

    def answer(self, params, observation):
        return [jnp.asarray(others if self.name == "penalty" else own, jnp.float32)]

    monkeypatch.setattr(Discriminators, "_heads", answer)


def reward_of(method, batch, step=0):
    def compute(step):
        return method.reward(method.init(KEY), KEY, batch, step)

    return np.asarray(jax.jit(compute)(jnp.int32(step)))


def updated(method, batch):
    """The first state of a method, the one after an update, and the metrics."""

    def compute():
        state = method.init(KEY)
        return state, *method.update(state, KEY, batch, jnp.int32(0))

    return jax.jit(compute)()


# --- DUSDi ---


def test_dusdi_reward_by_hand(monkeypatch, spec):
    with_heads(monkeypatch, OWN, OTHERS)
    method = make_method(spec, component="categorical:2", penalty_weight=0.1)
    # r^0 = log(2 * 3/4) - 0.1 log(2 * 1/4);  r^1 = log(2 * 1/2) - 0.1 log(2 * 1/4)
    expected = [[0.405465 + 0.0693147, 0.0693147]]
    np.testing.assert_allclose(reward_of(method, make_batch([[0, 1]])), expected, atol=1e-6)


def test_prior_and_background_are_for_association_only(monkeypatch, spec):
    with_heads(monkeypatch, OWN, OTHERS)
    fields = dict(component="categorical:2", penalty_weight=0.1)
    mixed = make_method(spec, prior_mixture=0.2, **fields)
    expected = [[math.log(0.8 * 1.5 + 0.2) + 0.0693147, 0.0693147]]
    np.testing.assert_allclose(reward_of(mixed, make_batch([[0, 1]])), expected, atol=1e-6)
    background = make_method(spec, background_weight=1.0, **fields)
    # q_phi = (3/5, 1/5) and (1/3, 1/3)
    expected = [[math.log(6 / 5) + 0.0693147, math.log(2 / 3) + 0.0693147]]
    np.testing.assert_allclose(reward_of(background, make_batch([[0, 1]])), expected, atol=1e-6)


def test_club_penalty_by_hand(monkeypatch, spec):
    with_heads(monkeypatch, OWN, OTHERS)
    method = make_method(spec, component="categorical:2", penalty_weight=0.1, penalty="club")
    # the penalty is log 1/4 - (log 1/4 + log 3/4) / 2 = -log(3) / 2 in both
    expected = [[0.405465 + 0.0549306, 0.0549306]]
    np.testing.assert_allclose(reward_of(method, make_batch([[0, 1]])), expected, atol=1e-6)


def test_penalty_schedule(monkeypatch, spec):
    with_heads(monkeypatch, OWN, OTHERS)
    method = make_method(spec, component="categorical:2", penalty_start=1000, penalty_weight=0.1)
    batch = make_batch([[0, 1]])
    np.testing.assert_allclose(reward_of(method, batch, 999), [[0.405465, 0.0]], atol=1e-6)
    np.testing.assert_allclose(reward_of(method, batch, 1000), [[0.474780, 0.0693147]], atol=1e-6)


def test_continuous_reward_by_hand(monkeypatch, spec):
    # own: N(tanh 0, 1) and N(tanh 0, e); others: N(0, 1) twice
    with_heads(monkeypatch, [[[0.0, 0.0], [0.0, 1.0]]], [[[0.0, 0.0], [0.0, 0.0]]])
    method = make_method(spec, component="box:1", penalty_weight=0.1)
    reward = reward_of(method, make_batch(np.array([[0.5, 1.0]], np.float32)))
    # log N(.5; 0, 1) = -1.0439385, log N(1; 0, e) = -1.9866061, log N(1; 0, 1) = -1.4189385,
    # -log p = log 2 = .6931472
    expected = [[0.9 * -0.3507913, -1.2934590 - 0.1 * -0.7257913]]
    np.testing.assert_allclose(reward, expected, atol=1e-5)


def test_knowing_nothing_is_worth_nothing(monkeypatch, spec):
    with_heads(monkeypatch, np.zeros((3, 2, 5)), np.zeros((3, 2, 5)))
    method = make_method(spec)
    np.testing.assert_allclose(reward_of(method, make_batch(np.zeros((3, 2), int))), 0, atol=1e-6)


def test_first_steps_of_a_skill_count_for_neither_discriminator(spec):
    method = make_method(spec, mask_steps=10)
    batch = make_batch([[0, 1]], np.ones((1, 4)), skill_age=10)
    assert (reward_of(method, batch) == 0).all()
    before, after, _ = updated(method, batch)
    jax.tree.map(np.testing.assert_array_equal, after.own[0].params, before.own[0].params)
    jax.tree.map(np.testing.assert_array_equal, after.others.params, before.others.params)
    before, after, metrics = updated(method, batch._replace(skill_age=jnp.array([11])))
    for new, old in ((after.own[0], before.own[0]), (after.others, before.others)):
        moved = jax.tree.map(lambda a, b: (a != b).any(), new.params, old.params)
        assert any(jax.tree.leaves(moved))
    assert set(metrics) == {
        "accuracy/ball", "accuracy/box", "penalty_accuracy/ball", "penalty_accuracy/box",
        "loss/discriminator", "loss/penalty",
    }  # fmt: skip


def test_masks_of_the_methods(spec):
    """Proprioception (entry 3) is seen by none."""
    method = make_method(spec)
    ball = [True, True, False, False]
    box = [False, False, True, False]
    np.testing.assert_array_equal(method._own[0].masks, [ball, box])
    np.testing.assert_array_equal(method._others.masks, [box, ball])
    for name in ("diayn", "diayn-mc"):
        np.testing.assert_array_equal(make_method(spec, name)._own.masks, [[1, 1, 1, 0]])


def test_components_of_single_factors_may_differ(spec):
    method = make_method(spec, components={"box": "sphere:2"})
    assert method.skill_space == make_space(ball=Categorical(5), box=Sphere(2))
    with pytest.raises(UsageError, match="unknown factor in components 'bax'; did you mean box"):
        make_method(spec, components={"bax": "sphere:2"})


# --- rewards of the user's own ---


def to_the_right(value, before, after):
    """Value 1 is to move to the right, value 0 to the left."""
    return (2 * value - 1) * (after - before)[:, 0]


def test_a_function_takes_the_place_of_association(monkeypatch, spec):
    with_heads(monkeypatch, [[[LOG3, 0.0]]], OTHERS)  # one q_phi is left
    fields = dict(component="categorical:2", penalty_weight=0.1)
    method = make_method(spec, rewards={"ball": to_the_right}, **fields)
    batch = make_batch([[1, 0]], [[3.0, 0, 0, 0]], [[1.0, 0, 0, 0]])
    # ball: 2 - 0.1 log(2 * 3/4); box: log(2 * 3/4) - 0.1 log(2 * 3/4)
    expected = [[2 - 0.0405465, 0.9 * 0.405465]]
    np.testing.assert_allclose(reward_of(method, batch), expected, atol=1e-6)
    *_, metrics = updated(method, batch)
    assert "accuracy/ball" not in metrics
    assert "accuracy/box" in metrics


def test_functions_may_pay_all_components(spec):
    given = {"ball": to_the_right, "box": to_the_right}
    method = make_method(spec, component="categorical:2", penalty_weight=0.0, rewards=given)
    batch = make_batch([[1, 0]], [[3.0, 0, 1.0, 0]], [[1.0, 0, 0, 0]])
    np.testing.assert_allclose(reward_of(method, batch), [[2.0, -1.0]])
    assert method.headline({"loss/penalty": 1.0}) == {}


def test_functions_of_unknown_factors_are_refused(spec):
    with pytest.raises(UsageError, match="unknown factor in rewards 'bal'; did you mean ball"):
        make_method(spec, rewards={"bal": to_the_right})


def test_an_update_pays_by_a_function_named_in_the_settings():
    fields = {**TINY, "component": "categorical:2", "penalty_weight": 0.0}
    named = ("first=test_methods:to_the_right", "second=test_methods:to_the_right")
    settings = settings_for(Noise.spec, rewards=named, **fields)
    learner = Learner(Noise.spec, settings)
    state = jax.jit(lambda: learner.init(KEY, (), jnp.zeros((4, 2))))()
    # All that replay holds are moves by (2, 3) of skills (1, 0).
    filled = state.replay._replace(
        next_observation=jnp.tile(jnp.array([2.0, 3.0]), (64, 1)),
        skill=jnp.tile(jnp.array([1, 0]), (64, 1)),
    )
    state = state.replace(replay=filled, iteration=jnp.int32(16))
    state = jax.jit(learner.update)(state)
    assert float(state.metrics["reward/first"]) == pytest.approx(2.0)
    assert float(state.metrics["reward/second"]) == pytest.approx(-3.0)


# --- DIAYN, soft actor-critic ---


def test_diayn_reward_by_hand(monkeypatch, spec):
    with_heads(monkeypatch, [[[LOG3, 0.0, 0.0, 0.0]]])
    method = make_method(spec, "diayn", component="categorical:2")
    assert method.skill_space == make_space(skill=Categorical(4))
    # q = (1/2, 1/6, 1/6, 1/6), prior 1/4
    batch = make_batch([[0]])
    np.testing.assert_allclose(reward_of(method, batch), [[math.log(2)]], atol=1e-6)
    batch = make_batch([[1]])
    np.testing.assert_allclose(reward_of(method, batch), [[math.log(4 / 6)]], atol=1e-6)


def test_skill_spaces_of_the_methods(spec):
    def spaces(method="dusdi", **fields):
        return make_method(spec, method, **fields).skill_space.spaces

    assert spaces() == spaces("diayn-mc") == (Categorical(5), Categorical(5))
    assert spaces("diayn") == (Categorical(25),)
    assert spaces("diayn", max_skills=20) == (Categorical(20),)
    assert spaces(component="box:3") == (Box(3), Box(3))
    assert spaces("diayn", component="box:3") == (Box(6),)
    with pytest.raises(UsageError, match="of one kind"):
        spaces("diayn", components={"box": "box:1"})


def test_the_flat_policy_is_paid_by_the_world(spec):
    method = make_method(Track.spec, "sac")
    assert method.channels == ("first", "second")
    batch = make_batch(np.zeros((1, 0), np.int32))._replace(reward=jnp.array([[1.0, -2.0]]))
    np.testing.assert_array_equal(method.reward((), KEY, batch, jnp.int32(0)), [[1, -2]])
    assert method.headline({"loss/critic": 1.0, "return": 3.0}) == {"return": 3.0}
    with pytest.raises(UsageError, match="'toy' pays no reward to learn from"):
        make_method(spec, "sac")


def test_headlines_are_mean_scores():
    space = make_space(a=Categorical(5), b=Categorical(5))
    row = {"accuracy/a": 0.5, "accuracy/b": 0.7, "penalty_accuracy/a": 0.1}
    assert mean_score(space, row) == {"accuracy": pytest.approx(0.6)}
    mixed = make_space(a=Categorical(5), b=Box(2))
    row = {"accuracy/a": 0.5, "explained_variance/b": 0.9}
    assert mean_score(mixed, row) == {"score": pytest.approx(0.7)}
    assert mean_score(mixed, {"explained_variance/b": 0.9}) == {"explained_variance": 0.9}
    assert mean_score(mixed, {"reward/a": 1.0}) == {}
