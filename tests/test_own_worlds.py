"""Users' own worlds: by id, by function and by key, drawn, and with all that can be wrong."""

import dataclasses
import json
import re
import sys
from functools import partial

import gymnasium
import jax
import numpy as np
import pytest
from conftest import SLIDERS, Sliders
from gymnasium import spaces

import dusdi
from dusdi.cli import main
from dusdi.envs import import_world
from dusdi.errors import DusdiError, NonFiniteError, UsageError, WorldError
from dusdi.hierarchy import Hierarchy
from dusdi.rollout import HostStepper
from dusdi.types import Factor, WorldSpec, difference

DEBUG = ["--preset", "debug", "--steps", "640", "--quiet"]


@pytest.fixture(scope="module")
def skills():
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    return dusdi.pretrain(world, preset="debug", steps=640, progress=False)


# --- by id and by function ---


def test_a_gymnasium_id_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world = ["gym:Pendulum-v1", "--env-option", "g=9.0"]
    factors = ["--factor", "angle=0:2", "--factor", "speed=2"]
    assert main(["pretrain", *world, *factors, *DEBUG]) == 0
    folder = "runs/gym.Pendulum-v1-dusdi-seed0"
    assert f"evaluate {folder} --env gym:Pendulum-v1 --env-option g=9.0" in capsys.readouterr().out
    described = json.loads((tmp_path / folder / "config.json").read_text())["world"]
    assert (described["name"], described["options"]) == ("Pendulum-v1", {"g": 9.0})
    assert [factor["indices"] for factor in described["factors"]] == [[0, 1], [2]]
    other = ["gym:Pendulum-v1", "--env-option", "g=1"]
    assert main(["pretrain", *other, *factors, *DEBUG, "--resume"]) == 2
    assert main(["pretrain", *world, *factors, *DEBUG, "--resume"]) == 0
    assert main(["evaluate", folder, "--steps", "1000"]) == 2  # a run's file can't say what to make
    env = ["--env", *world]
    assert main(["evaluate", folder, "--steps", "1000", *env]) == 0
    assert main(["render", folder, "--out", "x.gif", "--skill", "0,1", *env]) == 0
    downstream = ["--preset", "debug", "--steps", "2000", "--rollout-length", "4", "--quiet"]
    assert main(["downstream", folder, *world, "--out", "task", *downstream]) == 0
    assert main(["evaluate", "task", "--episodes", "2", *env]) == 0


SOURCE = """
import gymnasium, dusdi
from dataclasses import dataclass
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from helper import FACTORS

@dataclass
class Settings:
    g: "float" = 10.0

def world(): return dusdi.from_gymnasium(PendulumEnv, FACTORS)
def env(g=10.0): return PendulumEnv(g=g)
def env_class(): return PendulumEnv
def maker(): return lambda: PendulumEnv()
def needs(x): return world()
def nothing(): return None
def wrong(): return dusdi.from_gymnasium(PendulumEnv, {"a": 9})
def number(): return 3
def breaks(): raise KeyError("a bug")
ready = world()
text = "world"
"""


@pytest.fixture(scope="module")
def source_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    (folder / "helper.py").write_text("FACTORS = {'angle': [0, 1], 'speed': [2]}")
    (folder / "own_source.py").write_text(SOURCE)
    (folder / "bad_syntax.py").write_text("def world(:\n")
    (folder / "bad_import.py").write_text("import no_such_dependency\n")
    (folder / "bad_line.py").write_text("1 / 0\n")
    (folder / "json.py").write_text(SOURCE)
    return folder


@pytest.fixture
def source(source_folder, monkeypatch):
    """The working folder, with modules of a user in it."""
    monkeypatch.chdir(source_folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return source_folder


@pytest.mark.parametrize("place", ["own_source", "./own_source.py", "{}/own_source.py"])
@pytest.mark.parametrize("name", ["world", "ready"])
def test_a_world_by_module_or_file(source, place, name):
    spec = import_world(f"{place.format(source)}:{name}").spec
    assert spec.name == "PendulumEnv" and [f.name for f in spec.factors] == ["angle", "speed"]


@pytest.mark.parametrize("name", ["env", "env_class", "maker", "PendulumEnv"])
def test_an_environment_by_module_and_factors(source, name):
    world = import_world(f"own_source:{name}", {"angle": "0:2"})
    assert [f.indices for f in world.spec.factors] == [(0, 1), (2,)]
    assert world.vector(1).reset(0).shape == (1, 3)
    like = import_world(f"own_source:{name}", like=world.spec)
    assert like.spec == world.spec


def test_the_factors_of_a_run_do_not_fit_another_world(source):
    like = dusdi.from_gymnasium(Sliders, SLIDERS).spec
    problem = "not the world of that run, 'Sliders', but one with .*3 observations, not 4"
    with pytest.raises(UsageError, match=problem):
        import_world("gym:Pendulum-v1", like=like)


def test_options_reach_the_function_that_makes_an_environment(source):
    world = import_world("own_source:env", {"angle": "0:2"}, options={"g": 3.0})
    assert world.spec.options == {"g": 3.0}
    assert world.vector(1)._envs[0].g == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".rel:x", "neither package.module nor path/to/file.py"),
        ("..:x", "neither package.module nor path/to/file.py"),
        (":x", "neither package.module nor path/to/file.py"),
        ("gym:.rel:X-v0", "neither package.module nor path/to/file.py"),
        ("gym:bad_line:X-v0", "failed: ZeroDivisionError"),
        ("own_source:wrong", "^factor 'a' names observation entry 9"),
        ("./nowhere.py:x", "no file ./nowhere.py"),
        ("no_such_module:x", "can't import"),
        ("own_source:wrold", "did you mean world"),
        ("own_source:needs", "missing a required argument: 'x'"),
        ("own_source:nothing", "gave NoneType"),
        ("own_source:number", "gave int"),
        ("own_source:text", "is str"),
        ("own_source:breaks", "raised KeyError: 'a bug'"),
        ("own_source:env", "name at least one factor"),
        ("bad_syntax:world", "importing bad_syntax failed: SyntaxError"),
        ("./bad_syntax.py:world", "failed: SyntaxError"),
        ("bad_import:world", "No module named 'no_such_dependency'"),
        ("bad_line:world", "failed: ZeroDivisionError"),
        ("./json.py:world", "another module called 'json'; rename"),
        ("gym:HalfCheeta-v5", "did you mean HalfCheetah-v5"),
        ("gym:HalfCheetah-v99", "did you mean HalfCheetah"),
        ("gym:Qwertzuiop-v0", "if another package has it, write package:Qwertzuiop-v0"),
        ("gym:no_such_module:X-v0", "No module named"),
        ("gym:Pendulum-v1", "name at least one factor.*0:3"),
    ],
)
def test_what_names_no_world_is_explained(source, text, message):
    with pytest.raises(DusdiError, match=message):
        import_world(text)


@pytest.mark.parametrize("text", ["own_source:breaks", "bad_syntax:world", "bad_line:world"])
def test_the_exception_of_the_users_code_is_kept(source, text):
    with pytest.raises(WorldError) as info:
        import_world(text)
    assert isinstance(info.value.__cause__, KeyError | SyntaxError | ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "HalfCheetah-v5"], "gym:HalfCheetah-v5 --factor NAME=ENTRIES"),
        (["pretrain", "gym:Pendulum-v1"], "name at least one factor"),
        (["pretrain", "gym:Pendulum-v1", "--factor", "angle"], "NAME=VALUE"),
        (["pretrain", "gym:Pendulum-v1", "--factor", "a=0", "--factor", "a=1"], "given twice"),
        (["pretrain", "gym:Pendulum-v1", "--factor", "a=0", "--env-option", "no=1"], "'no'"),
        (["pretrain", "gunner-2d", "--factor", "a=0"], "has its factors"),
        (["pretrain", "own_source:world", "--factor", "a=0"], "which has its factors"),
        (["pretrain", "own_source:env_class", "--env-option", "a=0"], "unexpected keyword"),
        (["pretrain", "own_source:env", "--factor", "a=0", "--env-option", "name=0"], "'name'"),
    ],
)
def test_mistakes_on_the_command_line(source, capsys, arguments, message):
    assert main([*arguments, *DEBUG]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (source / "runs").exists()


@pytest.mark.parametrize("env", [gymnasium.make("Pendulum-v1"), Sliders, None, 3])
def test_training_says_how_to_make_a_world(env):
    with pytest.raises(UsageError, match="from_gymnasium"):
        dusdi.pretrain(env)


def test_more_environments_are_made_like_an_instance_that_gymnasium_made():
    options = {"g": 3.0, "max_episode_steps": 70, "render_mode": "rgb_array"}
    plain = gymnasium.make("Pendulum-v1", **options)
    made = gymnasium.wrappers.RescaleAction(plain, -1.0, 1.0)
    world = dusdi.from_gymnasium(made, {"angle": [0, 1]})
    assert (world.spec.name, world.spec.episode_length) == ("Pendulum-v1", 70)
    bounds = {"min_action": -1.0, "max_action": 1.0}
    assert world.spec.options == {"g": 3.0, "wrappers": [["RescaleAction", bounds]]}
    envs = world.vector(2)._envs
    assert [env.unwrapped.g for env in envs] == [3.0, 3.0]
    assert envs[0].unwrapped is not made.unwrapped and envs[0].render_mode is None
    assert world.vector_with_pictures(1)._envs[0].render_mode == "rgb_array"


# --- options ---


def reward(x):
    return x


class Gadget:
    """Has a repr with a memory address."""

    def __call__(self):
        return None


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (3, 3),
        ("x", "x"),
        (None, None),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        ((1, (2, 3)), [1, [2, 3]]),
        ({"b": np.int64(1), "a": reward}, {"a": "test_own_worlds.reward", "b": 1}),
        ({"z", "y"}, ["y", "z"]),
        (reward, "test_own_worlds.reward"),
        (Sliders, "conftest.Sliders"),
        (partial(reward, 2), ["test_own_worlds.reward", [2], {}]),
        (Gadget(), "<test_own_worlds.Gadget object>"),
    ],
)
def test_options_are_described_in_json(value, described):
    class Takes(Sliders):
        def __init__(self, option, render_mode=None):
            self.option, self.render_mode = option, render_mode

    world = dusdi.from_gymnasium(Takes, SLIDERS, option=value, render_mode="rgb_array")
    assert world.spec.options == {"option": described}  # the render mode is no part of it
    assert WorldSpec.from_json(json.loads(json.dumps(world.spec.to_json()))) == world.spec
    assert world.vector(1)._envs[0].option is value


def test_partial_functions_have_the_functions_name_and_their_keywords_as_options():
    make = partial(gymnasium.make, "Pendulum-v1", g=2.0)
    spec = dusdi.from_gymnasium(make, {"angle": [0, 1]}, max_episode_steps=50).spec
    assert spec.name == "make"
    assert spec.options == {"argument 0": "Pendulum-v1", "g": 2.0, "max_episode_steps": 50}
    assert list(spec.options) == sorted(spec.options)


# --- dict observations ---


class Reach(gymnasium.Env):
    """A hand, and a block that stays where it is."""

    observation_space = spaces.Dict(
        {
            "hand": spaces.Box(-1, 1, (4,)),
            "block": spaces.Box(-1, 1, (2,), np.float64),
            "lamp": spaces.Discrete(3),
            "inside": spaces.Dict({"x": spaces.Box(-1, 1, (2, 2))}),
        }
    )
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        draw = self.np_random.uniform
        return {
            "inside": {"x": draw(-1, 1, (2, 2)).astype(np.float32)},
            "lamp": self.np_random.integers(3),
            "block": draw(-1, 1, 2),
            "hand": draw(-1, 1, 4).astype(np.float32),
        }


def test_dict_observations_are_flattened_as_gymnasium_does():
    vector = dusdi.from_gymnasium(Reach, {"hand": "hand"}).vector(2)
    wrapped = gymnasium.wrappers.FlattenObservation(Reach())
    np.testing.assert_array_equal(vector.reset(seed=5)[1], np.float32(wrapped.reset(seed=6)[0]))
    stepped = vector.step(np.zeros((2, 1)))[0]
    np.testing.assert_array_equal(stepped[1], np.float32(wrapped.step(np.zeros(1))[0]))


def test_factors_by_key():
    factors = {"hand": "hand[0:3]", "block": "block", "both": ["lamp", "inside[3,0]"]}
    spec = dusdi.from_gymnasium(Reach, factors, "hand[3],both").spec
    found = {factor.name: (factor.indices, factor.controlled) for factor in spec.factors}
    assert spec.observation_size == 13  # block 2, hand 4, inside 4, lamp 3, in that order
    assert found == {
        "hand": ((2, 3, 4), True),
        "block": ((0, 1), True),
        "both": ((10, 11, 12, 9, 6), False),
        "proprioception": ((5,), False),
        "unnamed entries": ((7, 8), False),
    }


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("hnad", "not an index.*keys block, hand, inside, lamp"),
        ("hand[9]", "names observation entry 9, but those are 0 to 3"),
        ("hand[x]", "'x', which is not an index"),
        ("", "not an index"),
    ],
)
def test_wrong_keys_are_explained(entries, message):
    with pytest.raises(WorldError, match=message):
        dusdi.from_gymnasium(Reach, {"a": entries})


# --- pictures ---


class Drawn(Sliders):
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        if self.render_mode is None:
            raise AttributeError("Unexpected mode: None")  # as MuJoCo's environments do
        return np.zeros((6, 8, 3), np.uint8)


@pytest.mark.parametrize("env", [Drawn, lambda **options: Drawn(**options)])
def test_the_render_mode_is_chosen_where_pictures_are_wanted(env, skills):
    world = dusdi.from_gymnasium(env, SLIDERS)
    assert world.vector(1)._envs[0].render_mode is None
    vector = world.vector_with_pictures(1)
    vector.reset(0)
    assert vector.render().shape == (6, 8, 3)
    task = dusdi.SkillEnv(world, skills, render_mode="rgb_array")
    task.reset(seed=0)
    assert task.render().shape == (6, 8, 3)
    task.close()


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


# --- environments from hell ---


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


def test_the_checkpoint_before_a_failure_is_kept(tmp_path):
    class Late(Sliders):
        steps = 0

        def step(self, action):
            Late.steps += 1
            if Late.steps > 1000:
                raise RuntimeError("a bug")
            return super().step(action)

    world = dusdi.from_gymnasium(Late, SLIDERS)
    with pytest.raises(WorldError, match=r"step 63 of environment 8 raised RuntimeError"):
        dusdi.pretrain(world, preset="debug", out=tmp_path / "run", progress=False)
    assert dusdi.load(tmp_path / "run").step == 640


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
        (with_spaces(action=spaces.Discrete(7), observation=Reach.observation_space), "Discrete"),
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
    stepper.restart(0)
    stepper.step(np.zeros((2, 3)))
    told = r"too large an observation \(1.0.*e\+20\) in copy 1.*left\[0\]"
    with pytest.raises(WorldError, match=told):
        stepper.step(np.zeros((2, 3)))


def test_a_policy_is_blamed_for_its_own_nans(skills, monkeypatch):
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    stepper = HostStepper(world, 2, 100)
    stepper.restart(0)
    told = "policy gave a non-finite action"
    with pytest.raises(NonFiniteError, match=f"{told} .* copy 1 .* entry 2"):
        stepper.step(np.array([[0, 0, 0], [0, 0, np.nan]]))
    broken = jax.tree.map(lambda x: np.full_like(x, np.nan), skills.params.actor)
    monkeypatch.setattr(skills, "params", skills.params.replace(actor=broken))
    hierarchy = Hierarchy(world, skills, 2)
    hierarchy.restart(0)
    with pytest.raises(
        NonFiniteError, match="the policy for 'Sliders' gives actions that are not finite"
    ):
        hierarchy.step(np.zeros((2, 3), int))


def test_a_world_is_blamed_for_nans_at_a_reset_in_the_middle_of_a_skill(skills):
    class Ends(Sliders):
        resets = 0

        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            self.steps, self.resets = 0, self.resets + 1
            return (observation if self.resets < 2 else observation * np.nan), info

        def step(self, action):
            self.steps += 1
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, self.steps == 3, truncated, info

    class Two:
        made = 0

        def __call__(self):
            self.made += 1
            return Ends() if self.made == 2 else Sliders()

    hierarchy = Hierarchy(dusdi.from_gymnasium(Two(), SLIDERS), skills, 2)
    hierarchy.restart(0)
    with pytest.raises(WorldError, match="non-finite observation"):
        hierarchy.step(np.zeros((2, 3), int))


# --- what differs ---

FACTORS = (Factor("ball", (0, 1)), Factor("box", (2,)), Factor("arm", (3,), controlled=False))
SPEC = WorldSpec("toy", {"g": 10, "size": [1, 2]}, 4, 2, FACTORS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"name": "other"}, "the name 'toy', not 'other'"),
        ({"options": {"g": 1, "size": [1, 2]}}, "option g = 10, not 1"),
        ({"options": {"g": 10}}, "option size = [1, 2], not unset"),
        ({"observation_size": 5}, "4 observations, not 5"),
        ({"action_size": 3}, "2 actions, not 3"),
        ({"episode_length": 9}, "episodes of 1000 steps, not 9"),
        ({"channels": ("reward",)}, "reward channels none, not 'reward'"),
        ({"factors": FACTORS[1:]}, "a factor 'ball'"),
        ({"factors": (*FACTORS[:2], Factor("leg", (3,)))}, "a factor 'arm'; no factor 'leg'"),
        ({"factors": (Factor("ball", (0,)), *FACTORS[1:])}, "factor 'ball' of entries 0, 1, not 0"),
        (
            {"factors": (*FACTORS[:2], Factor("arm", (3,)))},
            "factor 'arm' without a skill component",
        ),
        ({"factors": FACTORS[::-1]}, "factors in the order 'ball', 'box', 'arm'"),
        (
            {"name": "b", "options": {"size": [1, 2]}, "action_size": 1, "episode_length": 9},
            "the name 'toy', not 'b'; option g = 10, not unset; 2 actions, not 1; and 1 more",
        ),
    ],
)
def test_what_differs_is_said_in_words(changes, words):
    assert difference(SPEC, dataclasses.replace(SPEC, **changes)) == words


def test_skills_of_a_world_with_other_factors_are_refused_with_the_reason(skills):
    task = dusdi.from_gymnasium(Sliders, {"left": [0], "middle": [2], "right": [1]})
    with pytest.raises(UsageError, match="in one with factor 'middle' of entries 2, not 1"):
        dusdi.downstream(skills, task, preset="debug", progress=False)


def test_ppo_learns_often_on_own_worlds():
    settings = dusdi.from_gymnasium(Sliders, SLIDERS).task_presets["fast"]["ppo"]
    assert settings["steps"] == 256_000
    assert settings["num_envs"] * settings["rollout_length"] == 128
