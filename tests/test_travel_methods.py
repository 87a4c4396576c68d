"""METRA, CSD, SUSD, and components of DUSDi that are paid for distance travelled."""

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
from dusdi.spaces import Box, Categorical, Sphere
from dusdi.types import Factor, WorldSpec

KEY = jax.random.PRNGKey(0)
STEP = jnp.int32(0)
BALL = [True, True, False, False]
BOX = [False, False, True, False]


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
