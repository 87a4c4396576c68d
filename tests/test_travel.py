"""Distance travelled: the source, METRA and CSD, pinned to numbers by hand and seen to learn."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import TINY, Track, make_batch, make_space, settings_for

import dusdi
import dusdi.resolve
from dusdi.envs.base import JaxWorld
from dusdi.errors import UsageError
from dusdi.hierarchy import SkillStepper
from dusdi.methods import find_method
from dusdi.sources.controllability import Controllability, ControllabilitySettings
from dusdi.sources.travel import Travel, TravelSettings, mean_travel
from dusdi.spaces import Box, Categorical, Sphere
from dusdi.types import Factor, WorldSpec

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


# --- methods ---


def make_method(spec, method, **fields):
    settings = settings_for(spec, method, **fields)
    return find_method(settings.method)(spec, settings.objective)


@pytest.mark.parametrize("name", ["metra", "csd"])
def test_methods_with_one_component_see_the_controlled_entries(spec, name):
    method = make_method(spec, name)
    assert method.skill_space == make_space(skill=Sphere(3))
    np.testing.assert_array_equal(method._travel.masks, [[True, True, True, False]])
    assert make_method(spec, name, component=Categorical(4)).skill_space.spaces == (Categorical(4),)


def test_constants_of_the_authors(spec):
    metra = find_method("metra").Settings()
    assert (metra.travel_multiplier, metra.travel_slack, metra.travel_scale) == (30, 1e-3, 1)
    csd = find_method("csd").Settings()
    assert (csd.travel_multiplier, csd.travel_slack, csd.travel_scale) == (3000, 1e-6, 10)
    assert (csd.least_deviation, csd.component) == (1e-6, "sphere:3")
    assert settings_for(spec, "metra", "paper").sac.discount == 0.99


def test_susd_has_a_component_and_a_channel_for_each_factor(spec):
    method = make_method(spec, "susd")
    assert method.skill_space == make_space(ball=Box(2), box=Box(2))
    np.testing.assert_array_equal(method._travel.masks, [BALL, BOX])
    assert method._travel.shared and method._travel.weighted and method._others is None
    assert settings_for(spec, "susd", "fast").sac.decompose_q
    plain = make_method(spec, "susd", weigh_factors=False)
    assert plain._travel.density is None


def reward_of(method, batch):
    return np.asarray(jax.jit(lambda: method.reward(method.init(KEY), KEY, batch, STEP))())


def test_the_penalty_is_an_option_of_susd(spec):
    free = make_method(spec, "susd", component="categorical:3")
    priced = make_method(spec, "susd", component="categorical:3", penalty_weight=0.5)
    batch = make_batch([[0, 1], [2, 2]], np.eye(2, 4), np.zeros((2, 4)))
    others = priced._others

    def entanglement():
        state = others.init(jax.random.split(KEY)[1])
        return others.log_ratio(state.params, batch).at_value

    cost = 0.5 * jax.jit(entanglement)()
    assert np.abs(cost).max() > 1e-3
    np.testing.assert_allclose(reward_of(priced, batch), reward_of(free, batch) - cost, atol=1e-5)
    *_, metrics = jax.jit(lambda: priced.update(priced.init(KEY), KEY, batch, STEP))()
    assert {"penalty_accuracy/ball", "weight/box", "travel/ball", "loss/density"} <= set(metrics)


def test_components_of_dusdi_can_be_paid_for_distance(spec):
    fields = dict(travel=("ball",), components={"ball": "sphere:2"}, penalty_weight=0.1)
    method = make_method(spec, "dusdi", **fields)
    discriminators, travel = method._own
    assert (discriminators.targets, travel.targets) == ((1,), (0,))
    np.testing.assert_array_equal(travel.masks, [BALL])
    np.testing.assert_array_equal(method._others.masks, [BOX, BALL])
    batch = make_batch(np.array([[0.6, 0.8, 3]], np.float32), [[1.0, 2, 3, 4]], np.zeros((1, 4)))

    def parts():
        state = method.init(KEY)
        distance = travel.reward(state.own[1], batch, STEP)
        known = discriminators.reward(state.own[0], batch, STEP)
        entanglement = method._others.log_ratio(state.others.params, batch).at_value
        return jnp.concatenate([distance, known], axis=1), entanglement

    association, entanglement = jax.jit(parts)()
    expected = association - 0.1 * entanglement
    np.testing.assert_allclose(reward_of(method, batch), expected, atol=1e-5)
    row = {"travel/ball": 2.0, "accuracy/box": 0.5}
    assert method.headline(row) == {"accuracy": 0.5}


def test_all_components_of_dusdi_can_be_paid_for_distance(spec):
    method = make_method(spec, "dusdi", travel="all")
    (travel,) = method._own
    assert travel.targets == (0, 1) and not travel.shared
    assert method.headline({"travel/ball": 2.0, "travel/box": 1.0}) == {"travel": 1.5}
    with pytest.raises(UsageError, match="unknown factor in travel 'bal'; did you mean ball"):
        make_method(spec, "dusdi", travel=("bal",))
    with pytest.raises(UsageError, match="travel names 'ball' twice"):
        make_method(spec, "dusdi", travel=("ball", "ball"))
    with pytest.raises(UsageError, match="'ball' can't be both in rewards and in travel"):
        make_method(spec, "dusdi", travel=("ball",), rewards=("ball=math:fsum",))


def test_presets_of_worlds_that_are_tuned_for_dusdi_do_not_count(spec):
    gunner = dusdi.make("gunner-2d")
    fast = dusdi.resolve.resolve_pretrain(gunner, "metra", "fast")
    assert (fast.settings.sac.discount, fast.origins["discount"]) == (0.99, "metra's preset fast")
    walker = dusdi.resolve.resolve_pretrain(dusdi.make("walker"), "metra", "fast")
    assert (walker.settings.run.num_envs, walker.origins["num_envs"]) == (64, "world walker")
    mine = dusdi.resolve.resolve_pretrain(gunner, "metra", "fast", {"discount": 0.5})
    assert mine.settings.sac.discount == 0.5


@pytest.mark.parametrize("world", dusdi.envs.WORLDS)
def test_susd_has_no_penalty_in_any_world(world):
    fast = dusdi.resolve.resolve_pretrain(dusdi.make(world), "susd", "fast").settings
    assert fast.objective.penalty_weight == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "component"), [("metra", "sphere:2"), ("csd", "categorical:3")])
def test_methods_run_in_a_tiny_world(name, component, tmp_path):
    skills = dusdi.pretrain(
        Track(edge=99), method=name, preset="debug", component=component, out=tmp_path,
        progress=False, **TINY,
    )  # fmt: skip
    assert len(skills.space) == 1
    header = (tmp_path / "progress.csv").read_text().splitlines()[0].split(",")
    assert header.index("travel") < header.index("travel/skill")
    assert {"room", "multiplier", "reward/skill"} <= set(header)


class Plane(JaxWorld):
    """A point that is moved in an endless plane by up to 0.3 a step."""

    spec = WorldSpec(
        "plane",
        {},
        observation_size=2,
        action_size=2,
        factors=(Factor("place", (0, 1)),),
        episode_length=50,
        channels=("far",),
    )

    def reset(self, key):
        return 0.1 * jax.random.normal(key, (2,))

    def step(self, state, action, key):
        return state + 0.3 * action

    def observe(self, state):
        return state

    def reward(self, state):
        return jnp.sum(state**2, keepdims=True)

    def render(self, state):
        return np.zeros((16, 16, 3), np.uint8)


SMALL = dict(
    steps=51_200, num_envs=64, steps_per_update=64, batch_size=128, random_steps=1_280,
    replay_capacity=25_600, actor_hidden=(32, 32), critic_hidden=(32, 32), travel_hidden=(32, 32),
    log_every=12_800, skill_length=25, discount=0.95, actor_lr=3e-3, critic_lr=3e-3, tau=0.05,
    progress=False,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"method": "susd"}, {"travel": ("first",)}], ids=str)
def test_factored_methods_run_in_a_tiny_world(options, tmp_path):
    skills = dusdi.pretrain(
        Track(edge=99), preset="debug", component="box:2", penalty_weight=0.1, out=tmp_path,
        progress=False, **options, **TINY,
    )  # fmt: skip
    assert skills.space == make_space(first=Box(2), second=Box(2))
    header = (tmp_path / "progress.csv").read_text().splitlines()[0].split(",")
    assert {"travel/first", "reward/first", "penalty_explained_variance/first"} <= set(header)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["metra", "csd"])
def test_skills_lead_far_in_all_directions(name):
    """After 25 steps, at most 7.5 away along each axis: opposite skills lead to opposite places."""
    skills = dusdi.pretrain(Plane(), method=name, component="sphere:2", **SMALL)
    stepper = SkillStepper(Plane(), skills, 8)
    stepper.reset(0)
    angle = np.arange(8) * np.pi / 4
    skill = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    place = stepper.step(skill).next_observation
    distance = np.linalg.norm(place, axis=1)
    assert distance.mean() > 6 and distance.min() > 1
    cosine = np.sum(place * np.roll(place, 4, axis=0), axis=1)
    assert (cosine < 0).all()
