"""What goes wrong around a run: full disks, damaged or swapped files, links, wrong words. One sentence each, and nothing lost."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
from conftest import SLIDERS, Sliders
from safetensors.numpy import load_file, save_file

import dusdi
from dusdi import checkpoint, files
from dusdi.cli import main
from dusdi.errors import CheckpointError, NonFiniteError, StorageError, UsageError, explain


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run with two checkpoints, to be copied."""
    folder = tmp_path_factory.mktemp("attacks") / "run"
    dusdi.pretrain("gunner-2d", preset="debug", steps=1280, out=folder, progress=False)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def newest(run):
    return sorted((run / "checkpoints").glob("step-*"))[-1]


def command(capsys, *words):
    """A command's exit code and what it said of what went wrong, which is never a traceback of ours."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as error:
        code = error.code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "should not have happened" not in said
    return code, said


def resume(capsys, run, *more):
    return command(capsys, "pretrain", "gunner-2d", "--out", run, "--resume", "--quiet", *more)


def forge(path, change):
    """Writes a checkpoint anew with another description, digest and all."""
    found = checkpoint.load(path)
    text = change(dict(found.description))
    text = text if isinstance(text, str) else json.dumps(text)
    save_file(
        found.arrays,
        path,
        metadata={"description": text, "digest": checkpoint._digest(found.arrays, text)},
    )


# --- the file system ---


@pytest.mark.parametrize(
    "words", [("pretrain", "gunner-2d", "--preset", "debug", "--quiet"), ("render", "RUN")]
)
@pytest.mark.parametrize("place", ["a file", "under a file", "too long", "nobody's"])
def test_a_place_that_can_not_be_written_is_named(run, tmp_path, capsys, words, place):
    (tmp_path / "file").write_text("precious")
    places = {
        "a file": tmp_path / "file",
        "under a file": tmp_path / "file" / "x",
        "too long": tmp_path / ("x" * 300),
    }
    out = places.get(place, "/proc/nothing/here")
    if words[0] == "render":
        out = f"{out}/skills.gif"
    code, said = command(capsys, *(run if word == "RUN" else word for word in words), "--out", out)
    assert (
        code in (1, 2)
        and re.match("dusdi: can't (read or )?write ", said)
        and said.count("\n") == 1
    )
    assert (tmp_path / "file").read_text() == "precious"


FULL = """
import errno, os, sys
from dusdi import checkpoint
from dusdi.cli import main
real, left = checkpoint.save_file, [1]
def full(arrays, path, metadata):
    if not left:
        real(dict(list(arrays.items())[:3]), path, metadata)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    left.pop()
    return real(arrays, path, metadata)
checkpoint.save_file = full
sys.exit(main(["pretrain", "gunner-2d", "--preset", "debug", "--steps", "1280", "--quiet", "--out", sys.argv[1]]))
"""


def test_a_full_disk_keeps_the_checkpoint_before_and_resumes_to_the_same_numbers(
    trained, tmp_path, capsys
):
    result = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert (
        "No space left on device; the checkpoint of step 640" in result.stderr
        and "--resume" in result.stderr
    )
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == [
        "step-000000000640.safetensors"
    ]
    assert resume(capsys, tmp_path / "run")[0] == 0
    ours, theirs = load_file(newest(tmp_path / "run")), load_file(newest(trained))
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs)


@pytest.mark.parametrize("moment", ["log", "save"])
def test_a_folder_that_is_removed_while_running_is_said(tmp_path, monkeypatch, moment):
    usual = getattr(dusdi.run.Run, moment)

    def remove_first(self, *arguments):
        shutil.rmtree(self.folder)
        usual(self, *arguments)

    monkeypatch.setattr(f"dusdi.run.Run.{moment}", remove_first)
    with pytest.raises(StorageError, match="was gone: removed or moved"):
        dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "run", progress=False)


def test_leftovers_of_a_killed_save_are_cleared_and_files_are_for_everybody(run, capsys):
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (".tmpAbCdEf", f".step-000000000640.{gone.pid}.partial.safetensors"):
        (run / "checkpoints" / name).write_bytes(b"x" * 1000)
    (run / f".config.{gone.pid}.partial.json").write_text("{")
    alive = run / f".skills.{os.getppid()}.partial.mp4"  # of a process that is still drawing
    alive.write_text("")
    assert resume(capsys, run, "--steps", "1920")[0] == 0
    left = [
        path.name
        for path in [*run.iterdir(), *(run / "checkpoints").iterdir()]
        if path.name.startswith(".")
    ]
    assert sorted(left) == sorted([".lock", alive.name])
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(newest(run).stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("name", ["config.json", "progress.csv", ".lock"])
def test_writing_never_follows_a_link(run, tmp_path, capsys, name):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(precious)
    resume(capsys, run, "--steps", "1920")
    assert precious.read_text() == "precious"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "file.txt"
    files.write_atomically(path, "old")
    with pytest.raises(ValueError), files.replacing(path) as partial:
        partial.write_text("new")
        raise ValueError
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]


# --- a run's own files ---


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1, 2]", "{}", '{"config": 3}', "[" * 100_000, "\x00\x01"]
)
def test_a_damaged_config_is_replaced_by_the_checkpoints_copy(run, capsys, text):
    (run / "config.json").write_text(text)
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 0 and "using its copy in step-000000001280.safetensors" in said
    assert json.loads((run / "config.json").read_text())["config"]["steps"] == 1920


def edited(field, value):
    def change(description):
        description["config"][field] = value
        return description

    return change


def without(field):
    def change(description):
        del description["config"][field]
        return description

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            edited("actor_lr", 1.0),
            "says actor_lr = 1.0, but step-000000001280.safetensors was made with 0.003",
        ),
        (edited("actor_lr", "fast"), "says actor_lr = fast"),
        (edited("seed", 5), "says seed = 5"),
        (edited("steps", "many"), "config.json says steps = many"),
        (edited("steps", 700), "config.json says steps = 700, but the run was begun with 1280"),
        (without("discount"), "says discount = nothing"),
        (lambda description: {**description, "id": "another"}, "belongs to another run"),
        (lambda description: {**description, "world": {}}, "belongs to another run"),
    ],
)
def test_config_and_checkpoint_must_agree(run, capsys, change, message):
    before = load_file(newest(run))
    path = run / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 1 and message in said
    assert load_file(newest(run)).keys() == before.keys()


def test_a_folder_in_place_of_the_config_is_said(run, capsys):
    (run / "config.json").unlink()
    (run / "config.json").mkdir()
    code, said = resume(capsys, run)
    assert code == 1 and "config.json can't be read: Is a directory" in said


def test_a_checkpoint_of_another_run_is_refused(run, tmp_path, capsys):
    dusdi.pretrain(
        "gunner-2d", preset="debug", steps=1920, seed=1, out=tmp_path / "other", progress=False
    )
    shutil.copy(newest(tmp_path / "other"), run / "checkpoints")
    code, said = resume(capsys, run)
    assert code == 1 and "seed" in said


def test_an_older_checkpoint_named_as_a_newer_one_is_passed_over(run, capsys):
    older = sorted((run / "checkpoints").iterdir())[0]
    shutil.copy(older, run / "checkpoints" / "step-9999.safetensors")
    shutil.copy(older, run / "checkpoints" / "step-99999.safetensors")
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 0 and "was renamed: it is of step 640" in said
    assert dusdi.load(run).step == 1920


def test_a_folder_in_place_of_a_checkpoint_is_passed_over_or_said(run, capsys):
    (run / "checkpoints" / "step-000000001600.safetensors").mkdir()
    assert dusdi.load(run).step == 1280
    (run / "checkpoints" / "step-000000001920.safetensors").mkdir()
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 1 and "step-000000001920.safetensors: Is a directory" in said


@pytest.mark.parametrize(
    "text", ["garbage\x00\xff", "step,seed\n640.0,0\n", "a,b\n1,2\n", 'step,seed\n"640,0\n']
)
def test_progress_that_can_not_be_read_is_put_aside(run, capsys, text):
    (run / "progress.csv").write_text(text, encoding="latin-1")
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 0 and "could not be read; a copy of it is progress.damaged.csv" in said
    assert (run / "progress.damaged.csv").read_text(encoding="latin-1") == text


def test_a_row_that_was_being_written_is_dropped_without_a_word(run, capsys):
    text = (run / "progress.csv").read_text()
    (run / "progress.csv").write_text(text + "1280,0,3.")
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 0 and said == ""
    assert (run / "progress.csv").read_text().startswith(text)


HUGE = 10**9


@pytest.mark.parametrize(
    "change",
    [
        lambda description: "nonsense",
        lambda description: "[" * 100_000,
        lambda description: "[]",
        lambda description: {"format": 1, "step": 1280},
        lambda description: {**description, "config": None},
        lambda description: {**description, "world": {"name": "x"}},
        lambda description: {**description, "step": "x"},
        lambda description: {**description, "step": 1280.5},
        lambda description: {**description, "seconds": None},
        lambda description: {
            **description,
            "world": {**description["world"], "observation_size": 10**30},
        },
        lambda description: {
            **description,
            "world": {**description["world"], "observation_size": 10**12},
        },
        lambda description: {**description, "world": {**description["world"], "options": [1]}},
        lambda description: json.dumps(description).replace(
            '"indices": [0, 1]', '"indices": [0.5, 1]'
        ),
        lambda description: {**description, "format": 99},
        edited("skill_values", 1000),
        edited("actor_hidden", [HUGE, HUGE]),
        edited("alpha", float("nan")),
        edited("num_envs", HUGE),
    ],
)
def test_a_forged_description_is_refused_by_every_command(run, capsys, change):
    for path in (run / "checkpoints").iterdir():
        forge(path, change)
    (run / "config.json").unlink()
    for words in (("evaluate", run), ("render", run, "--out", run / "x.gif"), ("info", run)):
        code, said = command(capsys, *words)
        assert words[0] == "info" or (code == 1 and ".safetensors" in said), (words, said)
    code, said = resume(capsys, run)
    assert code == 1 and ".safetensors" in said


@pytest.mark.parametrize("part", ["missing", "another shape", "another kind"])
def test_arrays_that_do_not_fit_are_named(run, capsys, part):
    path = newest(run)
    found = checkpoint.load(path)
    name = next(
        name
        for name in found.arrays
        if name.startswith("agent/actor") and found.arrays[name].ndim > 1
    )
    arrays = dict(found.arrays)
    new = {
        "missing": None,
        "another shape": arrays[name][:1],
        "another kind": arrays[name].astype(np.float64),
    }[part]
    arrays.pop(name)
    arrays |= {} if new is None else {name: np.ascontiguousarray(new)}
    text = json.dumps(found.description)
    save_file(
        arrays, path, metadata={"description": text, "digest": checkpoint._digest(arrays, text)}
    )
    for words in (("evaluate", run), ("render", run, "--out", run / "x.gif")):
        code, said = command(capsys, *words)
        assert code == 1 and name in said and "does not fit" in said
    code, said = resume(capsys, run, "--steps", "1920")
    assert code == 1 and name in said


def test_a_checkpoint_one_may_not_read_is_not_called_damaged(run, monkeypatch):
    def refuse(self, *arguments):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(CheckpointError, match=r"can't be read: Permission denied"):
        checkpoint.load(newest(run))


# --- silently wrong ---


class Spikes(Sliders):
    """One observation that is finite and huge."""

    steps = 0

    def step(self, action):
        observation, *rest = super().step(action)
        Spikes.steps += 1
        return (observation + (1e20 if Spikes.steps == 500 else 0.0), *rest)


def test_an_observation_whose_square_is_infinite_is_refused(tmp_path):
    with pytest.raises(dusdi.WorldError, match="too large"):
        dusdi.pretrain(
            dusdi.from_gymnasium(Spikes, SLIDERS),
            preset="debug",
            out=tmp_path / "run",
            progress=False,
        )


def test_a_policy_that_is_not_finite_is_not_blamed_on_the_world(run, capsys):
    path = newest(run)
    found = checkpoint.load(path)
    arrays = {
        name: np.full_like(x, np.nan) if name.startswith("agent/actor") else x
        for name, x in found.arrays.items()
    }
    text = json.dumps(found.description)
    save_file(
        arrays, path, metadata={"description": text, "digest": checkpoint._digest(arrays, text)}
    )
    with pytest.raises(NonFiniteError, match="policy"):
        dusdi.load(run).act(np.zeros(7), [0, 0, 0])
    code, said = command(capsys, "render", run, "--out", run / "x.gif")
    assert code == 1 and "the policy" in said and not (run / "x.gif").exists()


# --- wrong words ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--input-gain nan", "input_gain must be a finite number"),
        ("--input-gain -1", "input_gain must be at least 0"),
        ("--input-gain 1e39", "input_gain must be at most 1e+09"),
        ("--random-steps 10000 --steps 10240", "nothing would be learned"),
        ("--log-std-min 1e999", "log_std_min must be a finite number"),
        ("--log-std-min 5 --log-std-max -5", "log_std_min (5.0) must be less"),
        ("--target-entropy nan", "target_entropy must be a finite number"),
        ("--skill-length 99999999999999", "skill_length must be at most 100,000"),
        ("--penalty-start 99999999999999", "penalty_start"),
        ("--episode-length 99999999999999", "episode_length"),
        ("--steps 1e999", "argument --steps"),
        ("--steps 1.5", "argument --steps"),
        ("--steps 1" + "0" * 400, "steps is far too large"),
        ("--steps 1000", "nothing would be learned in 1,000 steps: the first 10,240 are random"),
        (
            "--batch-size 4096 --replay-capacity 256 --random-steps 0 --steps 10000",
            "must not be more than replay_capacity",
        ),
        ("--num-envs 100", "for instance steps_per_update to 4 or 100"),
        ("--preset ", "unknown preset ''"),
        ("--method ", "unknown method ''"),
        ("--seed -1", "seed"),
        ("--actor-hidden 0", "each entry of actor_hidden must be positive"),
        ("--actor-hidden none", "at least one layer"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_made(
    tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    code, said = command(capsys, "pretrain", "gunner-2d", "--out", "run", *words.split(" "))
    assert code == 2 and message in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", ["--epochs 99999999999", "--clip nan", "--discount 1", "--agent x", "--max-gradient 0"]
)
def test_settings_of_tasks_have_ranges_too(run, tmp_path, capsys, words):
    code, _ = command(
        capsys, "downstream", run, "gunner-2d/unlimited", "--out", tmp_path / "t", *words.split()
    )
    assert code == 2 and not (tmp_path / "t").exists()


def test_what_nobody_thought_of_is_one_sentence_and_a_traceback_if_wanted(monkeypatch, capsys):
    def fail(arguments):
        raise KeyError("x")

    monkeypatch.setattr("dusdi.cli._envs", fail)
    assert main(["envs"]) == 1
    said = capsys.readouterr().err
    assert (
        "Traceback (in your code)" in said and "in fail" in said
    )  # the test is not of the package
    assert main(["envs", "--debug"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert "report it" in explain(KeyError("x"))
    assert "memory" in explain(MemoryError()) and "memory" in explain(
        RuntimeError("RESOURCE_EXHAUSTED: out of it")
    )


def test_settings_from_python_are_checked_as_well():
    for fields in (
        {"steps": "many"},
        {"actor_hidden": "64"},
        {"learn_alpha": 1},
        {"seed": True},
        {"actor_lr": None},
    ):
        with pytest.raises(UsageError, match=next(iter(fields))):
            dusdi.pretrain("gunner-2d", preset="debug", progress=False, **fields)
    assert dusdi.Config(steps=1e6).steps == 1_000_000 and isinstance(
        dusdi.Config(steps=np.int64(50_000)).steps, int
    )


@pytest.mark.parametrize("words", [["envs"], ["evaluate", "/nowhere"]])
def test_output_that_is_closed_or_knows_no_letters_is_no_trouble(words):
    command = [sys.executable, "-m", "dusdi", *words]
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert result.returncode in (0, 1) and "should not have happened" not in result.stderr
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True
    )
    assert (
        closed.returncode == result.returncode and "should not have happened" not in closed.stderr
    )


def test_factor_names_are_texts_that_files_can_hold():
    for name in ("", " ", 3, "\udcff"):
        with pytest.raises(dusdi.WorldError, match="no name"):
            dusdi.from_gymnasium(Sliders, {name: [0]})


def test_somebody_elses_folder_is_left_alone(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"mine": 1}')
    (tmp_path / ".tmp-notes").write_text("precious")
    code, said = command(
        capsys, "pretrain", "gunner-2d", "--preset", "debug", "--out", tmp_path, "--quiet"
    )
    assert code == 2 and "would be overwritten" in said
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock") == [
        ".tmp-notes",
        "config.json",
    ]


class PaysNothingSensible(Sliders):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


def test_a_reward_that_is_not_finite_is_refused_where_it_counts(tmp_path):
    world = dusdi.from_gymnasium(PaysNothingSensible, SLIDERS)
    skills = dusdi.pretrain(world, preset="debug", steps=640, progress=False)  # skills ignore it
    with pytest.raises(
        dusdi.WorldError, match=r"reward that is not finite \(nan\) in copy 0 after 1 steps"
    ):
        dusdi.downstream(skills, world, preset="debug", progress=False)


def test_skills_of_another_world_are_said_to_be_so():
    heavy, light = (
        dusdi.from_gymnasium("Pendulum-v1", {"angle": [0, 1], "speed": [2]}, g=g)
        for g in (10.0, 1.0)
    )
    skills = dusdi.pretrain(heavy, preset="debug", steps=640, progress=False)
    with pytest.warns(
        UserWarning, match=r"learned in another world, one with option g = 10\.0, not 1\.0"
    ):
        dusdi.SkillEnv(light, skills).close()
    with pytest.warns(
        UserWarning, match=r"learned in another world, one with option g = 10\.0, not 1\.0"
    ):
        dusdi.evaluate(skills, light, steps=2000)
    with pytest.raises(UsageError, match="is not a task"):
        dusdi.downstream(skills, Sliders(), preset="debug", progress=False)


def test_factors_have_one_form():
    assert dusdi.Factor("a", np.arange(2)) == dusdi.Factor("a", [0, 1]) == dusdi.Factor("a", (0, 1))
    with pytest.raises(dusdi.WorldError, match="not a list of observation entries"):
        dusdi.Factor("a", (0.5,))
