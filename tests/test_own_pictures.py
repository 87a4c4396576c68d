"""Pictures of a user's own environments, and the encoders that say what is in them."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from lamps import Described, Lamps, levels

import dusdi
from dusdi.errors import WorldError, explain

FACTORS = {"red": [0], "blue": [1]}


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
