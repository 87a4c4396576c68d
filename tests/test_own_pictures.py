"""Pictures of a user's own environments, and the encoders that say what is in them."""

import json
import sys
from functools import partial

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import dusdi
from dusdi.cli import main
from dusdi.encoder import Encoder, HeatMaps
from dusdi.errors import DusdiError, UsageError, WorldError, explain
from dusdi.types import difference

FACTORS = {"red": [0], "blue": [1]}
DEBUG = ["--preset", "debug", "--steps", "640", "--quiet"]


class Lamps(gymnasium.Env):
    """A red and a blue lamp, which actions make lighter and darker."""

    observation_space = spaces.Box(0, 255, (4, 6, 3), np.uint8)
    action_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.levels = self.np_random.integers(0, 256, 2)
        return self.observe(), {}

    def step(self, action):
        self.levels = np.clip(self.levels + np.round(50 * action), 0, 255)
        return self.observe(), float(self.levels[0]), False, False, {}

    def observe(self):
        picture = np.zeros((4, 6, 3), np.uint8)
        picture[..., [0, 2]] = self.levels
        return picture


def levels(pictures):
    """How light the lamps are, [n, 2]."""
    return pictures[:, 0, 0, [0, 2]] / 255


class Spy:
    """An encoder that remembers how many observations it was given, and what they were like."""

    def __init__(self, encode=levels):
        self.encode, self.counts, self.batch = encode, [], None

    def __call__(self, batch):
        self.batch = batch
        self.counts.append(len(next(iter(batch.values())) if isinstance(batch, dict) else batch))
        return self.encode(batch)


# --- what the encoder gives takes the observation's place ---


def test_factors_are_parts_of_what_the_encoder_gives():
    world = dusdi.from_gymnasium(Lamps, {"red": "0"}, encoder=levels)
    assert (world.spec.observation_size, world.spec.channels) == (2, ("reward",))
    assert [(f.name, f.indices, f.controlled) for f in world.spec.factors] == [
        ("red", (0,), True),
        ("unnamed entries", (1,), False),
    ]
    vector = world.vector(3)
    start = vector.reset(seed=4)
    raw = [Lamps().reset(seed=4 + index)[0] for index in range(3)]
    np.testing.assert_array_equal(start, levels(np.stack(raw)).astype(np.float32))
    moved, *_ = vector.step(np.array([[1, 0], [0, -1], [0, 0]]))
    changes = np.array([[50, 0], [0, -50], [0, 0]])
    expected = np.clip(np.round(255 * start) + changes, 0, 255)
    np.testing.assert_allclose(moved, expected / 255, atol=1e-6)
    np.testing.assert_array_equal(vector.rewards()[:, 0], expected[:, 0])
    np.testing.assert_array_equal(vector.state().observation, moved)
    assert moved.dtype == np.float32


def test_all_pictures_of_a_step_are_encoded_at_once_and_of_resets_those_that_are_new():
    encoder = Spy()
    vector = dusdi.from_gymnasium(Lamps, FACTORS, encoder=encoder).vector(4)
    assert encoder.counts == [1, 2]  # when its size was measured
    vector.reset(seed=0)
    before, *_ = vector.step(np.zeros((4, 2)))
    after = vector.reset(mask=np.array([False, True, False, True]))
    vector.reset(mask=np.zeros(4, bool))
    assert encoder.counts == [1, 2, 4, 4, 2]
    assert encoder.batch.dtype == np.uint8 and encoder.batch.shape == (2, 4, 6, 3)
    assert (before == after).all(1).tolist() == [True, False, True, False]


class Described(Lamps):
    """The picture is one of several parts of an observation."""

    parts = {
        "camera": {"picture": Lamps.observation_space},
        "lamp": spaces.Discrete(3),
        "speed": spaces.Box(-1, 1, (2,)),
    }
    observation_space = spaces.Dict({**parts, "camera": spaces.Dict(parts["camera"])})

    def observe(self):
        return {"speed": np.array([0.5, 0.2]), "lamp": 2, "camera": {"picture": super().observe()}}


def test_parts_of_an_observation_are_encoded_together():
    encoder = Spy(lambda batch: np.c_[levels(batch["camera"]["picture"]), batch["speed"]])
    vector = dusdi.from_gymnasium(Described, {"all": "0:4"}, encoder=encoder).vector(3)
    found = vector.reset(seed=0)
    np.testing.assert_allclose(found[:, 2:], [[0.5, 0.2]] * 3)
    batch = encoder.batch
    assert batch["camera"]["picture"].shape == (3, 4, 6, 3) and batch["lamp"].tolist() == [2] * 3
    assert batch["speed"].dtype == np.float32  # as its space says


@pytest.mark.parametrize(
    "encode",
    [
        lambda pictures: pictures[:, 0, 0, ::2],
        lambda pictures: pictures[:, 0, 0, ::2].astype(np.float64),
        lambda pictures: pictures[:, 0, 0, ::2].astype(int).tolist(),
        jax.jit(lambda pictures: pictures[:, 0, 0, ::2]),
    ],
)
def test_numbers_of_all_kinds_are_taken(encode):
    vector = dusdi.from_gymnasium(Lamps, FACTORS, encoder=encode).vector(2)
    found = vector.reset(seed=0)
    assert found.dtype == np.float32 and found.shape == (2, 2) and (found == found.round()).all()


def test_an_environment_that_shows_its_pictures_is_made_again_with_them():
    plain = gymnasium.make("dusdi/Gunner2D-v0", render_mode="rgb_array")
    shown = gymnasium.wrappers.AddRenderObservation(plain)
    encode = Spy(lambda pictures: pictures.mean((1, 2)))
    world = dusdi.from_gymnasium(shown, {"colour": "0:3"}, encoder=encode)
    assert world.vector(2).reset(seed=0).shape == (2, 3)
    assert encode.batch.shape == (2, *shown.observation_space.shape)
    world.vector_with_pictures(1).close()


# --- what is refused, before any compute is spent ---


class Tuples(Lamps):
    observation_space = spaces.Tuple((Lamps.observation_space,))


class Numbered(Lamps):
    observation_space = spaces.Discrete(3)


class Drawn(Lamps):
    observation_space = spaces.Dict({"net": spaces.Graph(spaces.Box(-1, 1, (2,)), None)})


@pytest.mark.parametrize(
    ("env", "encoder", "message"),
    [
        (Lamps, None, "must be a flat Box.*name what makes numbers of it: encoder=function"),
        (Described, None, "has a picture.*encoder=function"),
        (Tuples, levels, "must be a Box or a Dict of numbers, not Tuple"),
        (Numbered, levels, "must be a Box or a Dict of numbers, not Discrete"),
        (Drawn, levels, "must be a Box or a Dict of numbers, not Dict"),
    ],
)
def test_observations_that_nothing_can_be_made_of_are_refused(env, encoder, message):
    with pytest.raises(WorldError, match=message):
        dusdi.from_gymnasium(env, FACTORS, encoder=encoder)


def fails(pictures):
    raise KeyError("a bug")


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (fails, r"'Lamps': the encoder test_own_pictures.fails at first raised KeyError: 'a bug'"),
        (lambda p: np.zeros(len(p)), r"shape \[1, D\], a row for each observation, not \[1\]"),
        (lambda p: np.zeros((len(p), 2, 1)), r"not \[1, 2, 1\]"),
        (lambda p: np.zeros((3, 2)), r"shape \[1, D\].*not \[3, 2\]"),
        (lambda p: np.zeros((1, 2)), r"shape \[2, 2\].*not \[1, 2\]"),
        (lambda p: np.zeros((len(p), len(p))), "as many numbers as for the first.*1, not 2"),
        (lambda p: np.zeros((len(p), 0)), "gave no numbers"),
        (lambda p: None, "must give real numbers, not None"),
        (lambda p: "ab", "must give real numbers, not str 'ab'"),
        (lambda p: {"a": p}, "must give real numbers, not a dict of a"),
        (lambda p: [[1], [2, 3]], "must give real numbers, not a list of 2"),
        (lambda p: np.zeros((len(p), 2), complex), r"\[1, 2\] of complex128"),
        (lambda p: np.zeros((len(p), 2), object), r"\[1, 2\] of object"),
        (lambda p: np.array([["a", "b"]]), "real numbers, not an array of .* of <U1"),
        (lambda p: levels(p) * [1, np.nan], r"not finite \(nan\) .* 0 of 1; entries concerned: 1"),
        (lambda p: 1 / (0 * p[:, 0, 0, 1:] + 0.0), "entries concerned: 0, 1"),
        (lambda p: levels(p) + 1e300, r"not finite \(inf\)"),
        (lambda: None, "raised TypeError"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_encoders_that_break_their_promise_are_refused(encode, message):
    with pytest.raises(WorldError, match=message):
        dusdi.from_gymnasium(Lamps, FACTORS, encoder=encode)


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


def test_factors_outside_of_what_the_encoder_gives_are_refused():
    with pytest.raises(WorldError, match="'a' names observation entry 2, but those are 0 to 1"):
        dusdi.from_gymnasium(Lamps, {"a": "2"}, encoder=levels)


# --- what goes wrong later ---


@pytest.mark.parametrize(
    ("late", "message"),
    [
        (fails, "after 1 steps raised KeyError: 'a bug'"),
        (lambda p: np.zeros((len(p), 3)), "after 1 steps must give as many numbers .* 2, not 3"),
        (lambda p: levels(p)[:1], r"after 1 steps must give an array of shape \[4, 2\]"),
        (lambda p: levels(p) / [[1], [0], [1], [1]], "observation 1 of 4; entries concerned: 0, 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_an_encoder_that_fails_later_is_blamed(late, message):
    encoder = Spy()
    vector = dusdi.from_gymnasium(Lamps, FACTORS, encoder=encoder).vector(4)
    vector.reset(seed=0)
    encoder.encode = late
    with pytest.raises(WorldError, match=rf"the encoder test_own_pictures.Spy .*{message}") as info:
        vector.step(np.ones((4, 2)))
    if late is fails:
        assert "in fails" in explain(info.value)  # the user's part of the traceback


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda picture: picture[:2], r"gave an observation that is .*\[2, 6, 3\] of uint8, not"),
        (lambda picture: picture / 255, r"an array of shape \[4, 6, 3\] of float64, not"),
        (lambda picture: picture.astype(int), "not of the types of Box.*int64"),
        (lambda picture: None, "that is None, not"),
    ],
)
def test_an_environment_that_gives_other_pictures_is_blamed(change, message):
    class Changing(Lamps):
        def step(self, action):
            picture, *rest = super().step(action)
            return change(picture), *rest

    vector = dusdi.from_gymnasium(Changing, FACTORS, encoder=levels).vector(2)
    vector.reset(seed=0)
    with pytest.raises(WorldError, match=f"step 1 of environment 0 .*{message}"):
        vector.step(np.zeros((2, 2)))


# --- what runs say of it ---


@pytest.fixture
def eyes(tmp_path, monkeypatch):
    """The working folder, with a module of a user in it."""
    source = "from test_own_pictures import Lamps, levels\nSIZE = 3\n"
    source += "def brighter(pictures): return levels(pictures) + 0.1\n"
    (tmp_path / "eyes.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "eyes", raising=False)
    yield tmp_path
    sys.modules.pop("eyes", None)


def test_an_encoder_has_one_name_however_it_is_given(eyes):
    texts = ["eyes:brighter", "./eyes.py:brighter", f"{eyes}/eyes.py:brighter"]
    specs = [dusdi.from_gymnasium(Lamps, FACTORS, encoder=text).spec for text in texts]
    import eyes as module

    specs.append(dusdi.from_gymnasium(Lamps, FACTORS, encoder=module.brighter).spec)
    assert all(spec == specs[0] for spec in specs)
    assert specs[0].options == {"encoder": "eyes.brighter"}
    other = dusdi.from_gymnasium(Lamps, FACTORS, encoder=levels).spec
    told = 'option encoder = "eyes.brighter", not "test_own_pictures.levels"'
    assert difference(specs[0], other) == told


def scaled(pictures, scale):
    return scale * levels(pictures)


def test_the_arguments_of_an_encoder_are_part_of_its_name():
    spec = dusdi.from_gymnasium(Lamps, FACTORS, encoder=partial(scaled, scale=2.0)).spec
    assert spec.options == {"encoder": ["test_own_pictures.scaled", [], {"scale": 2.0}]}
    assert json.loads(json.dumps(spec.to_json()))["options"] == spec.options


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
    network = HeatMaps(3, (2, 2))
    params = network.init(jax.random.PRNGKey(0), np.zeros((1, pixels, pixels, 3), np.uint8))
    about = {"world": "x", "things": ["a", "b", "c"], "pixels": pixels, "features": [2, 2]}
    return Encoder(params, {**about, "lines": np.linspace(-1, 1, pixels // 2).tolist()})


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
