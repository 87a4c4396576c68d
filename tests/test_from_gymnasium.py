"""Your own environment: what is refused and why, tasks on it, and skills that are found in it."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import SLIDERS, Sliders

import dusdi
from dusdi.errors import UsageError, WorldError
from dusdi.stepping import HostStepper
from dusdi.tasks import HostTask


def test_a_gymnasium_id_becomes_a_world():
    world = dusdi.from_gymnasium("Pendulum-v1", factors={"angle": [0, 1]}, proprioception=[2])
    spec = world.spec
    assert (spec.name, spec.observation_size, spec.action_size, spec.episode_length) == (
        "Pendulum-v1",
        3,
        1,
        200,
    )
    assert [factor.controlled for factor in spec.factors] == [True, False]


def test_actions_are_scaled_and_episodes_reset_where_asked():
    vector = dusdi.from_gymnasium(Sliders, SLIDERS).vector(2)
    start = vector.reset(seed=3)
    moved, terminated, truncated = vector.step(np.array([[1.0, 0, 0], [0, 0, 2.0]]))
    np.testing.assert_allclose(
        moved[0, :3], np.clip(start[0, :3] + [0.24, -0.18, 0], -1, 1), atol=1e-6
    )
    np.testing.assert_allclose(moved[1, 2], max(start[1, 2] - 0.3, -1), atol=1e-6)
    assert not terminated.any() and not truncated.any() and moved.dtype == np.float32
    again = vector.reset(mask=np.array([False, True]))
    np.testing.assert_array_equal(again[0], moved[0])
    assert (again[1, :3] != moved[1, :3]).all()
    np.testing.assert_array_equal(vector.reset(seed=3), start)


class KeepLeft(HostTask):
    """Rewards the place of the first slider, as a user's own task would."""

    def __init__(self, world):
        super().__init__("left", world, channels=["x"], causal=np.eye(1, 3), variables=["sign"])

    def reset_variables(self, key, world):
        return jnp.sign(world.observation[0])

    def score(self, variables, world, window_ends):
        return variables, -world.observation[:1]

    def resample(self, variables, key):
        return -variables

    def observe_variables(self, variables):
        return variables[None]


def test_a_task_on_a_gymnasium_world_reads_its_observation():
    vector = KeepLeft(dusdi.from_gymnasium(Sliders, SLIDERS)).vector(2)
    start = vector.reset(0)
    np.testing.assert_array_equal(start[:, 4], np.sign(start[:, 0]))
    np.testing.assert_array_equal(vector.state().world.observation, start[:, :4])
    for step in range(1, 51):
        observation, _, _ = vector.step(np.ones((2, 3)))
        np.testing.assert_array_equal(vector.rewards(), -observation[:, :1])
        np.testing.assert_allclose(observation[:, 5], step % 50 / 50, rtol=1e-6)
    np.testing.assert_array_equal(observation[:, 4], -start[:, 4])  # in the second window


def test_scaled_actions_stay_in_the_box():
    class Picky(Sliders):
        action_space = gymnasium.spaces.Box(np.float32(-1.9096133), np.float32(1.6765125), (3,))

        def step(self, action):
            assert self.action_space.contains(action), action
            return super().step(action)

    vector = dusdi.from_gymnasium(Picky, SLIDERS).vector(1)
    vector.reset(seed=0)
    for value in (-1.0, 1.0, 0.3):
        vector.step(np.full((1, 3), value, np.float32))


def test_a_world_without_pictures_says_so():
    vector = dusdi.from_gymnasium(Sliders, SLIDERS).vector(1)
    vector.reset(seed=0)
    with pytest.raises(WorldError, match="render_mode"):
        vector.render()


def test_an_instance_is_refused():
    with pytest.raises(WorldError, match="pass its class or a function"):
        dusdi.from_gymnasium(Sliders(), SLIDERS)


@pytest.mark.parametrize(
    ("factors", "proprioception", "message"),
    [
        ({"a": [0, 1], "b": [1, 2]}, [], "entry 1 is in factor 'a' and again in 'b'"),
        ({"a": [0], "b": [4]}, [], "factor 'b' names observation entry 4.*0 to 3"),
        ({"a": slice(0, 9)}, [], "factor 'a' names observation entry 9.*0 to 3"),
        ({"a": "1:9"}, [], "factor 'a' names observation entry 9.*0 to 3"),
        ({"a": [0], "b": [-1]}, [], "factor 'b' names observation entry -1"),
        ({"a": [0], "b": []}, [], "factor 'b' has no observation entries"),
        ({"a": [0]}, [0], "entry 0 is in factor 'a' and again in 'proprioception'"),
        ({"a": [0]}, ["c"], "names the factor 'c'"),
        ({"a": [0]}, ["a"], "no factor is controlled"),
        ({}, [], "name at least one factor.*has the entries 0:4"),
        (None, [], "factors must be a dict"),
        ([[0], [1]], [], r"factors must be a dict.*\[\[0\], \[1\]\]"),
        ({1: [0]}, [], "1 is no name"),
        ({" ": [0]}, [], "' ' is no name"),
        ({"a": slice("x", "y")}, [], "factor 'a' is given as slice.*not an index"),
        ({"a": slice(0, 2, 0)}, [], "factor 'a' is given as slice.*not an index"),
        ({"a": "0:2:0"}, [], "factor 'a' is given as slice"),
        ({"a": "left"}, [], "factor 'a' is given as 'left'.*not an index"),
        ({"a": [[0], [1]]}, [], r"factor 'a' is given as \[0\]"),
        ({"a": None}, [], "factor 'a' is given as None"),
        ({"a": "0,7"}, [], "factor 'a' names observation entry 7"),
        ({"a": [0]}, 9, "proprioception names observation entry 9"),
        ({"a": "xy"}, [], "factor 'a'"),
        ({"a": [True, False]}, [], "factor 'a'"),
        ({"a": [0.9]}, [], "factor 'a'"),
        ({"a": np.int64(0)}, "bb", "names the factor 'bb'"),
        ({"a": [0]}, slice(0, 2), "entry 0 is in factor 'a' and again in 'proprioception'"),
    ],
)
def test_bad_factors_are_refused(factors, proprioception, message):
    with pytest.raises(WorldError, match=message):
        dusdi.from_gymnasium(Sliders, factors, proprioception)


@pytest.mark.parametrize("proprioception", [np.int64(3), 3, "3", [np.int64(3)], "3:", slice(3, 4)])
def test_entries_can_be_written_in_many_ways(proprioception):
    factors = {"left": "0", "rest": "1:2,2"}
    spec = dusdi.from_gymnasium(Sliders, factors, proprioception).spec
    assert [factor.indices for factor in spec.factors] == [(0,), (1, 2), (3,)]
    assert spec.factors[2].name == "proprioception" and not spec.factors[2].controlled


def test_no_proprioception_may_be_none():
    spec = dusdi.from_gymnasium(Sliders, {"all": slice(0, 4)}, None).spec
    assert [factor.name for factor in spec.factors] == ["all"]


def test_factors_may_be_marked_as_proprioception_by_name():
    spec = dusdi.from_gymnasium(Sliders, {**SLIDERS, "noise": range(3, 4)}, ["noise"]).spec
    assert [factor.name for factor in spec.controlled] == ["left", "middle", "right"]


def test_discrete_actions_are_refused():
    with pytest.raises(WorldError, match=r"continuous actions.*Discrete"):
        dusdi.from_gymnasium("CartPole-v1", {"cart": [0, 1]})


def test_unbounded_actions_are_refused():
    class Unbounded(Sliders):
        action_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,))

    with pytest.raises(WorldError, match="bounded"):
        dusdi.from_gymnasium(Unbounded, SLIDERS)


def test_image_observations_are_refused():
    class Image(Sliders):
        observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    with pytest.raises(WorldError, match="FlattenObservation"):
        dusdi.from_gymnasium(Image, SLIDERS)


@pytest.mark.slow
def test_a_nan_observation_stops_at_its_step_and_is_named(tmp_path):
    class Breaks(Sliders):
        steps = 0

        def step(self, action):
            observation, *rest = super().step(action)
            Breaks.steps += 1
            if Breaks.steps > 1000:
                observation[1] = np.nan
            return observation, *rest

    with pytest.raises(WorldError, match=r"non-finite observation \(nan\).*middle\[0\]"):
        dusdi.pretrain(
            dusdi.from_gymnasium(Breaks, SLIDERS),
            preset="debug",
            out=tmp_path / "run",
            progress=False,
        )
    assert dusdi.load(tmp_path / "run").step == 640  # the last checkpoint before it


def test_terminating_worlds_are_reset_and_the_end_is_remembered():
    class Ends(Sliders):
        def step(self, action):
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, bool(self.position[0] >= 1), truncated, info

    stepper = HostStepper(dusdi.from_gymnasium(Ends, SLIDERS), 1, episode_length=1000)
    stepper.reset(0)
    for _ in range(20):
        step = stepper.step(np.array([[1.0, 1.0, 0.0]]))  # moves left by 0.42
        if step.done[0]:
            break
    assert step.terminated[0] and step.next_observation[0, 0] == 1.0
    assert step.observation[0, 0] < 1.0


@pytest.mark.slow
def test_evaluation_needs_the_same_world(tmp_path):
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    skills = dusdi.pretrain(world, preset="debug", progress=False)
    with pytest.raises(UsageError, match="not one of dusdi's own worlds"):
        dusdi.evaluate(skills, steps=1000)
    with pytest.raises(UsageError, match="gunner"):
        dusdi.evaluate(skills, dusdi.make("gunner-2d"), steps=1000)


@pytest.mark.slow
def test_disentangled_skills_are_found_through_from_gymnasium_alone():
    """The learning test: three independent factors behind mixed actions, and a hard bar.

    Seeds 0 and 1 have .96 and .99.
    """
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    fields = dict(
        steps=32_000, num_envs=16, steps_per_update=16, random_steps=3_200, skill_length=20
    )
    skills = dusdi.pretrain(
        world,
        preset="fast",
        progress=False,
        component="categorical:3",
        episode_length=100,
        **fields,
    )
    result = dusdi.evaluate(skills, world, steps=20_000)
    assert result.disentanglement > 0.8, result.importance
    assert result.completeness > 0.8, result.importance
    assert result.informativeness > 0.75
