"""Policy files that lie in the folder of another run, or in the place of another seed."""

import shutil

import pytest
from conftest import train

import dusdi
from dusdi.controller import load_controller, solves_task
from dusdi.errors import CheckpointError, UsageError
from dusdi.policy import read_policy

pytestmark = pytest.mark.usefixtures("shared_programs")


def test_the_policy_of_another_run_is_not_taken_for_this_ones(gunner, tmp_path):
    train(tmp_path / "other", seed=5)
    lone = shutil.copy(tmp_path / "other" / "policy-seed5.safetensors", tmp_path / "lone")
    assert dusdi.load(lone).seed == 5  # where no run is beside it
    path = gunner / "policy-seed0.safetensors"
    shutil.copy(lone, path)
    for read in (dusdi.load, load_controller, solves_task):
        with pytest.raises(CheckpointError, match=r"seed0.* is the policy of another run .*move"):
            read(gunner)
    with pytest.raises(CheckpointError, match="another run"):
        dusdi.load(path)
    with pytest.raises(UsageError, match=r"seed0.* would be overwritten; move it"):
        train(gunner, resume=True)
    assert dusdi.load(gunner, seed=1).seed == 1
    path.unlink()
    train(gunner, resume=True)
    assert dusdi.load(gunner).seed == 0


def test_the_policy_of_another_seed_is_noticed_and_written_again(gunner):
    path = gunner / "policy-seed0.safetensors"
    sound = read_policy(path)
    shutil.copy(gunner / "policy-seed1.safetensors", path)
    with pytest.raises(CheckpointError, match=r"should hold seed 0 .* holds seed 1; resume"):
        dusdi.load(gunner)
    train(gunner, resume=True)
    written = read_policy(path)
    assert written[0] == sound[0]
    assert all((written[1][name] == array).all() for name, array in sound[1].items())


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "[" * 100_000])
def test_a_policy_is_loaded_beside_a_config_that_says_nothing(gunner, text):
    (gunner / "config.json").unlink()
    if text is not None:
        (gunner / "config.json").write_text(text)
    assert dusdi.load(gunner).seed == 0
