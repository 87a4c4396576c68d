"""Encoders of users' own worlds: by what words they are found, and what runs say of them."""

import json
import sys
from functools import partial

import jax
import numpy as np
import pytest
from gymnasium import spaces
from lamps import Described, Lamps, levels

import dusdi
from dusdi.cli import main
from dusdi.encoder import Encoder, Finder
from dusdi.errors import DusdiError, UsageError
from dusdi.raster import Discs
from dusdi.types import difference

FACTORS = {"red": [0], "blue": [1]}
DEBUG = ["--preset", "debug", "--steps", "640", "--quiet"]


@pytest.fixture
def eyes(tmp_path, monkeypatch):
    """The working folder, with a module of a user in it."""
    source = "from lamps import Lamps, levels\nSIZE = 3\n"
    source += "def brighter(pictures): return levels(pictures) + 0.1\n"
    (tmp_path / "eyes.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "eyes", raising=False)
    yield tmp_path
    sys.modules.pop("eyes", None)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (3, "encoder is a function, package.module:function, .*, not 3"),
        ("nowhere", "there is no encoder 'nowhere'; name a function, package.module:function"),
        ("./nowhere", "there is no encoder './nowhere'"),
        (":levels", "there is no encoder ':levels'"),
        ("eyes.py", "there is no encoder 'eyes.py'; name a function"),
        ("no_such_module:levels", "can't import no_such_module"),
        ("./nowhere.py:levels", "there is no file ./nowhere.py"),
        ("eyes:levls", "unknown function of eyes: 'levls'; did you mean levels?"),
        ("eyes:SIZE", "eyes:SIZE is int, not a function that encodes"),
        (".", "there is no encoder at ."),
        ("eyes.txt", "eyes.txt is damaged or not an encoder of dusdi's"),
    ],
)
def test_what_names_no_encoder_is_explained(eyes, encoder, message):
    (eyes / "eyes.txt").write_text("nothing")
    with pytest.raises(DusdiError, match=message):
        dusdi.from_gymnasium(Lamps, FACTORS, encoder=encoder)


def test_an_encoder_has_one_name_however_it_is_given(eyes):
    texts = ["eyes:brighter", "./eyes.py:brighter", f"{eyes}/eyes.py:brighter"]
    specs = [dusdi.from_gymnasium(Lamps, FACTORS, encoder=text).spec for text in texts]
    import eyes as module

    specs.append(dusdi.from_gymnasium(Lamps, FACTORS, encoder=module.brighter).spec)
    assert all(spec == specs[0] for spec in specs)
    assert specs[0].options == {"encoder": "eyes.brighter"}
    other = dusdi.from_gymnasium(Lamps, FACTORS, encoder=levels).spec
    told = 'option encoder = "eyes.brighter", not "lamps.levels"'
    assert difference(specs[0], other) == told


def scaled(pictures, scale):
    return scale * levels(pictures)


def test_the_arguments_of_an_encoder_are_part_of_its_name():
    spec = dusdi.from_gymnasium(Lamps, FACTORS, encoder=partial(scaled, scale=2.0)).spec
    assert spec.options == {"encoder": ["test_named_encoders.scaled", [], {"scale": 2.0}]}
    assert json.loads(json.dumps(spec.to_json()))["options"] == spec.options


@pytest.mark.slow
def test_pictures_on_the_command_line(eyes, capsys):
    lamps = ["./eyes.py:Lamps", "--encoder", "./eyes.py:levels"]
    factors = ["--factor", "red=0", "--factor", "blue=1"]
    assert main(["pretrain", *lamps, *factors, *DEBUG, "--out", "run"]) == 0
    assert (
        "evaluate run --env ./eyes.py:Lamps --encoder ./eyes.py:levels" in capsys.readouterr().out
    )
    described = json.loads((eyes / "run" / "config.json").read_text())["world"]
    assert (described["name"], described["options"]) == ("Lamps", {"encoder": "eyes.levels"})
    assert main(["pretrain", *lamps, *DEBUG, "--out", "run", "--resume"]) == 0
    assert main(["evaluate", "run", "--steps", "1000", "--env", *lamps]) == 0
    downstream = ["--preset", "debug", "--steps", "2000", "--rollout-length", "4", "--quiet"]
    assert main(["downstream", "run", *lamps, "--out", "task", *downstream]) == 0
    assert main(["evaluate", "task", "--episodes", "1", "--env", *lamps]) == 0
    capsys.readouterr()
    other = [*lamps[:-1], "./eyes.py:brighter"]
    assert main(["pretrain", *other, *DEBUG, "--out", "run", "--resume"]) == 2
    told = 'a run in another world: option encoder = "eyes.levels", not "eyes.brighter"'
    assert told in capsys.readouterr().err
    assert main(["evaluate", "run", "--env", "./eyes.py:Lamps"]) == 1
    assert "encoder=function (--encoder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "pretrain ./eyes.py:Lamps --factor a=0 --encoder nothing",
            "there is no encoder 'nothing'",
        ),
        (
            "pretrain ./eyes.py:Lamps --factor a=2 --encoder eyes:levels",
            "names observation entry 2",
        ),
        ("pretrain ./eyes.py:Lamps --encoder eyes:levels", "name at least one factor"),
        ("pretrain gunner-2d --encoder eyes:levels", "--encoder is for worlds of your own"),
        ("pretrain eyes:world --encoder eyes:levels", "gives a world, which has its factors"),
        ("downstream scratch walker/run --encoder eyes:levels", "world that is named here"),
    ],
)
def test_mistakes_on_the_command_line(eyes, capsys, words, message):
    source = "import dusdi\ndef world(): return dusdi.make('gunner-2d')\n"
    (eyes / "eyes.py").write_text((eyes / "eyes.py").read_text() + source)
    assert main([*words.split(), *DEBUG]) == 2
    assert message in capsys.readouterr().err
    assert not (eyes / "runs").exists()


# --- dusdi's own encoders ---


class Small(Lamps):
    observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def observe(self):
        return np.random.default_rng(int(self.levels[0])).integers(0, 256, (8, 8, 3), np.uint8)


def untrained(pixels=8):
    """An encoder of three things that learned nothing."""
    colours = np.eye(3, dtype=np.float32)
    discs = Discs(("a", "b", "c"), np.full(3, 2.0), colours, np.ones(3), pixels, pixels / 2)
    network = {"features": 2, "hidden": 2}
    pictures = np.zeros((1, pixels, pixels, 3), np.uint8)
    params = Finder(discs, **network).init(jax.random.PRNGKey(0), pictures)
    return Encoder(params, {"world": "x", "discs": discs.to_json(), "network": network})


def test_the_places_that_an_encoder_of_dusdis_sees_are_entries(tmp_path):
    encoder = untrained()
    encoder.save(tmp_path / "encoder.safetensors")
    factors = {"a": "0:2", "c": "4:6"}
    worlds = [
        dusdi.from_gymnasium(Small, factors, encoder=given)
        for given in (encoder, tmp_path, str(tmp_path / "encoder.safetensors"))
    ]
    assert all(world.spec == worlds[0].spec for world in worlds)
    assert worlds[0].spec.options == {"encoder": encoder.digest}
    found = worlds[1].vector(2).reset(seed=0)
    raw = np.stack([Small().reset(seed=index)[0] for index in range(2)])
    np.testing.assert_allclose(found, np.asarray(encoder.places(raw)).reshape(2, 6), atol=1e-5)


@pytest.mark.parametrize("env", [Lamps, Described])
def test_an_encoder_of_other_pictures_is_refused(env):
    with pytest.raises(UsageError, match=r"is for observations Box\(0, 255, \(8, 8, 3\), uint8\)"):
        dusdi.from_gymnasium(env, {"a": "0:2"}, encoder=untrained())


@pytest.mark.slow
def test_a_run_carries_an_encoder_of_dusdis(tmp_path, monkeypatch):
    world = dusdi.from_gymnasium(Small, {"a": "0:2", "b": "2:4"}, encoder=untrained())
    run = tmp_path / "run"
    dusdi.pretrain(world, preset="debug", steps=640, out=run, progress=False)
    again = dusdi.from_gymnasium(Small, {"a": "0:2", "b": "2:4"}, encoder=run)
    assert again.spec == world.spec
    monkeypatch.setattr("dusdi.files._BY_DIGEST", {})  # as in a new process
    digest = dusdi.load(run).spec.options["encoder"]
    again = dusdi.from_gymnasium(Small, {"a": "0:2", "b": "2:4"}, encoder=digest)
    assert again.spec == world.spec
