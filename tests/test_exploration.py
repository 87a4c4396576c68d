"""CIC, ICM, RND and ELDEN: formulas pinned to numbers by hand, and what they are to find."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import TINY, Track, make_batch, make_space, settings_for

import dusdi
from dusdi.methods import METHODS, find_method
from dusdi.methods.cic import contrastive_loss, nearest_distances
from dusdi.methods.elden import disagreement
from dusdi.skill_space import SkillSpace
from dusdi.spaces import Box
from dusdi.types import Factor, WorldSpec

KEY = jax.random.PRNGKey(0)
STEP = jnp.int32(0)
FLAT = ("icm", "rnd", "elden")
LINE = WorldSpec("line", {}, 1, 1, factors=(Factor("place", (0,)),))


def make_method(spec, method, **fields):
    settings = settings_for(spec, method, **fields)
    return find_method(settings.method)(spec, settings.objective)


def flat_batch(after, before=None, action=None):
    """Transitions without skills."""
    after = np.asarray(after, np.float32)
    batch = make_batch(np.zeros((len(after), 0), np.int32), after, before, size=after.shape[1])
    return batch if action is None else batch._replace(action=jnp.asarray(action, jnp.float32))


def silenced(params):
    return jax.tree.map(jnp.zeros_like, params)


def with_moments(state, variance):
    return state.replace(moments=state.moments.replace(variance=jnp.array([variance])))


def reward_of(method, state, batch):
    return np.asarray(jax.jit(lambda state: method.reward(state, KEY, batch, STEP))(state))


def updated(method, state, batch):
    return jax.jit(lambda state: method.update(state, KEY, batch, STEP))(state)


def first_state(method):
    return jax.jit(method.init)(KEY)


def trained(method, batch, updates):
    """A method's state after updates on one batch, and its metrics [updates]."""

    def step(state, key):
        return method.update(state, key, batch, STEP)

    keys = jax.random.split(KEY, updates)
    return jax.jit(lambda state: jax.lax.scan(step, state, keys))(method.init(KEY))


# --- what they all have in common ---


@pytest.mark.parametrize("name", FLAT)
def test_methods_without_skills_are_for_fine_tuning(spec, name):
    method = make_method(spec, name)
    assert method.skill_space == SkillSpace(())
    assert method.used_by == "fine-tuning" and not method.learns_task


@pytest.mark.parametrize("name", ["cic", *FLAT])
def test_their_soft_actor_critic_is_the_flat_agents(spec, name):
    theirs = settings_for(spec, name, "fast")
    flat = settings_for(Track.spec, "sac", "fast")
    assert theirs.networks == flat.networks
    assert dataclasses.replace(theirs.sac, alpha=flat.sac.alpha) == flat.sac


@pytest.mark.parametrize("name", ["icm", "rnd"])
def test_bonuses_are_divided_by_the_deviation_of_those_by_the_new_parameters(spec, name):
    """So after a single update, the bonuses of the same batch have a deviation of 1."""
    method = make_method(spec, name)
    rng = np.random.default_rng(0)
    batch = flat_batch(rng.normal(size=(16, 4)), rng.normal(size=(16, 4)))
    state, _ = updated(method, first_state(method), batch)
    assert reward_of(method, state, batch).std() == pytest.approx(1.0, rel=1e-3)


# --- ICM ---


def test_the_bonus_of_icm_by_hand(spec):
    batch = flat_batch([[3.0, 4.0, 0.0, 0.0]])
    method = make_method(spec, "icm", normalise_bonus=False)
    state = first_state(method)
    state = state.replace(params=silenced(state.params))  # predicts (0, 0, 0, 0)
    np.testing.assert_allclose(reward_of(method, state, batch), [[math.log(6)]], rtol=1e-5)
    assert float(updated(method, state, batch)[1]["error"]) == pytest.approx(5.0)
    normalised = make_method(spec, "icm", normalise_bonus=True)
    state = with_moments(state, 4.0)
    np.testing.assert_allclose(reward_of(normalised, state, batch), [[math.log(6) / 2]], rtol=1e-5)


def test_what_the_model_of_icm_knows_pays_less(spec):
    """Rows 0 to 7 are learned; what the others do was never seen."""
    method = make_method(spec, "icm", model_lr=1e-2, normalise_bonus=False)
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, 16, 4))
    state, metrics = trained(method, flat_batch(after[:8], before[:8]), 300)
    assert metrics["error"][-1] < 0.3 * metrics["error"][0]
    bonus = reward_of(method, state, flat_batch(after, before))
    assert bonus[:8].mean() < 0.5 * bonus[8:].mean()


# --- RND ---


def linear_rnd(**fields):
    """Networks that are linear in one entry: the target gives (2 x, x), the predictor (x, x)."""
    method = make_method(LINE, "rnd", rnd_hidden=(), rnd_outputs=2, **fields)
    state = first_state(method)

    def kernel(params, values):
        params = silenced(params)
        shape = params["params"]["output"]["kernel"].shape
        params["params"]["output"]["kernel"] = jnp.array(values).reshape(shape)
        return params

    target = kernel(state.target, [2.0, 1.0])
    state = state.replace(target=target, params=kernel(state.params, [1.0, 1.0]))
    return method, with_moments(state, 4.0)


def test_the_bonus_of_rnd_by_hand():
    method, state = linear_rnd(batch_norm=False)
    # e = (x^2 + 0) / 2, divided by 2; 7 is clipped at 5
    reward = reward_of(method, state, flat_batch([[2.0], [7.0]], [[9.0], [9.0]]))
    np.testing.assert_allclose(reward, [[1.0], [25 / 4]], rtol=1e-5)


def test_the_batch_norm_of_rnd_by_hand():
    method, state = linear_rnd(batch_norm=True)
    # 1 and 5 have mean 3 and deviation 2, so x = -1 and 1
    reward = reward_of(method, state, flat_batch([[1.0], [5.0]]))
    np.testing.assert_allclose(reward, [[1 / 4], [1 / 4]], rtol=1e-4)


def test_the_target_of_rnd_stays_and_the_predictor_learns(spec):
    method = make_method(spec, "rnd", rnd_lr=1e-2)
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(64, 4)) * 0.3
    before = first_state(method)
    state, metrics = trained(method, flat_batch(seen), 300)
    jax.tree.map(np.testing.assert_array_equal, state.target, before.target)
    assert metrics["error"][-1] < 0.1 * metrics["error"][0]
    # The bonus falls where one has been.
    fresh = seen + 3
    bonus = reward_of(method, state, flat_batch(np.concatenate([seen, fresh])))
    assert bonus[64:].mean() > 10 * bonus[:64].mean()


# --- CIC ---


def test_the_contrastive_loss_by_hand():
    # Row 1: -log(e^2 / (e^2 + e^0 - e^2)); row 2: -log(e^1 / (e^1 + e^2 - e^2))
    cosines = jnp.array([[1.0, 0.0], [1.0, 0.5]])
    assert float(contrastive_loss(cosines, 0.5)) == pytest.approx(-1.0, abs=1e-5)
    # e^1 + e^0 - e^2 is negative, so it is 1e-6 + 1e-6
    cosines = jnp.array([[0.5, 0.0], [0.0, 0.5]])
    assert float(contrastive_loss(cosines, 0.5)) == pytest.approx(math.log(2e-6) - 1, rel=1e-5)


def test_the_nearest_distances_by_hand():
    places = jnp.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])
    found = nearest_distances(places, 2)
    np.testing.assert_allclose(found, [[0.0, 5.0], [0.0, 1.0], [0.0, 1.0]], rtol=1e-5)
    alike = nearest_distances(1e3 * jnp.ones((3, 64)), 2)
    np.testing.assert_array_equal(alike, 0.0)


def linear_cic(spec, variance):
    """An encoder that gives the first entry of the state."""
    method = make_method(spec, "cic", cic_hidden=(), cic_features=1, neighbours=2)
    state = first_state(method)
    encoder = silenced(state.params["encoder"])
    kernel = encoder["params"]["output"]["kernel"]
    encoder["params"]["output"]["kernel"] = jnp.eye(3)[0].reshape(kernel.shape)
    state = state.replace(params={**state.params, "encoder": encoder})
    return method, with_moments(state, variance)


def test_the_reward_of_cic_by_hand(spec):
    method, state = linear_cic(spec, variance=4.0)
    skill = np.zeros((3, 64), np.float32)
    places = np.zeros((3, 4))
    places[:, 0] = [0.0, 2.0, 6.0]
    places[:, 3] = [50.0, 0.0, 0.0]  # not controlled, so not seen
    reward = reward_of(method, state, make_batch(skill, places))
    # Distances (0, 2), (0, 2), (0, 4); (2/4 - 5e-4) / 2 and (4/4 - 5e-4) / 2
    near = math.log1p((0.5 - 5e-4) / 2)
    far = math.log1p((1 - 5e-4) / 2)
    np.testing.assert_allclose(reward, [[near], [near], [far]], rtol=1e-5)
    assert method.headline({"reward/skill": 0.3}) == {"state_entropy": 0.3}


def test_spread_states_are_worth_more(spec):
    method = make_method(spec, "cic")
    assert method.skill_space == make_space(skill=Box(64))
    rng = np.random.default_rng(0)
    places = rng.normal(size=(64, 4))
    skill = rng.uniform(-1, 1, (64, 64)).astype(np.float32)
    state, _ = updated(method, first_state(method), make_batch(skill, places))
    crowded = reward_of(method, state, make_batch(skill, 0.2 * places)).mean()
    assert reward_of(method, state, make_batch(skill, places)).mean() > 1.5 * crowded


def test_contrast_finds_whose_transition_it_is(spec):
    """The first entry of the state moves by the first number of the skill."""
    method = make_method(spec, "cic", component="box:2", cic_lr=3e-3, cic_hidden=(32,))
    rng = np.random.default_rng(0)
    skill = rng.uniform(-1, 1, (128, 2)).astype(np.float32)
    before = rng.normal(size=(128, 4))
    after = before + np.pad(3 * skill, ((0, 0), (0, 2)))
    _, metrics = trained(method, make_batch(skill, after, before), 300)
    assert metrics["contrastive_accuracy"][0] < 0.2
    assert metrics["contrastive_accuracy"][-1] > 0.5
    assert metrics["loss/contrastive"][-1] < metrics["loss/contrastive"][0] - 1


# --- ELDEN ---


def test_the_bonus_of_elden_by_hand(spec):
    """Two linear members; entries 0 and 1 are the ball, 2 the box, 3 the arm, then two actions."""
    method = make_method(spec, "elden", model_members=2, model_hidden=(), dependency_threshold=0.5)
    assert method.input_names == ("ball", "box", "arm", "action 0", "action 1")
    state = first_state(method)
    params = silenced(state.params)
    kernel = np.zeros((2, 3, 6, 2), np.float32)  # [member, factor, input, output]
    kernel[0, 0, :2, 0] = [0.3, -0.3]  # the ball on itself: .3 + .3
    kernel[0, 0, 2] = [0.3, 0.3]  # the ball on the box, in both entries: .6
    kernel[0, 1, 5, 0] = 0.4  # the box on the second action: not enough
    kernel[:, 1, 4, 0] = 0.7  # the box on the first action: both members say so
    kernel[0, 1, 0, 1] = 9.0  # no entry: the box has one
    shape = params["params"]["output"]["kernel"].shape
    params["params"]["output"]["kernel"] = jnp.asarray(kernel).reshape(shape)
    state = with_moments(state.replace(params=params), 0.04)
    batch = flat_batch(np.ones((1, 4)))
    expected = np.zeros((1, 3, 5))
    expected[0, 0, :2] = 0.5
    expected[0, 1, 3] = 1.0
    np.testing.assert_allclose(method.dependencies(state, batch), expected)
    # Votes (1, 0) have an unbiased variance of 1/2, in 2 of 15 pairs; divided by .2
    np.testing.assert_allclose(reward_of(method, state, batch), [[1 / 15 / 0.2]], rtol=1e-4)


def test_disagreement_by_hand():
    votes = jnp.array([1.0, 1.0, 0.0, 0.0, 0.0]).reshape(5, 1, 1, 1)
    # 5/4 * (2/5) (3/5)
    np.testing.assert_allclose(disagreement(votes), [0.3], rtol=1e-5)


def switched_lever(rows, seed):
    """A switch that the first action moves, and a lever that the second moves if it is on."""
    rng = np.random.default_rng(seed)
    before = rng.uniform(-1.5, 1.5, (rows, 2))
    action = rng.uniform(-1, 1, (rows, 2))
    on = before[:, 0] > 0
    after = before + 0.1 * np.stack([action[:, 0], action[:, 1] * on], axis=1)
    return flat_batch(after, before, action), before, on


@pytest.mark.slow
def test_elden_finds_local_dependencies():
    spec = WorldSpec("lever", {}, 2, 2, (Factor("switch", (0,)), Factor("lever", (1,))))
    method = make_method(spec, "elden", model_hidden=(32, 32), model_lr=3e-3, model_batch=64)
    state, metrics = trained(method, switched_lever(2_000, seed=0)[0], 1_500)
    assert metrics["model_error"][-1] < 0.1
    batch, before, on = switched_lever(500, seed=1)
    truth = np.zeros((500, 2, 4), bool)
    truth[:, 0, 2] = True
    truth[:, 1, 3] = on
    # Near the point where it switches, the lever depends on the switch, too.
    clear = np.abs(before[:, 0]) > 0.3
    share = np.asarray(method.dependencies(state, batch))
    assert area_under_curve(share[clear].ravel(), truth[clear].ravel()) > 0.9
    # What is uncertain is what happens where it switches.
    bonus = reward_of(method, state, batch)[:, 0]
    assert bonus[~clear].mean() > bonus[clear].mean()


def area_under_curve(score, label):
    """The probability that a positive has the higher score than a negative; ties count half."""
    positive = score[label][:, None]
    negative = score[~label]
    return np.mean((positive > negative) + 0.5 * (positive == negative))


# --- runs ---


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cic", *FLAT])
def test_methods_run_in_a_tiny_world(name, tmp_path):
    skills = dusdi.pretrain(
        Track(edge=99), method=name, preset="debug", out=tmp_path, progress=False, **TINY
    )
    assert len(skills.space) == (name == "cic")
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    row = dict(zip(lines[0].split(","), lines[-1].split(","), strict=True))
    (metric,) = METHODS[name].headline(None, dict.fromkeys(row, 1.0))
    assert np.isfinite(float(row[metric]))
