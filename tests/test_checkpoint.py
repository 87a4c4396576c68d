"""Checkpoints: what is saved is read again, bit for bit, or refused."""

import json
import struct

import jax.numpy as jnp
import numpy as np
import pytest

from dusdi import checkpoint
from dusdi.errors import CheckpointError
from dusdi.normalise import Normaliser

TREE = {
    "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
    "key": np.array([1, 2], np.uint32),
    "flag": np.array([True, False]),
    "moments": Normaliser(jnp.float32(3), jnp.ones(2), jnp.zeros(2)),
    "pair": (np.int32(7), np.float32(-0.0)),
}


def test_round_trip_is_exact(tmp_path):
    path = checkpoint.save(tmp_path, 12, TREE, {"hello": [1, "two"]})
    found = checkpoint.load(path)
    assert (found.description["hello"], found.description["step"]) == ([1, "two"], 12)
    back = checkpoint.unflatten(TREE, found.arrays)
    for name, array in checkpoint.flatten(TREE).items():
        assert checkpoint.flatten(back)[name].tobytes() == array.tobytes()
        assert checkpoint.flatten(back)[name].dtype == array.dtype
    np.testing.assert_array_equal(
        checkpoint.read(found, {"moments": TREE["moments"]})["moments"].mean, [1, 1]
    )


def test_only_the_newest_two_are_kept_and_no_partial_files(tmp_path):
    for step in (5, 20, 100):
        checkpoint.save(tmp_path, step, TREE, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000000000020.safetensors",
        "step-000000000100.safetensors",
    ]
    assert checkpoint.load_newest(tmp_path).description["step"] == 100


@pytest.mark.parametrize("cut", [0, 4, 60, -1])
def test_truncated_files_are_refused_and_the_previous_is_used(tmp_path, cut):
    checkpoint.save(tmp_path, 1, TREE, {})
    newest = checkpoint.save(tmp_path, 2, TREE, {})
    newest.write_bytes(newest.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(newest)
    with pytest.warns(UserWarning, match=r"damaged.*using step-000000000001"):
        assert checkpoint.load_newest(tmp_path).description["step"] == 1


def test_one_flipped_bit_anywhere_is_noticed(tmp_path):
    path = checkpoint.save(tmp_path, 1, TREE, {"config": {"seed": 3}})
    sound = path.read_bytes()
    for place in range(8, len(sound), 7):
        altered = bytearray(sound)
        altered[place] ^= 1
        path.write_bytes(bytes(altered))
        with pytest.raises(CheckpointError):
            checkpoint.load(path)


def test_if_all_are_damaged_it_says_so(tmp_path):
    checkpoint.save(tmp_path, 1, TREE, {}).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="damaged or not a checkpoint"):
        checkpoint.load_newest(tmp_path)
    assert checkpoint.load_newest(tmp_path / "empty") is None


def test_other_shapes_are_refused_by_name(tmp_path):
    found = checkpoint.load(checkpoint.save(tmp_path, 1, TREE, {}))
    with pytest.raises(
        CheckpointError, match=r"weights is float32\[3, 4\], expected float32\[2, 2\]"
    ):
        checkpoint.unflatten({"weights": np.zeros((2, 2), np.float32)}, found.arrays)
    with pytest.raises(CheckpointError, match="other is missing"):
        checkpoint.unflatten({"other": np.zeros(1)}, found.arrays)


def test_the_file_is_plain_safetensors_without_code(tmp_path):
    """Eight bytes of length, a JSON header, raw numbers: nothing that loading could execute."""
    data = checkpoint.save(tmp_path, 1, TREE, {}).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    sizes = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(sizes) == len(data) - 8 - length
