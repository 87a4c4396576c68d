"""The folder of a run: full disks, links, leftovers, other people's files. Nothing is lost."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import warnings

import pytest
from conftest import assert_same_result, newest_checkpoint, train

import dusdi
from dusdi import checkpoint, files, run
from dusdi.errors import DusdiError, StorageError, UsageError, explain

pytestmark = pytest.mark.usefixtures("shared_programs")


def explained(function, *arguments, **options):
    """What a person is told of what goes wrong."""
    with pytest.raises((DusdiError, OSError)) as info:
        function(*arguments, **options)
    info.value.__cause__ = None
    return explain(info.value.with_traceback(None))  # in which this test would count as a user's


@pytest.mark.parametrize("what", ["run", "video"])
@pytest.mark.parametrize("place", ["a file", "under a file", "too long", "no folder"])
def test_a_place_that_can_not_be_written_is_named(gunner_run, tmp_path, what, place):
    (tmp_path / "file").write_text("precious")
    places = {
        "a file": tmp_path / "file",
        "under a file": tmp_path / "file" / "x",
        "too long": tmp_path / ("x" * 300),
        "no folder": "/proc/nothing",
    }
    if what == "run":
        said = explained(train, places[place])
    else:
        said = explained(dusdi.render, gunner_run, out=f"{places[place]}/skills.gif")
    assert said.startswith(("can't read or write ", "can't write ")) and "\n" not in said
    assert str(places[place]) in said
    assert (tmp_path / "file").read_text() == "precious"


def test_a_full_disk_keeps_the_checkpoint_before_and_resumes_to_the_same_numbers(
    gunner_run, tmp_path, monkeypatch
):
    usual = checkpoint.save_file
    left = [1]

    def full(arrays, path, metadata):
        if not left:
            usual(dict(list(arrays.items())[:3]), path, metadata)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        left.pop()
        usual(arrays, path, metadata)

    monkeypatch.setattr(checkpoint, "save_file", full)
    out = tmp_path / "run"
    with pytest.raises(StorageError, match=r"No space left .*checkpoint of step 640.*--resume"):
        train(out, steps=1_920)
    monkeypatch.undo()
    assert [path.name for path in (out / "checkpoints").iterdir()] == [
        "step-000000000640.safetensors"
    ]
    assert [path.name for path in out.iterdir() if "partial" in path.name] == []
    train(out, resume=True)
    assert_same_result(out, gunner_run)


def test_a_disk_that_is_full_at_the_policy_keeps_the_policy_before(gunner, monkeypatch):
    usual = run.write_policy

    def full(path, policy, description):
        if description["step"] < 2_560:
            return usual(path, policy, description)
        with files.replacing(path) as partial:
            partial.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run, "write_policy", full)
    message = r"at step 2560: can't read or write .*policy-seed0.safetensors: No space left"
    with pytest.raises(StorageError, match=message):
        train(gunner, steps=2_560, resume=True)
    monkeypatch.undo()
    assert dusdi.load(gunner).step == 1_920
    assert train(gunner, resume=True).step == 2_560
    assert dusdi.load(gunner).step == 2_560


@pytest.mark.parametrize(
    ("part", "what"),
    [("write_policy", "policy-seed0.safetensors"), ("_write_description", "config.json")],
)
def test_a_disk_that_is_full_when_a_run_is_resumed_keeps_its_checkpoint(
    gunner, monkeypatch, part, what
):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(gunner / what))

    before = newest_checkpoint(gunner).read_bytes()
    place = run if part == "write_policy" else run.Run
    monkeypatch.setattr(place, part, full)
    with pytest.raises(StorageError, match=f"{what}: No space left .* step 1920 is kept; .*resume"):
        train(gunner, steps=2_560, resume=True)
    monkeypatch.undo()
    assert newest_checkpoint(gunner).read_bytes() == before
    assert train(gunner, steps=2_560, resume=True).step == 2_560


def test_a_disk_that_is_full_before_the_first_step_says_that_nothing_was_saved(
    tmp_path, monkeypatch
):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tensorboardX.event_file_writer.EventsWriter", full)
    with pytest.raises(StorageError, match=r"at step 0: .*nothing was saved yet; .*--resume"):
        train(tmp_path / "run", steps=640)
    monkeypatch.undo()
    assert train(tmp_path / "run", resume=True).step == 640


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from conftest import train
from dusdi import files, run

usual = run.write_policy

def killed(path, policy, description):
    if description["step"] == 1_280 and description["seed"] == 1:
        with files.replacing(path) as partial:
            partial.write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    usual(path, policy, description)

run.write_policy = killed
train(sys.argv[1], steps=1_920)
"""


def test_a_run_that_is_killed_while_it_writes_a_policy_goes_on_to_the_same_numbers(
    gunner_run, tmp_path, request
):
    out = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(out), str(request.path.parent)]
    assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
    assert [dusdi.load(out, seed).step for seed in (0, 1)] == [1_280, 640]  # both are whole
    assert [path.name for path in out.iterdir() if "partial" in path.name] != []
    train(out, resume=True)
    assert_same_result(out, gunner_run)
    assert [path.name for path in out.iterdir() if "partial" in path.name] == []


def refuse(*arguments, **options):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_folder_of_somebody_elses_is_said_before_anything_is_done(gunner, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(UsageError, match=r"can't write into .*gunner .Permission .*--out"):
        train(gunner, steps=2_560, resume=True)


def test_the_lock_of_somebody_else_is_said(gunner, monkeypatch):
    monkeypatch.setattr(files, "append", refuse)
    with pytest.raises(UsageError, match=r"\.lock may not be written .* somebody else's; copy"):
        train(gunner, steps=2_560, resume=True)


@pytest.mark.parametrize("moment", ["log", "save"])
def test_a_folder_that_is_removed_while_running_is_said(tmp_path, monkeypatch, moment):
    usual = getattr(run.Run, moment)

    def remove_first(self, *arguments):
        shutil.rmtree(self.folder)
        usual(self, *arguments)

    monkeypatch.setattr(run.Run, moment, remove_first)
    with pytest.raises(StorageError, match="was gone: removed or moved"):
        train(tmp_path / "run")


def test_leftovers_of_a_killed_save_are_cleared_and_files_are_for_everybody(gunner):
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (".tmpAbCdEf", f".step-000000000640.{gone.pid}.partial.safetensors"):
        (gunner / "checkpoints" / name).write_bytes(b"x" * 1000)
    (gunner / f".config.{gone.pid}.partial.json").write_text("{")
    (gunner / f".policy-seed0.{gone.pid}.partial.safetensors").write_text("{")
    alive = gunner / f".skills.{os.getppid()}.partial.mp4"  # of a process that is still drawing
    alive.write_text("")
    train(gunner, steps=2_560, resume=True)
    places = [*gunner.iterdir(), *(gunner / "checkpoints").iterdir()]
    hidden = [path.name for path in places if path.name.startswith(".")]
    assert sorted(hidden) == sorted([".lock", alive.name])
    umask = os.umask(0)
    os.umask(umask)
    for path in (newest_checkpoint(gunner), gunner / "policy-seed0.safetensors"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize(
    "name", ["config.json", "progress.csv", ".lock", "policy-seed0.safetensors"]
)
def test_writing_never_follows_a_link(gunner, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (gunner / name).unlink()
    (gunner / name).symlink_to(precious)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the link leads to can't be read as what it should be
        if name == ".lock":
            with pytest.raises(OSError, match="symbolic link"):
                train(gunner, steps=2_240, resume=True)
        else:
            train(gunner, steps=2_240, resume=True)
            assert not (gunner / name).is_symlink()
    assert precious.read_text() == "precious"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "file.txt"
    files.write_atomically(path, "old")
    with pytest.raises(ValueError), files.replacing(path) as partial:
        partial.write_text("new")
        raise ValueError
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("text", ['{"mine": 1}', "[]", "some notes"])
def test_somebody_elses_folder_is_left_alone(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    (tmp_path / ".tmp-notes").write_text("precious")
    with pytest.raises(UsageError, match="would be overwritten"):
        train(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock") == [
        ".tmp-notes",
        "config.json",
    ]


# --- the log ---


@pytest.mark.parametrize(
    "text", ["garbage\x00\xff", "step,seed\n640.0,0\n", "a,b\n1,2\n", 'step,seed\n"640,0\n']
)
def test_progress_that_can_not_be_read_is_put_aside(gunner, text):
    (gunner / "progress.csv").write_text(text, encoding="latin-1")
    with pytest.warns(UserWarning, match=r"not be read; a copy of it is progress\.damaged\.csv"):
        train(gunner, steps=2_240, resume=True)
    assert (gunner / "progress.damaged.csv").read_text(encoding="latin-1") == text


@pytest.mark.filterwarnings("error")
def test_a_row_that_was_being_written_is_dropped_without_a_word(gunner):
    text = (gunner / "progress.csv").read_text()
    (gunner / "progress.csv").write_text(text + "1920,0,3.")
    train(gunner, steps=2_240, resume=True)
    lines = (gunner / "progress.csv").read_text().removeprefix(text).splitlines()
    assert [line.split(",")[:2] for line in lines] == [["2240", "0"], ["2240", "1"]]
