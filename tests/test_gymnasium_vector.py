"""Gymnasium environments as worlds: dict observations, images, and all that can be wrong."""

import re

import numpy as np
import pytest
from conftest import SLIDERS, Sliders
from gymnasium import spaces

import dusdi
from dusdi.errors import NonFiniteError, UsageError, WorldError
from dusdi.stepping import HostStepper

# --- images ---


class Drawn(Sliders):
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        if self.render_mode is None:
            raise AttributeError("Unexpected mode: None")  # as MuJoCo's environments do
        return np.zeros((6, 8, 3), np.uint8)


@pytest.mark.parametrize("env", [Drawn, lambda **options: Drawn(**options)])
def test_the_render_mode_is_chosen_where_pictures_are_wanted(env):
    world = dusdi.from_gymnasium(env, SLIDERS)
    assert world.vector(1)._envs[0].render_mode is None
    vector = world.vector_with_pictures(1)
    vector.reset(0)
    assert vector.render().shape == (6, 8, 3)


def test_what_takes_no_render_mode_gets_none():
    vector = dusdi.from_gymnasium(lambda: Drawn(), SLIDERS).vector_with_pictures(1)
    with pytest.raises(
        WorldError, match="render of environment 0 after 0 steps raised AttributeError"
    ):
        vector.render()


@pytest.mark.parametrize("picture", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), [1], "x"])
def test_what_is_no_picture_is_refused(picture):
    class Odd(Drawn):
        def render(self):
            return picture

    vector = dusdi.from_gymnasium(Odd, SLIDERS).vector_with_pictures(1)
    with pytest.raises(WorldError, match=re.escape("uint8 [height, width, 3]")):
        vector.render()


def test_mujoco_draws_without_a_display():
    world = dusdi.from_gymnasium("InvertedPendulum-v5", {"cart": [0]})
    vector = world.vector_with_pictures(1)
    vector.reset(0)
    assert vector.render().std() > 1
    vector.close()


def test_where_nothing_can_draw_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    vector = dusdi.from_gymnasium("InvertedPendulum-v5", {"cart": [0]}).vector_with_pictures(1)
    vector.reset(0)
    with pytest.raises(UsageError, match="install EGL or OSMesa"):
        vector.render()


def test_mujoco_says_things_once(capfd):
    import mujoco

    world = dusdi.from_gymnasium("HalfCheetah-v5", {"speed": [8]})
    capfd.readouterr()  # some versions warn of its model
    world.vector(3).close()
    assert "WARNING" not in capfd.readouterr().err
    assert mujoco.get_mju_user_warning() is None


# --- environments that break the contract ---


class Hell(Sliders):
    """Goes wrong in environment 1, in one way or another."""

    count = 0

    def __init__(self):
        type(self).count += 1
        self.bad = type(self).count == 3  # after the one whose spaces are checked
        self.steps = 0

    def step(self, action):
        self.steps += 1
        values = [*super().step(action)]
        return self.spoil(values) if self.bad and self.steps == 2 else tuple(values)

    def spoil(self, values):
        raise RuntimeError("a bug")


def spoiled(index, value):
    """An environment that gives another value for one of the five, once."""

    class Spoiled(Hell):
        def spoil(self, values):
            values[index] = value(values[index]) if callable(value) else value
            return tuple(values)

    return Spoiled


def run_into(env):
    """Where a world goes wrong as it is used."""
    env.count = 0
    vector = dusdi.from_gymnasium(env, SLIDERS, name="hell").vector(3)
    vector.reset(seed=0)
    for _ in range(2):
        vector.step(np.zeros((3, 3)))
    vector.reset(mask=np.array([False, True, False]))


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (0, lambda o: o[:3], r"an array of shape \[3\] of float64, not an array of shape \[4\]"),
        (0, lambda o: o[None], r"shape \[1, 4\]"),
        (0, lambda o: o.astype(str), r"shape \[4\] of <U"),
        (0, lambda o: o + 1j, "complex"),
        (0, None, "that is None, not an array"),
        (0, {"left": 1}, "that is a dict of left, not an array"),
        (0, "abcd", "that is str 'abcd', not an array"),
        (0, [[1], [2, 3], 4, 5], "that is a list of 4, not an array"),
        (1, "1.5", "must give a number as reward, not str '1.5'"),
        (1, None, "must give a number as reward, not None"),
        (1, np.zeros(1), r"must give a number as reward, not an array of shape \[1\]"),
        (2, "no", "must give True or False for 'terminated', not str 'no'"),
        (2, None, "must give True or False for 'terminated', not None"),
        (3, 1, "must give True or False for 'truncated', not int '1'"),
        (3, np.zeros(2, bool), "must give True or False for 'truncated'"),
    ],
)
def test_a_step_that_breaks_the_contract_is_named(index, value, message):
    with pytest.raises(WorldError, match=rf"world 'hell': step 2 of environment 1 .*{message}"):
        run_into(spoiled(index, value))


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, list),
        (0, lambda o: o.astype(np.float32)),
        (0, lambda o: np.round(o).astype(int)),
        (1, np.float32(2)),
        (1, np.array(2)),
        (1, True),
        (1, float("nan")),
        (2, np.True_),
        (2, np.array(True)),
        (4, None),
    ],
)
def test_harmless_steps_are_accepted(index, value):
    run_into(spoiled(index, value))


class FourValues(Hell):
    def spoil(self, values):
        return (*values[:3], {})


class NoValue(Hell):
    def spoil(self, values):
        return None


class RaisesInStep(Hell):
    pass


class RaisesInInit(Hell):
    def __init__(self):
        super().__init__()
        if self.bad:
            raise RuntimeError("a bug")


class RaisesInReset(Hell):
    def spoil(self, values):
        return tuple(values)

    def reset(self, *, seed=None, options=None):
        if self.bad and self.steps:
            raise RuntimeError("a bug")
        return super().reset(seed=seed)


class NoInfo(Hell):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class NoSeed(Hell):
    def reset(self):
        return super().reset(seed=0)


class WrongReset(Hell):
    def reset(self, *, seed=None, options=None):
        return np.zeros(3), {}


class OtherObservations(Hell):
    def __init__(self):
        super().__init__()
        if self.bad:
            self.observation_space = spaces.Box(-1, 1, (5,), np.float64)


class OtherActions(Hell):
    def __init__(self):
        super().__init__()
        if self.bad:
            self.action_space = spaces.Box(-1, 1, (3,), np.float64)


class Vanishes(Hell):
    def __new__(cls):
        return super().__new__(cls) if cls.count != 2 else None


class Integers(Hell):
    observation_space = spaces.Box(-5, 5, (4,), np.int64)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            FourValues,
            "step 2 of environment 1 must return 5 values .* not a tuple of 4, as in old Gym",
        ),
        (NoValue, "step 2 of environment 1 must return 5 values .* not None"),
        (RaisesInStep, "step 2 of environment 1 raised RuntimeError: a bug"),
        (RaisesInInit, "making environment 1 raised RuntimeError: a bug"),
        (RaisesInReset, "reset of environment 1 after 2 steps raised RuntimeError: a bug"),
        (
            NoInfo,
            r"reset of environment 0 after 0 steps must return \(observation, info\), not an array",
        ),
        (NoSeed, "reset of environment 0 after 0 steps takes no seed, as in old Gym"),
        (WrongReset, r"reset of environment 0 .* shape \[3\] of float64, not .* shape \[4\]"),
        (OtherObservations, "must be alike, but environment 1 has the observation space"),
        (OtherActions, "must be alike, but environment 1 has the action space"),
        (Vanishes, "making environment 1 must give a gymnasium.Env, not None"),
        (Integers, "shape .4. of float64, not an array of shape .4. of int64"),
    ],
)
def test_environments_that_fail_are_named(env, message):
    with pytest.raises(WorldError, match=f"world 'hell': .*{message}") as info:
        run_into(env)
    if "raised" in message:
        assert isinstance(info.value.__cause__, RuntimeError)


def test_a_failing_close_only_warns():
    class Stuck(Sliders):
        closed = 0

        def close(self):
            Stuck.closed += 1
            raise OSError("can't close")

    with pytest.warns(UserWarning, match="close of environment 0 raised OSError: can't close"):
        vector = dusdi.from_gymnasium(Stuck, SLIDERS).vector(3)
    with pytest.warns(UserWarning, match="close of environment 0 raised.*and so did 2 more"):
        vector.close()
    assert Stuck.closed == 4


SEQUENCE = spaces.Sequence(spaces.Discrete(2))


def with_spaces(observation=Sliders.observation_space, action=Sliders.action_space):
    return type("Spaces", (Sliders,), {"observation_space": observation, "action_space": action})


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (None, "not None"),
        (3, "not 3"),
        (lambda: None, "must give a gymnasium.Env, not None"),
        (lambda x: Sliders(), "missing a required argument: 'x'"),
        (with_spaces(action=spaces.Box(-1, 1, (0,))), "has no entries"),
        (
            with_spaces(
                action=spaces.Discrete(7), observation=spaces.Dict({"x": spaces.Box(-1, 1, (2,))})
            ),
            "Discrete",
        ),
        (with_spaces(action=None), "not None"),
        (with_spaces(observation=spaces.Box(-1, 1, (0,))), "observation space has no entries"),
        (with_spaces(observation=None), "not None"),
        (with_spaces(observation=spaces.Dict({"a": SEQUENCE})), "FlattenObservation"),
    ],
)
def test_what_can_be_no_world_is_refused(env, message):
    with pytest.raises(WorldError, match=message):
        dusdi.from_gymnasium(env, SLIDERS)


def test_unknown_options_are_refused():
    with pytest.raises(WorldError, match="unexpected keyword argument 'size'"):
        dusdi.from_gymnasium(Sliders, SLIDERS, size=3)


# --- numbers ---


def test_one_huge_observation_is_refused():
    huge = spoiled(0, lambda o: o + 1e20)
    stepper = HostStepper(dusdi.from_gymnasium(huge, SLIDERS), 2, 100)
    stepper.reset(0)
    stepper.step(np.zeros((2, 3)))
    problem = r"too large an observation \(1.0.*e\+20\) in environment 1.*left\[0\]"
    with pytest.raises(WorldError, match=problem):
        stepper.step(np.zeros((2, 3)))


def test_a_policy_is_blamed_for_its_own_nans():
    stepper = HostStepper(dusdi.from_gymnasium(Sliders, SLIDERS), 2, 100)
    stepper.reset(0)
    problem = r"policy gave a non-finite action .* environment 1 .* entry 2"
    with pytest.raises(NonFiniteError, match=problem):
        stepper.step(np.array([[0, 0, 0], [0, 0, np.nan]]))
