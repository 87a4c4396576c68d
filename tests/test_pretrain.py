"""A run from beginning to end: it resumes bit for bit, stops cleanly, and leaves others alone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import SLIDERS, Sliders, assert_same_result, log_rows, train
from probes import TINY, HostTrack, settings_for

import dusdi
from dusdi import checkpoint, provenance, training
from dusdi.envs.gunner import Gunner2D
from dusdi.errors import CheckpointError, NonFiniteError, UsageError
from dusdi.methods.dusdi import Dusdi
from dusdi.resolve import changed
from dusdi.resume import Previous, resumed_settings
from dusdi.run import Run, locked

shared_programs = pytest.mark.usefixtures("shared_programs")


class Killed(BaseException):
    """A process that ends at once, in the test's own process."""


def kill_after_save(monkeypatch, saves):
    """Ends the next run right after so many checkpoints are on the disk, before anything else."""
    left = [saves]
    usual = checkpoint.save

    def save(*arguments):
        usual(*arguments)
        left[0] -= 1
        if not left[0]:
            raise Killed

    monkeypatch.setattr(checkpoint, "save", save)


def kill_before_training(monkeypatch):
    """Ends the next run once its folder is made, before the first step."""

    def die(self):
        raise Killed

    monkeypatch.setattr(training.TrainingLoop, "run", die)


def run_and_die(monkeypatch, out, **fields):
    with pytest.raises(Killed):
        train(out, **fields)
    monkeypatch.undo()


# --- resuming ---


@pytest.mark.parametrize("saves", [1, 2])
@shared_programs
def test_a_killed_run_resumes_bit_for_bit(gunner_run, tmp_path, monkeypatch, saves):
    out = tmp_path / "run"
    kill_after_save(monkeypatch, saves)
    run_and_die(monkeypatch, out, steps=1_920)
    assert len(log_rows(out)) < len(log_rows(gunner_run))
    assert train(out, resume=True).step == 1_920
    assert_same_result(out, gunner_run)


def test_a_run_on_the_host_resumes_bit_for_bit(tmp_path, monkeypatch):
    """A world that can't be saved begins new episodes at every checkpoint, resumed or not."""
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    fields = {"steps": 1_280, "background_weight": 1.0}
    train(tmp_path / "whole", world, **fields)
    kill_after_save(monkeypatch, 1)
    with pytest.raises(Killed):
        train(tmp_path / "killed", world, **fields)
    monkeypatch.undo()
    train(tmp_path / "killed", world, resume=True)
    assert_same_result(tmp_path / "killed", tmp_path / "whole")


def test_a_run_without_a_folder_learns_the_same(tmp_path):
    fields = {**TINY, "checkpoint_every": 32, "preset": "debug", "progress": False}
    kept, gone = (dusdi.pretrain(HostTrack(), out=out, **fields) for out in (tmp_path, None))
    for name, array in kept.params.items():
        np.testing.assert_array_equal(array, gone.params[name])


@shared_programs
def test_the_pieces_of_the_loop_do_not_matter(gunner_run, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "PIECE_SECONDS", 0.0)
    train(tmp_path / "run", steps=1_920)
    assert_same_result(tmp_path / "run", gunner_run)


@shared_programs
def test_a_finished_run_stays_as_it_is_and_can_be_made_longer(gunner_run, tmp_path):
    out = tmp_path / "run"
    train(out, steps=1_280)
    before = {path.name: path.read_bytes() for path in out.rglob("step-*")}
    assert train(out, resume=True).step == 1_280
    assert {path.name: path.read_bytes() for path in out.rglob("step-*")} == before
    assert train(out, steps=1_920, resume=True).step == 1_920
    assert_same_result(out, gunner_run)
    with pytest.raises(UsageError, match="longer but not shorter"):
        train(out, steps=1_280, resume=True)


@shared_programs
def test_a_run_killed_before_its_first_checkpoint_keeps_what_was_asked(tmp_path, monkeypatch):
    kill_before_training(monkeypatch)
    run_and_die(monkeypatch, tmp_path, steps=640, seed=7)
    skills = dusdi.pretrain("gunner-2d", out=tmp_path, resume=True, progress=False, batch_size=16)
    assert (skills.seed, skills.step, skills.settings["preset"]) == (7, 640, "debug")
    assert skills.settings["sac"]["batch_size"] == 16


@shared_programs
def test_a_run_without_a_checkpoint_does_not_stand_in_the_way(tmp_path, monkeypatch):
    kill_before_training(monkeypatch)
    run_and_die(monkeypatch, tmp_path, env="multi-particle")
    assert train(tmp_path, steps=640).spec.name == "gunner-2d"
    assert json.loads((tmp_path / "config.json").read_text())["world"]["name"] == "gunner-2d"


@shared_programs
@pytest.mark.parametrize(
    ("name", "value"), [("id", 3), ("origins", ["you"]), ("origins", "you"), ("made_with", 5)]
)
def test_what_a_run_without_a_checkpoint_goes_on_with_is_checked(
    tmp_path, monkeypatch, name, value
):
    kill_before_training(monkeypatch)
    run_and_die(monkeypatch, tmp_path, steps=640)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), name: value}))
    message = rf"config\.json is damaged: '{name}' should be a \w+, not .*remove that file"
    with pytest.raises(CheckpointError, match=message):
        train(tmp_path, steps=640, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_policy_whose_checkpoints_were_removed_is_not_overwritten(gunner, resume):
    shutil.rmtree(gunner / "checkpoints")
    before = {path.name: path.read_bytes() for path in gunner.iterdir()}
    with pytest.raises(UsageError, match=r"holds a policy \(policy-seed0.*but no checkpoint"):
        train(gunner, resume=resume)
    assert {path.name: path.read_bytes() for path in gunner.iterdir()} == before


@shared_programs
def test_a_longer_run_killed_before_its_next_checkpoint_stays_longer(gunner, monkeypatch):
    kill_before_training(monkeypatch)
    run_and_die(monkeypatch, gunner, steps=2_240, resume=True)
    assert train(gunner, resume=True).step == 2_240


@shared_programs
def test_a_policy_that_is_older_than_its_checkpoint_is_written_again(gunner, monkeypatch):
    """The process may end between the checkpoint and the policies."""
    kill_after_save(monkeypatch, 1)
    run_and_die(monkeypatch, gunner, steps=2_560, resume=True)
    assert checkpoint.load_newest(gunner / "checkpoints").description["step"] == 2_560
    assert dusdi.load(gunner).step == 1_920
    train(gunner, resume=True)
    assert [dusdi.load(gunner, seed=i).step for i in (0, 1)] == [2_560, 2_560]


@shared_programs
def test_all_that_a_run_was_made_with_is_remembered(gunner, monkeypatch):
    first = json.loads((gunner / "config.json").read_text())["made_with"]
    assert first == [provenance.provenance()]
    monkeypatch.setattr(provenance, "_commit", lambda: "another")
    train(gunner, steps=2_240, resume=True)
    train(gunner, steps=2_560, resume=True)
    expected = [first[0], first[0] | {"commit": "another"}]
    assert json.loads((gunner / "config.json").read_text())["made_with"] == expected
    assert dusdi.load(gunner, seed=1).description["made_with"] == expected
    newest = checkpoint.load_newest(gunner / "checkpoints")
    assert newest.description["made_with"] == expected
    monkeypatch.setattr(provenance, "_commit", lambda: "a third")
    train(gunner, resume=True)  # the run is finished: this commit trains nothing
    assert dusdi.load(gunner).description["made_with"] == expected


@shared_programs
def test_seconds_add_up_over_resumed_runs(gunner):
    path = gunner / "config.json"
    before = json.loads(path.read_text())["seconds"]
    train(gunner, steps=2_240, resume=True)
    assert json.loads(path.read_text())["seconds"] > before > 0


def test_a_run_that_is_made_longer_says_that_the_user_wanted_it(spec):
    settings = settings_for(spec)
    description = {"settings": settings.to_json(), "origins": {"seed": "you", "alpha": "preset"}}
    longer = changed(settings, {"steps": settings.run.steps + 1})
    found, origins = resumed_settings(Previous(longer, description, None))
    assert found is longer
    assert origins == {"seed": "you", "alpha": "preset", "steps": "you"}


@shared_programs
def test_a_run_is_not_overwritten_or_resumed_as_another(gunner):
    with pytest.raises(UsageError, match="already holds a run"):
        train(gunner)
    with pytest.raises(UsageError, match="seed = 0, not 5"):
        train(gunner, seed=5, resume=True)
    with pytest.raises(UsageError, match="preset = debug, not paper"):
        train(gunner, preset="paper", resume=True)
    with pytest.raises(UsageError, match="method = dusdi, not diayn"):
        train(gunner, method="diayn", resume=True)
    with pytest.raises(UsageError, match=r"gunner-2d.*multi-particle"):
        train(gunner, "multi-particle", resume=True)


@shared_programs
def test_a_run_that_is_being_written_is_left_alone(gunner, tmp_path):
    with locked(gunner), pytest.raises(UsageError, match="another process is writing the run in"):
        train(gunner, steps=2_560, resume=True)
    with locked(tmp_path / "nothing" / "at all"):
        pass
    assert not (tmp_path / "nothing").exists()
    assert train(gunner, steps=2_240, resume=True).step == 2_240


def test_rows_survive_factor_names_with_commas(tmp_path):
    world = dusdi.from_gymnasium(Sliders, {"x, y": [0, 1], "z": [2]})
    for steps in (640, 960):
        train(tmp_path, world, seeds=1, steps=steps, resume=True)
    assert [row["step"] for row in log_rows(tmp_path)] == ["640", "960"]


@shared_programs
def test_a_damaged_checkpoint_falls_back_to_the_one_before(gunner, gunner_run):
    newest = checkpoint.newest_first(gunner / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"damaged.*using step-000000001280"):
        train(gunner, resume=True)
    assert_same_result(gunner, gunner_run)


# --- signals, in processes of their own ---


def start(*words):
    command = [sys.executable, "-m", "dusdi", *map(str, words), "--quiet"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for(process, files):
    """Waits until `files()` are there, while a process is running."""
    while not files():
        time.sleep(0.002)
        assert process.poll() is None, process.communicate()[1]


COMMAND = ["pretrain", "gunner-2d", "--preset", "debug", "--seeds", "2", "--steps", "1920"]


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_a_run_that_resumes_bit_for_bit(gunner_run, tmp_path):
    out = tmp_path / "run"
    process = start(*COMMAND, "--out", out)
    wait_for(process, lambda: list((out / "checkpoints").glob("step-*.safetensors")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    train(out, resume=True)
    assert_same_result(out, gunner_run)


@pytest.mark.slow
def test_a_process_that_is_asked_to_stop_saves_first(gunner_run, tmp_path):
    out = tmp_path / "run"
    process = start(*COMMAND, "--out", out)
    wait_for(process, (out / "progress.csv").exists)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate()[1]
    assert process.returncode == 130 and "stopped at step" in errors and "Traceback" not in errors
    assert 0 < dusdi.load(out).step < 1_920
    train(out, resume=True)
    assert_same_result(out, gunner_run)


@shared_programs
def test_ctrl_c_saves_first(gunner_run, tmp_path, monkeypatch):
    """The signal comes while the second log row is written."""
    usual = Run.log

    def log(self, step, *arguments):
        usual(self, step, *arguments)
        if step == 960:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "log", log)
    out = tmp_path / "run"
    with pytest.raises(training.Interrupted, match="stopped at step 960; saved in"):
        train(out, steps=1_920)
    monkeypatch.undo()
    assert [dusdi.load(out, seed=i).step for i in (0, 1)] == [960, 960]
    train(out, resume=True)
    assert_same_result(out, gunner_run)


# --- numbers that are not finite ---


def test_a_nan_loss_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    reward = Dusdi.reward

    def breaks_late(self, state, key, batch, step):
        return jnp.where(step >= 900, jnp.nan, reward(self, state, key, batch, step))

    monkeypatch.setattr(Dusdi, "reward", breaks_late)
    message = r"at step 960: metrics reward/agent position, .*checkpoint of step 640 in .* is kept"
    with pytest.raises(NonFiniteError, match=message):
        train(tmp_path, seeds=1, steps=1_280)
    assert dusdi.load(tmp_path).step == 640


def test_a_nan_in_a_jax_world_is_noticed(tmp_path, monkeypatch):
    observe = Gunner2D.observe

    def breaks(self, state):
        return observe(self, state).at[5].set(jnp.log(state.position[0] - 0.2))

    monkeypatch.setattr(Gunner2D, "observe", breaks)
    with pytest.raises(dusdi.DusdiError, match=r"not finite.*target state\[0\]"):
        train(tmp_path, seeds=1)


# --- what comes out ---


def test_seeds_train_together_and_differ(gunner_run):
    first = dusdi.load(gunner_run)
    second = dusdi.load(gunner_run, seed=1)
    assert (first.seed, second.seed) == (0, 1)
    observation = np.ones(7, np.float32)
    assert not np.allclose(first.act(observation, [0, 1, 2]), second.act(observation, [0, 1, 2]))
    assert [(row["step"], row["seed"]) for row in log_rows(gunner_run)] == [
        (str(step), seed) for step in range(640, 1_921, 320) for seed in "01"
    ]
    with pytest.raises(UsageError, match="seeds 0 to 1"):
        dusdi.load(gunner_run, seed=2)


def test_the_policy_file_is_all_that_acting_needs(gunner_run, tmp_path):
    whole = dusdi.load(gunner_run, seed=1)
    alone = dusdi.load(shutil.copy(gunner_run / "policy-seed1.safetensors", tmp_path / "mine"))
    observation = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    skills = alone.sample_skills(4)
    assert alone.seed == 1 and alone.skill_length == 50 and alone.step == 1_920
    np.testing.assert_array_equal(alone.act(observation, skills), whole.act(observation, skills))


@pytest.mark.parametrize("fields", [{"component": "box:2"}, {"method": "diayn"}])
def test_every_kind_of_skill_learns_saves_and_acts(tmp_path, fields):
    trained = train(tmp_path, seeds=1, steps=640, **fields)
    loaded = dusdi.load(tmp_path)
    observation = np.ones((4, 7), np.float32)
    skills = trained.sample_skills(4)
    actions = loaded.act(observation, skills)
    assert actions.shape == (4, 5) and (np.abs(actions) <= 1).all()
    np.testing.assert_array_equal(actions, trained.act(observation, skills))
    np.testing.assert_allclose(loaded.act(observation[0], skills[0]), actions[0], atol=1e-6)


def test_act_refuses_what_does_not_fit(gunner_run):
    skills = dusdi.load(gunner_run)
    with pytest.raises(UsageError, match="7 entries"):
        skills.act(np.zeros(5), [0, 0, 0])
    with pytest.raises(UsageError, match="3 components"):
        skills.act(np.zeros(7), [0, 0])
