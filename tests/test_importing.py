"""Users' own worlds by id, module or file, and how their options are described."""

import dataclasses
import json
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
from conftest import SLIDERS, Sliders

import dusdi
from dusdi.envs import import_world
from dusdi.errors import DusdiError, UsageError, WorldError
from dusdi.types import WorldSpec

SOURCE = """
import gymnasium, dusdi
from dataclasses import dataclass
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from helper import FACTORS

@dataclass
class Settings:
    g: "float" = 10.0

def world(): return dusdi.from_gymnasium(PendulumEnv, FACTORS)
def make(): return PendulumEnv()
def env(g=10.0): return PendulumEnv(g=g)
def env_class(): return PendulumEnv
def maker(): return lambda: PendulumEnv()
def needs(x): return world()
def nothing(): return None
def wrong(): return dusdi.from_gymnasium(PendulumEnv, {"a": 9})
def number(): return 3
def misuses(): return dusdi.make("guner-2d")
class Unfinished(dusdi.JaxWorld): pass
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
    (folder / "bad_use.py").write_text("import dusdi\ndusdi.make('guner-2d')\n")
    (folder / "json.py").write_text(SOURCE)
    (folder / "walker.py").write_text(SOURCE)
    (folder / "folder").mkdir()
    (folder / "folder" / "tank.py").write_text(SOURCE)
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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("./own_source.py:make", "own_source"),
        ("own_source:make", "own_source"),
        ("./own_source.py:env", "own_source.env"),
        ("own_source:maker", "own_source.maker"),
        ("own_source:env_class", "PendulumEnv"),
        ("own_source:world", "PendulumEnv"),
        ("gym:Pendulum-v1", "Pendulum-v1"),
        ("./walker.py:make", "walker.make"),  # walker is a world of dusdi's own
        ("folder.tank:make", "folder.tank"),
    ],
)
def test_a_world_without_a_name_is_called_by_the_file(source, text, name):
    factors = {} if text.endswith(":world") else {"angle": "0:2"}
    assert import_world(text, factors).spec.name == name


def test_a_run_that_calls_a_world_by_the_function_keeps_that_name(source):
    import own_source

    like = dusdi.from_gymnasium(own_source.make, {"angle": "0:2"}).spec
    assert like.name == "make"
    for factors in (None, {"angle": "0:2"}):
        assert import_world("./own_source.py:make", factors, like=like).spec == like
    other = dataclasses.replace(like, name="other")
    assert import_world("./own_source.py:make", like=other).spec.name == "own_source"


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
        (["pretrain", "gym:Pendulum-v1", "--factor", "angle"], "NAME=ENTRIES"),
        (["pretrain", "gym:Pendulum-v1", "--factor", "a=9"], "names observation entry 9"),
        (["pretrain", "own_source:env", "--factor", "a=0", "--factor", "b=0"], "again in 'b'"),
        (["pretrain", "own_source:PendulumEnv", "--env-option", "no=1"], "unexpected keyword"),
        (["pretrain", "gym:Pendulum-v1", "--factor", "a=0", "--factor", "a=1"], "given twice"),
        (["pretrain", "gym:Pendulum-v1", "--factor", "a=0", "--env-option", "no=1"], "'no'"),
        (["pretrain", "gunner-2d", "--factor", "a=0"], "has its factors"),
        (["pretrain", "own_source:world", "--factor", "a=0"], "which has its factors"),
        (["pretrain", "own_source:env_class", "--env-option", "a=0"], "unexpected keyword"),
        (["pretrain", "own_source:env", "--factor", "a=0", "--env-option", "name=0"], "'name'"),
    ],
)
def test_mistakes_on_the_command_line(source, capsys, arguments, message):
    from dusdi.cli import main

    debug = ["--preset", "debug", "--steps", "640", "--quiet"]
    assert main([*arguments, *debug]) == 2
    assert message in capsys.readouterr().err
    assert not (source / "runs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own_source:breaks", "raised KeyError: 'a bug'"),
        ("own_source:misuses", "did you mean gunner-2d?"),
        ("own_source:wrong", "names observation entry 9"),
        ("own_source:nothing", "gave NoneType"),
        ("own_source:Unfinished", "Can't instantiate abstract class"),
        ("bad_line:world", "failed: ZeroDivisionError"),
        ("bad_use:world", "did you mean gunner-2d?"),
    ],
)
def test_mistakes_in_the_users_code_have_an_exit_code_of_their_own(source, capsys, text, message):
    from dusdi.cli import main

    assert main(["pretrain", text, "--quiet"]) == 1
    assert message in capsys.readouterr().err
    assert not (source / "runs").exists()


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
        ({"b": np.int64(1), "a": reward}, {"a": "test_importing.reward", "b": 1}),
        ({"z", "y"}, ["y", "z"]),
        (reward, "test_importing.reward"),
        (Sliders, "conftest.Sliders"),
        (partial(reward, 2), ["test_importing.reward", [2], {}]),
        (Gadget(), "<test_importing.Gadget object>"),
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
