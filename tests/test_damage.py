"""A run's files after damage, edits and mix-ups: each is refused with a reason, or passed over."""

import json
import shutil

import numpy as np
import pytest
from conftest import log_rows, newest_checkpoint, train
from safetensors.numpy import save, save_file

import dusdi
from dusdi import checkpoint
from dusdi.arrays import FORMAT
from dusdi.controller import load_controller, solves_task
from dusdi.errors import CheckpointError, NonFiniteError, UsageError
from dusdi.info import read_run
from dusdi.policy import read_description, read_policy, write_policy

pytestmark = pytest.mark.usefixtures("shared_programs")


def resume(run, steps=2_240):
    return train(run, steps=steps, resume=True)


def rewrite(path, description=None, arrays=None):
    """Writes a checkpoint anew with other contents, digest and all."""
    found = checkpoint.load(path)
    arrays = found.arrays if arrays is None else arrays
    text = json.dumps(found.description) if description is None else description
    text = text if isinstance(text, str) else json.dumps(text)
    digest = checkpoint.digest(arrays, text)
    save_file(arrays, path, metadata={"description": text, "digest": digest})


# --- config.json ---


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1, 2]", "{}", '{"settings": 3}', "[" * 100_000, "\x00\x01"]
)
def test_a_damaged_config_is_replaced_by_the_checkpoints_copy(gunner, text):
    (gunner / "config.json").write_text(text)
    with pytest.warns(UserWarning, match=r"using its copy in step-000000001920\.safetensors"):
        resume(gunner)
    written = json.loads((gunner / "config.json").read_text())
    assert (written["settings"]["run"]["steps"], written["step"]) == (2_240, 2_240)


def edited(group, name, value):
    def change(description):
        description["settings"][group][name] = value
        return description

    return change


def without(group, name):
    def change(description):
        del description["settings"][group][name]
        return description

    return change


def replaced(name, value):
    return lambda description: {**description, name: value}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edited("sac", "actor_lr", 1.0), r"says actor_lr = 1\.0, but .*1920.* made with 0\.003"),
        (edited("sac", "actor_lr", "fast"), "says actor_lr = fast"),
        (edited("run", "seed", 5), "says seed = 5"),
        (edited("run", "steps", "many"), r"config\.json says steps = many"),
        (edited("run", "steps", True), r"config\.json says steps = True"),
        (edited("run", "steps", 700), "says steps = 700, but the run was begun with 1920"),
        (without("sac", "discount"), "says discount = nothing"),
        (replaced("id", "another"), "belongs to another run .*'id'"),
        (replaced("kind", "flat"), "belongs to another run .*'kind'"),
        (replaced("world", {}), "belongs to another run .*'world'"),
    ],
)
def test_config_and_checkpoint_must_agree(gunner, change, message):
    before = newest_checkpoint(gunner).read_bytes()
    path = gunner / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(CheckpointError, match=message):
        resume(gunner)
    assert newest_checkpoint(gunner).read_bytes() == before


@pytest.mark.parametrize("config_too", [True, False], ids=["both", "checkpoint"])
def test_a_run_made_before_there_was_a_setting_goes_on_with_its_default(gunner, config_too):
    """config.json has the setting if the run was resumed since, and killed before a checkpoint."""
    path = newest_checkpoint(gunner)
    remove = without("networks", "log_std_min")
    rewrite(path, remove(checkpoint.load(path).description))
    config = gunner / "config.json"
    before = json.loads(config.read_text())
    if config_too:
        config.write_text(json.dumps(remove(json.loads(config.read_text()))))
    with pytest.warns(UserWarning, match=r"lacks the setting 'log_std_min'.* default, -10\.0"):
        resume(gunner)
    after = json.loads(config.read_text())
    assert after["settings"]["networks"] == before["settings"]["networks"]
    assert "log_std_min" not in after["origins"]  # nobody chose it


def test_a_folder_in_place_of_the_config_is_said(gunner):
    (gunner / "config.json").unlink()
    (gunner / "config.json").mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json can't be read: Is a directory"):
        resume(gunner)


# --- checkpoints ---


def test_a_checkpoint_of_another_run_is_refused(gunner, tmp_path):
    train(tmp_path / "other", steps=2_560, seed=5)
    shutil.copy(newest_checkpoint(tmp_path / "other"), gunner / "checkpoints")
    with pytest.raises(CheckpointError, match=r"says seed = 0, but .* made with 5"):
        resume(gunner)


def test_an_older_checkpoint_named_as_a_newer_one_is_passed_over(gunner):
    older = checkpoint.newest_first(gunner / "checkpoints")[1]
    for name in ("step-9999.safetensors", "step-99999.safetensors"):
        shutil.copy(older, gunner / "checkpoints" / name)
    with pytest.warns(UserWarning, match="was renamed: it is of step 1280"):
        assert resume(gunner).step == 2_240


def test_a_folder_in_place_of_a_checkpoint_is_passed_over_or_said(gunner):
    (gunner / "checkpoints" / "step-000000002240.safetensors").mkdir()
    with pytest.raises(dusdi.StorageError, match=r"step-000000002240\.safetensors: Is a directory"):
        resume(gunner)
    assert resume(gunner, 2_560).step == 2_560


def indices_edited(description):
    return json.dumps(description).replace('"indices": [0, 1]', '"indices": [0.5, 1]')


def world_edited(**fields):
    return lambda description: {**description, "world": {**description["world"], **fields}}


HUGE = 10**9


@pytest.mark.parametrize(
    "change",
    [
        lambda description: "nonsense",
        lambda description: "[" * 100_000,
        lambda description: "[]",
        lambda description: {"format": 1, "step": description["step"]},
        indices_edited,
        replaced("settings", None),
        replaced("settings", []),
        replaced("world", {"name": "x"}),
        replaced("step", "x"),
        replaced("step", 1280.5),
        replaced("seconds", None),
        replaced("format", 99),
        world_edited(observation_size=10**30),
        world_edited(observation_size=10**12),
        world_edited(options=[1]),
        edited("objective", "component", "categorical:1000"),
        edited("objective", "component", 5),
        edited("networks", "actor_hidden", [HUGE, HUGE]),
        edited("sac", "alpha", float("nan")),
        edited("run", "num_envs", HUGE),
        without("run", "steps"),
    ],
)
def test_a_forged_description_is_refused(gunner, change):
    for path in (gunner / "checkpoints").iterdir():
        rewrite(path, change(checkpoint.load(path).description))
    (gunner / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"step-0+1\d+\.safetensors"):
        train(gunner, resume=True)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda array: None, "is missing"),
        (lambda array: array[:1], r"is float32\[1, "),
        (lambda array: array.astype(np.float64), r"is float64\["),
    ],
)
def test_arrays_that_do_not_fit_are_named(gunner, change, found):
    path = newest_checkpoint(gunner)
    arrays = dict(checkpoint.load(path).arrays)
    name = "agent/actor/params/networks/output/kernel"
    new = change(arrays.pop(name))
    arrays |= {} if new is None else {name: np.ascontiguousarray(new)}
    rewrite(path, arrays=arrays)
    with pytest.raises(CheckpointError, match=f"1920.safetensors: .*does not fit: {name} {found}"):
        resume(gunner)


def test_a_step_that_is_not_that_of_the_arrays_is_noticed(gunner):
    path = newest_checkpoint(gunner)
    arrays = dict(checkpoint.load(path).arrays)
    arrays["iteration"] = np.array(arrays["iteration"] - 1, np.int32)
    rewrite(path, arrays=arrays)
    with pytest.raises(CheckpointError, match="is of step 1920, but its arrays are of another"):
        resume(gunner)


def test_a_checkpoint_one_may_not_read_is_not_called_damaged(gunner_run, monkeypatch):
    def refuse(self, *arguments):
        raise PermissionError(13, "Permission denied", str(self))

    path = newest_checkpoint(gunner_run)
    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(CheckpointError, match="can't be read: Permission denied"):
        checkpoint.load(path)


# --- policies ---


def forge(path, change=lambda description: description, **arrays):
    """Writes a policy file anew, with another description or other arrays."""
    description, policy = read_policy(path)
    description = change(description)
    text = description if isinstance(description, str) else json.dumps(description)
    policy = {**policy, **arrays}
    metadata = {"description": text, "digest": checkpoint.digest(policy, text)}
    path.write_bytes(save(policy, metadata=metadata))


def lacking(name):
    def change(description):
        del description[name]
        return description

    return change


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x10" + bytes(7) + b"{" * 16])
def test_a_damaged_policy_is_refused_and_written_again(gunner, content):
    path = gunner / "policy-seed0.safetensors"
    sound = path.read_bytes()
    description, policy = read_policy(path)
    for damaged in (content, sound[:100], sound[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"seed0\.safetensors is damaged .*--resume"):
            dusdi.load(gunner)
    assert dusdi.load(gunner, seed=1).seed == 1
    train(gunner, resume=True)
    assert read_policy(path)[0] == description
    for name, array in read_policy(path)[1].items():
        np.testing.assert_array_equal(array, policy[name])


def test_one_flipped_bit_of_a_policy_is_noticed(gunner):
    path = gunner / "policy-seed0.safetensors"
    sound = path.read_bytes()
    for place in range(8, len(sound), 997):
        altered = bytearray(sound)
        altered[place] ^= 1
        path.write_bytes(bytes(altered))
        with pytest.raises(CheckpointError, match="policy-seed0"):
            dusdi.load(gunner)


def test_a_policy_that_is_missing_is_named_and_written_again(gunner):
    (gunner / "policy-seed0.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"policy-seed0\.safetensors is missing; resume"):
        dusdi.load(gunner)  # and not the other seed
    assert dusdi.load(gunner, seed=1).seed == 1
    with pytest.raises(UsageError, match="this run has seeds 0 to 1; there is no seed 2"):
        dusdi.load(gunner, seed=2)
    (gunner / "policy-seed1.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no policy\.safetensors in it, but there are chec"):
        dusdi.load(gunner)
    train(gunner, resume=True)
    assert [dusdi.load(gunner, seed=i).seed for i in (0, 1)] == [0, 1]


def test_a_folder_that_is_missing_or_holds_no_run_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="holds no run: there is no policy"):
        dusdi.load(tmp_path)
    (tmp_path / "runs" / "gunner").mkdir(parents=True)
    message = rf"guner holds no run: it does not exist; did you mean {tmp_path}/runs/gunner\?"
    for read in (dusdi.load, read_run):
        with pytest.raises(CheckpointError, match=message):
            read(tmp_path / "runs" / "guner")
        for far in ("walker", "nowhere/gunner"):
            with pytest.raises(CheckpointError, match=r"it does not exist$"):
                read(tmp_path / "runs" / far)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda description: "", "damaged or not a policy file"),
        (lambda description: "[]", f"should say format {FORMAT}"),
        (lambda description: "[" * 100_000, "damaged or not a policy file"),
        (replaced("format", 99), f"should say format {FORMAT}"),
        (replaced("world", {"name": "x"}), "does not say what it is"),
        (replaced("skill_space", [{}]), "does not say what it is"),
        (replaced("skill_space", [{"name": "a", "space": "nonsense"}]), "does not say what it is"),
        (replaced("skill_space", [{"name": "a", "space": "categorical:0"}]), "does not say what"),
        (replaced("settings", {}), "does not say what it is"),
        (replaced("seed", None), "does not say what it is"),
        (replaced("step", "many"), "does not say what it is"),
        (edited("run", "skill_length", 0), "does not say what it is"),
        (edited("run", "skill_length", "x"), "does not say what it is"),
        (lacking("world"), "does not say what it is: KeyError: 'world'"),
        (lacking("skill_space"), "does not say what it is: KeyError: 'skill_space'"),
        (lacking("settings"), "does not say what it is: KeyError: 'settings'"),
        (lacking("kind"), "does not say what it is"),
        (replaced("kind", "nonsense"), "does not say what it is"),
    ],
)
def test_a_policy_with_a_forged_description_is_refused(gunner, change, message):
    path = gunner / "policy-seed0.safetensors"
    forge(path, change)
    for name in (gunner, path):
        with pytest.raises(CheckpointError, match=message) as info:
            dusdi.load(name)
        assert "policy-seed0.safetensors" in str(info.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"output_bias": np.full(5, np.nan, np.float32)}, "output_bias is not finite"),
        ({"output_bias": np.zeros(4, np.float32)}, "layers of the policy do not fit"),
        ({"state_kernel": np.zeros((3, 9, 16), np.float32)}, "layers of the policy do not fit"),
        ({"skill_columns": np.full((3, 5), 99, np.int32)}, "layers of the policy do not fit"),
    ],
)
def test_a_policy_with_forged_arrays_is_refused(gunner, arrays, message):
    forge(gunner / "policy-seed0.safetensors", **arrays)
    with pytest.raises(CheckpointError, match=message):
        dusdi.load(gunner)


@pytest.mark.parametrize("name", ["low", "state_kernel", "skill_columns", "output_bias"])
def test_a_policy_that_lacks_arrays_is_refused(gunner, name):
    path = gunner / "policy-seed0.safetensors"
    description, policy = read_policy(path)
    del policy[name]
    write_policy(path, policy, description)
    with pytest.raises(CheckpointError, match=f"policy-seed0.*do not fit.*KeyError: '{name}'"):
        dusdi.load(path)


def test_the_policy_of_a_task_is_refused_in_place_of_skills_and_the_other_way_round(
    gunner_run, task_run
):
    assert solves_task(task_run) and not solves_task(gunner_run)
    with pytest.raises(UsageError, match="name the run that learned the skills"):
        dusdi.load(task_run)
    with pytest.raises(UsageError, match="holds skills, not the solution of a task"):
        load_controller(gunner_run)


@pytest.mark.parametrize(
    "change", [lacking("skills"), replaced("skills", {}), lacking("world"), lacking("settings")]
)
def test_a_forged_solution_of_a_task_is_refused(task, change):
    forge(task / "policy.safetensors", change)
    with pytest.raises(CheckpointError, match=r"policy\.safetensors: .*does not say what it is"):
        load_controller(task)


@pytest.mark.parametrize("name", ["kernel_0", "bias_1", "skills/output_kernel"])
def test_a_solution_of_a_task_that_lacks_arrays_is_refused(task, name):
    path = task / "policy.safetensors"
    description, policy = read_policy(path)
    del policy[name]
    write_policy(path, policy, description)
    with pytest.raises(CheckpointError, match=r"policy\.safetensors: .*do not fit"):
        load_controller(task)


def test_the_description_of_a_policy_is_that_of_its_run(gunner_run):
    config = json.loads((gunner_run / "config.json").read_text())
    description = read_description(gunner_run / "policy-seed1.safetensors")
    assert description == {**config, "seed": 1, "format": FORMAT}
    assert description["step"] == int(log_rows(gunner_run)[-1]["step"]) == 1_920


def test_an_observation_that_is_not_finite_gives_no_action(gunner_run):
    skills = dusdi.load(gunner_run)
    with pytest.raises(NonFiniteError, match=r"'gunner-2d' .* or the observation is not"):
        skills.act(np.full(7, np.nan), [0, 0, 0])
