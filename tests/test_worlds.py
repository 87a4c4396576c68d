"""Multi-Particle and 2D Gunner: what holds for all actions, and single steps worked out by hand."""

import functools
import warnings

import gymnasium
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from wrapped_worlds import EdgeSlider, settle_expert

from dusdi.envs import WORLDS, GymnasiumView, make
from dusdi.envs.gunner import Gunner2D, GunnerState
from dusdi.envs.particle import MultiParticle, ParticleState
from dusdi.errors import UsageError
from dusdi.resolve import resolve_pretrain
from dusdi.stepping import HostStepper

HOLD = 40  # random rollouts repeat an action for so many steps, enough to reach every wall
CHANGES = 3  # and then draw another one, so many times in all
PARTICLES = [MultiParticle(1), MultiParticle(3, simple_actions=True), MultiParticle(10)]
GUNNER = Gunner2D()
KEY = jax.random.PRNGKey(0)
every_world = pytest.mark.parametrize(
    "world", [*PARTICLES, GUNNER], ids=lambda world: str(world.spec.options)
)
every_particle_world = pytest.mark.parametrize(
    "world", PARTICLES, ids=lambda world: str(world.spec.options)
)
few_examples = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31 - 1)


def draw_actions(data, world, *shape, size=1.0):
    elements = st.floats(-size, size, width=32)
    return data.draw(hnp.arrays(np.float32, (*shape, world.spec.action_size), elements=elements))


@functools.cache
def compiled_rollout(world):
    def advance(state, action):
        state = world.step(state, action, KEY)
        return state, world.observe(state)

    def rollout(seed, actions):
        state = world.reset(jax.random.PRNGKey(seed))
        _, observations = jax.lax.scan(advance, state, jnp.repeat(actions, HOLD, axis=0))
        return jnp.concatenate([world.observe(state)[None], observations])

    return jax.jit(rollout)


@functools.cache
def compiled_step(world):
    return jax.jit(lambda state, action: world.step(state, action, KEY))


@functools.cache
def shared_vector(world):
    return world.vector(4)


def list_bounds(world):
    """The most each observation entry can be, lowest and highest."""
    if world is GUNNER:
        low, high = [0, 0, -5 / 3, -5 / 3, 0, -np.pi, 0], [5, 5, 5 / 3, 5 / 3, 1, np.pi, 1]
        return np.array(low), np.array(high)
    n = world.spec.options["agents"]
    # Speed converges to 5 u dt / damping, with u up to 1 (simple) or 1 - (-1).
    speed = 2 if world.spec.options["simple_actions"] else 4
    high = np.array([2 * np.sqrt(2)] * n + [speed, speed, 1, 1] * n + [1, 1] * n)
    return np.where(np.arange(7 * n) < n, 0, -high), high


@every_world
@few_examples
@given(data=st.data())
def test_observations_stay_in_bounds(world, data):
    observations = np.array(
        compiled_rollout(world)(data.draw(seeds), draw_actions(data, world, CHANGES))
    )
    low, high = list_bounds(world)
    assert observations.dtype == np.float32 and observations.shape[1] == world.spec.observation_size
    assert np.isfinite(observations).all()
    assert (observations >= low - 1e-5).all() and (observations <= high + 1e-5).all()
    if world is GUNNER:
        assert np.isin(observations[:, 6], [0, 0.25, 0.5, 0.75, 1]).all()
        assert (np.diff(observations[:, 4]) >= 0).all()


@every_world
@few_examples
@given(data=st.data())
def test_actions_are_clipped(world, data):
    state, action = (
        world.reset(jax.random.PRNGKey(data.draw(seeds))),
        draw_actions(data, world, size=100.0),
    )
    clipped = compiled_step(world)(state, np.clip(action, -1, 1))
    jax.tree.map(np.testing.assert_array_equal, compiled_step(world)(state, action), clipped)


@every_world
def test_factors_partition_the_observation(world):
    entries = [index for factor in world.spec.factors for index in factor.indices]
    assert sorted(entries) == list(range(world.spec.observation_size))
    count = world.spec.options.get("agents", world.spec.observation_size)
    assert [index for factor in world.spec.controlled for index in factor.indices] == list(
        range(count)
    )
    assert (
        world.spec.factor_masks().sum(0) == (np.arange(world.spec.observation_size) < count)
    ).all()


def test_sizes_are_the_papers():
    spec = MultiParticle().spec
    assert (spec.observation_size, spec.action_size, len(spec.factors), len(spec.controlled)) == (
        70,
        50,
        20,
        10,
    )
    assert MultiParticle(simple_actions=True).spec.action_size == 20
    for wrong in ("no", 0, None):
        with pytest.raises(UsageError, match="simple_actions is true or false"):
            MultiParticle(simple_actions=wrong)
    spec = GUNNER.spec
    assert (spec.observation_size, spec.action_size, len(spec.factors), len(spec.controlled)) == (
        7,
        5,
        3,
        3,
    )


@every_particle_world
@few_examples
@given(data=st.data())
def test_an_agent_only_has_to_do_with_its_station(world, data):
    n, spec = world.spec.options["agents"], world.spec
    agent = data.draw(st.integers(0, n - 1))
    action = draw_actions(data, world).reshape(n, -1)
    action[np.arange(n) != agent] = 0
    rest = world.reset(jax.random.PRNGKey(data.draw(seeds)))
    moved = compiled_step(world)(compiled_step(world)(rest, action.ravel()), action.ravel())
    changed = np.flatnonzero(world.observe(moved) != world.observe(rest))
    assert set(changed) <= {*spec.factors[agent].indices, *spec.factors[n + agent].indices}


@every_world
def test_a_seed_determines_everything(world):
    def run(vector, seed):
        actions = np.random.default_rng(0).uniform(-1, 1, (5, 4, world.spec.action_size))
        return np.array(
            [vector.reset(seed), *(vector.step(action)[0] for action in actions), vector.reset()]
        )

    vector = shared_vector(world)
    first = run(vector, 7)
    np.testing.assert_array_equal(run(vector, 7), first)
    np.testing.assert_array_equal(run(world.vector(4), 7), first)
    assert (run(vector, 8)[0] != first[0]).any() and (first[-1] != first[0]).any()


@every_particle_world
def test_particles_start_at_rest_anywhere(world):
    n = world.spec.options["agents"]
    observation = draw_starts(world)
    agents, stations = (
        observation[:, n : 5 * n].reshape(-1, n, 4),
        observation[:, 5 * n :].reshape(-1, n, 2),
    )
    assert (agents[..., :2] == 0).all()
    for place in (agents[..., 2:], stations):
        check_uniform(place, -1, 1)
    assert abs(np.mean(agents[..., 2:] * stations)) < 0.02
    np.testing.assert_allclose(
        observation[:, :n], np.linalg.norm(agents[..., 2:] - stations, axis=-1), atol=1e-6
    )


def test_gunner_starts_anywhere_without_ammo():
    observation = draw_starts(GUNNER)
    check_uniform(observation[:, :2], 0, 5)
    check_uniform(observation[:, 5:6], -np.pi, np.pi)
    assert (observation[:, 2:5] == 0).all()


def draw_starts(world):
    """4000 first observations of an episode."""
    vector = shared_vector(world)
    return np.concatenate([vector.reset(0), *(vector.reset() for _ in range(999))])


def check_uniform(values, low, high):
    """Quartiles of 4000 draws are within 0.04 widths (five standard deviations) of uniform ones."""
    assert values.min() >= low and values.max() <= high
    quartiles = (np.quantile(values, (0.25, 0.5, 0.75), axis=0) - low) / (high - low)
    expected = np.array([0.25, 0.5, 0.75]).reshape(3, *(1,) * (quartiles.ndim - 1))
    np.testing.assert_allclose(quartiles, np.broadcast_to(expected, quartiles.shape), atol=0.04)


@every_world
@few_examples
@given(mask=hnp.arrays(bool, 4))
def test_reset_leaves_the_other_environments_alone(world, mask):
    vector = shared_vector(world)
    before, after = vector.reset(0), vector.reset(mask=mask)
    np.testing.assert_array_equal(after[~mask], before[~mask])
    assert (after[mask] != before[mask]).any(axis=1).all()


@every_world
def test_each_environment_is_done_at_its_own_episode_length(world):
    stepper = HostStepper(world, 4, autoreset=False)
    stepper.reset(0)
    action = np.zeros((4, world.spec.action_size))
    ends = []
    for step in range(1, 1021):
        done = stepper.step(action).done
        ends += [(step, index) for index in np.flatnonzero(done)]
        restarted = done | np.array([False, step == 10, False, step == 20])
        if restarted.any():
            stepper.reset_where(restarted)
    assert ends == [(1000, 0), (1000, 2), (1010, 1), (1020, 3)]


@every_world
def test_pictures_show_every_part_of_the_state(world):
    # In this state the gunner's arm is well inside the plane, so that moving it shows.
    state = (
        GunnerState(*map(np.float32, ([2.0, 2.0], [0.5, 0.5], 0.4, 1.0)))
        if world is GUNNER
        else world.reset(KEY)
    )
    picture = world.render(state)
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    assert picture.shape[0] % 2 == picture.shape[1] % 2 == 0
    np.testing.assert_array_equal(world.render(state), picture)
    for name in state._fields:
        changed = state._replace(**{name: np.asarray(getattr(state, name)) + np.float32(0.6)})
        assert (world.render(changed) != picture).any(), name


@every_world
def test_gymnasium_accepts_the_world(world):
    check_without_warnings(GymnasiumView(world, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", ["dusdi/MultiParticle-v0", "dusdi/Gunner2D-v0"])
def test_gymnasium_makes_the_registered_worlds(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    check_without_warnings(env.unwrapped)
    env.reset(seed=0)
    assert env.render().dtype == np.uint8


def test_registered_worlds_take_options_and_unseeded_episodes_differ():
    env = gymnasium.make("dusdi/MultiParticle-v0", agents=2)
    assert env.observation_space.shape == (14,)
    other = gymnasium.make("dusdi/MultiParticle-v0", agents=2)
    assert (env.reset()[0] != other.reset()[0]).any()
    np.testing.assert_array_equal(env.reset(seed=1)[0], other.reset(seed=1)[0])


def check_without_warnings(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The bounds of observations are not known in general, and the view is not registered.
        warnings.filterwarnings("ignore", message=".*infinity")
        warnings.filterwarnings("ignore", message=".*not having a spec")
        check_env(env)


@pytest.mark.parametrize("agents", [0, -3, 2.5])
def test_particle_refuses_impossible_numbers_of_agents(agents):
    with pytest.raises(UsageError, match="1 to 1000 agents"):
        MultiParticle(agents)


def particle_state(position, velocity, station):
    return ParticleState(jnp.array(position), jnp.array(velocity), jnp.array(station))


def test_particle_step_by_hand():
    world = MultiParticle(1)
    state = particle_state([[0.5, -0.2]], [[1.0, -2.0]], [[0.2, 0.2]])
    # force (1 + 0.5, 0.25 - 0.75); position + 0.1 velocity; 0.75 velocity + 0.5 force
    after = world.step(state, jnp.array([0.9, 1.0, -0.5, 0.25, 0.75]), KEY)
    np.testing.assert_allclose(
        world.observe(after), [0.52**0.5, 1.5, -1.75, 0.6, -0.4, 0.2, 0.2], atol=1e-6
    )


def test_particle_step_with_simple_actions_by_hand():
    world = MultiParticle(2, simple_actions=True)
    state = particle_state(
        [[0.0, 0.0], [0.95, -0.9]], [[0.4, 0.0], [2.0, -2.0]], [[0.04, 1.0], [1.0, 0.0]]
    )
    after = world.step(state, jnp.array([1.0, -1.0, 0.0, 0.5]), KEY)
    # The second agent runs into the corner and keeps its velocity: 0.75 * (2, -2) + (0, 0.25).
    agents = [0.8, -0.5, 0.04, 0.0, 1.5, -1.25, 1.0, -1.0]
    np.testing.assert_allclose(
        world.observe(after), [1.0, 1.0, *agents, 0.04, 1.0, 1.0, 0.0], atol=1e-6
    )


@every_particle_world
@few_examples
@given(data=st.data())
def test_the_particle_expert_keeps_the_distances_asked_for(world, data):
    skill = data.draw(hnp.arrays(int, world.agents, elements=st.integers(0, 4)))
    observation = settle_expert(world)(data.draw(seeds), skill)
    np.testing.assert_allclose(observation[: world.agents], 1.25 / 4 * skill, atol=0.02)


def test_a_world_can_terminate():
    world = EdgeSlider()
    state = world.reset(KEY)
    for _ in range(4):  # of 0.25 each, from 0 to 1
        assert not world.terminated(state)
        state = world.step(state, jnp.ones(1), KEY)
    assert world.terminated(state)
    vector = world.vector(2)
    vector.reset(0)
    ends = [vector.step(np.array([[1.0], [-0.5]]))[1].tolist() for _ in range(8)]
    assert ends.index([True, False]) == 3 and ends[7] == [True, True]


@every_world
def test_the_built_in_worlds_do_not_terminate(world):
    assert not world.terminated(world.reset(KEY))


@pytest.mark.parametrize("name", WORLDS)
def test_every_field_of_a_worlds_presets_is_a_setting(name):
    world = make(name)
    for preset in ("fast", "paper"):
        shared = world.presets.get(preset, {})
        for method, fields in world.method_presets.get(preset, {"dusdi": {}}).items():
            settings = resolve_pretrain(world, method, preset).settings.flat()
            wanted = {**shared, **fields}
            assert {field: settings.get(field) for field in wanted} == wanted
