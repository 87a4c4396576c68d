"""Measuring and looking: what is measured on, what is refused, and where pictures and videos go."""

import json
import shutil
import warnings

import imageio.v3 as imageio
import numpy as np
import pytest
from dusdi.rollout import MAX_COPIES, collect

import dusdi
from dusdi.cli import main
from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.gunner import Gunner2D
from dusdi.errors import UsageError
from dusdi.evaluation import measure, measure_task, returns
from dusdi.skills import Discrete
from dusdi.types import Factor, WorldSpec


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate") / "run"
    dusdi.pretrain("gunner-2d", preset="debug", out=folder, progress=False)
    return folder


@pytest.fixture
def own(run, tmp_path):
    """A copy of the run that a test may write into."""
    return shutil.copytree(run, tmp_path / "own")


class Ticks(HostWorld):
    """Observes which copy it is and how many episodes that copy had before; pays 1 a step.

    Episodes last five steps, but only three in the first copy.
    """

    spec = WorldSpec(
        name="ticks",
        options={},
        observation_size=2,
        action_size=1,
        factors=(Factor("copy", (0,)), Factor("episode", (1,))),
        episode_length=5,
        channels=("reward",),
    )

    def __init__(self):
        self.made = []
        self.seeds = []

    def vector(self, count):
        self.made.append(count)
        return _Ticks(self, count)


class _Ticks(VectorWorld):
    def __init__(self, world, count):
        self._world, self._count = world, count
        self._age = np.zeros(count, int)
        self._number = np.full(count, -1)

    def _observe(self):
        return np.stack([np.arange(self._count), self._number], axis=1).astype(np.float32)

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._world.seeds.append(seed)
        mask = np.ones(self._count, bool) if mask is None else mask
        self._age[mask] = 0
        self._number[mask] += 1
        return self._observe()

    def step(self, actions):
        self._age += 1
        terminated = (np.arange(self._count) == 0) & (self._age >= 3)
        return self._observe(), terminated, np.zeros(self._count, bool)

    def rewards(self):
        return np.ones((self._count, 1), np.float32)

    def render(self, index=0):
        raise NotImplementedError


def act(observation, skill):
    return np.zeros((len(observation), 1))


# --- what is measured on ---


def test_short_episodes_go_on_in_a_bounded_number_of_copies():
    world, done = Ticks(), []
    options = {"steps": 1_000, "skill_length": 2, "seed": 0, "advance": done.append}
    rollout = collect(world, act, Discrete(2, 3), **options)
    assert world.made == [MAX_COPIES] and len(rollout.observation) == 1_000
    assert done == list(range(100, 1_001, 100))
    labels = np.unique(np.column_stack([rollout.observation, rollout.episode]), axis=0)
    episodes = np.unique(rollout.observation, axis=0)
    assert len(labels) == len(episodes) == len(np.unique(rollout.episode))  # one label for each
    assert np.count_nonzero(episodes[:, 0] == 0) > np.count_nonzero(episodes[:, 0] == 1)


def test_returns_are_those_of_separate_episodes_in_a_bounded_number_of_copies():
    world, done = Ticks(), []
    options = {"interval": 2, "episodes": 250, "seed": 7, "advance": done.append}
    earned = returns(world, lambda observation: observation, act, **options)
    assert world.made == [100, 100, 50] and world.seeds == [7, 107, 207]
    assert done[-1] == 250 * 5
    expected = np.full((250, 1), 5.0)
    expected[::100] = 3.0  # the first of each hundred ends early
    np.testing.assert_array_equal(earned, expected)


def test_a_run_can_be_named_by_its_folder_and_its_world_by_name(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # so many steps are enough
        by_folder = dusdi.evaluate(str(run), steps=6_000)
        by_name = dusdi.evaluate(dusdi.load(run), "gunner-2d", steps=6_000)
    assert by_folder.to_json() == by_name.to_json()
    assert by_folder.own_factors == ("agent position", "ammo state", "target state")


def test_too_few_steps_are_warned_of(run):
    with pytest.warns(UserWarning, match="2 skills only.*use at least 5,000 steps"):
        dusdi.evaluate(run, steps=100)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (dusdi.evaluate, {"seed": -1}, "seed must be from 0"),
        (dusdi.evaluate, {"seed": 10**20}, "seed must be from 0"),
        (dusdi.evaluate, {"steps": 0}, "steps must be from 1 to"),
        (measure, {"seed": 2**31}, "seed must be from 0"),
        (measure_task, {"seed": -1}, "seed must be from 0"),
        (measure_task, {"episodes": 0}, "episodes must be from 1 to"),
        (dusdi.render, {"seed": -1}, "seed must be from 0"),
        (dusdi.render_task, {"count": 0}, "count must be from 1 to"),
    ],
)
def test_numbers_that_cannot_work_are_refused_before_anything_is_loaded(function, options, message):
    with pytest.raises(UsageError, match=message):
        function("no/such/run", **options)


# --- where results go ---


def test_results_can_go_elsewhere_and_say_what_is_at_chance(run, tmp_path, capsys):
    before = sorted(path.name for path in run.iterdir())
    out = tmp_path / "new" / "results"
    assert main(["evaluate", str(run), "--steps", "6000", "--out", str(out), "--quiet"]) == 0
    printed, told = capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["dci.json", "dci.png", "values.png"]
    assert sorted(path.name for path in run.iterdir()) == before
    assert "is at chance" in printed and "docs/chance.md" in printed  # 2,560 steps are nothing
    assert "agent position" in printed and str(out / "values.png") in printed.replace("\n", "")
    assert not told


def test_what_cannot_be_written_is_said_before_measuring(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dusdi.rollout.HostStepper.step", lambda *args: pytest.fail("measured"))
    (tmp_path / "file").write_text("")
    assert main(["evaluate", str(run), "--out", str(tmp_path / "file" / "results")]) == 2
    error = capsys.readouterr().err
    assert "can't write into" in error and "--out" in error


def test_results_never_go_through_a_link(own, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("dci.json", "dci.png", "values.png"):
        (own / name).symlink_to(precious)
    measure(own, steps=6_000)
    assert precious.read_text() == "mine"
    assert json.loads((own / "dci.json").read_text())["chance"]
    for name in ("dci.png", "values.png"):
        assert not (own / name).is_symlink() and (own / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_logged_unless_it_is_not_wanted(run, tmp_path, capsys, monkeypatch, quiet):
    for name in ("FIRST_LINE_SECONDS", "LINE_SECONDS"):
        monkeypatch.setattr(f"dusdi.progress.Progress.{name}", -1.0)
    more = ["--quiet"] if quiet else []
    out = str(tmp_path)
    assert main(["evaluate", str(run), "--steps", "6000", "--json", "--out", out, *more]) == 0
    video = str(tmp_path / "skills.gif")
    assert main(["render", str(run), "--out", video, "--count", "1", *more]) == 0
    printed, told = capsys.readouterr()
    json.loads(printed.splitlines()[0])
    words = ("collecting: 6,000/6,000 steps", "fitting trees: 6/6 targets", "drawing: 50/50 frames")
    assert all((word in told) is not quiet for word in words)


# --- videos ---


def test_a_video_of_a_run_by_its_folder_and_of_a_world_by_its_name(run, tmp_path):
    out = dusdi.render(str(run), out=tmp_path / "a.gif", count=1)
    assert imageio.imread(out, index=None).shape == (50, 480, 800, 3)
    dusdi.render(dusdi.load(run), "gunner-2d", tmp_path / "b.gif", count=1)
    assert out.read_bytes() == (tmp_path / "b.gif").read_bytes()


class Breaking(Gunner2D):
    """Draws a few pictures, then breaks."""

    def __init__(self):
        self.drawn = 0

    def render(self, state):
        self.drawn += 1
        if self.drawn > 3:
            raise RuntimeError("broken")
        return super().render(state)


@pytest.mark.parametrize("name", ["video.gif", "video.mp4"])
def test_a_video_that_fails_leaves_what_was_there(run, tmp_path, name):
    (tmp_path / name).write_text("old")
    with pytest.raises(RuntimeError, match="broken"):
        dusdi.render(run, Breaking(), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_a_video_is_never_written_through_a_link(run, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "video.gif").symlink_to(precious)
    dusdi.render(run, out=tmp_path / "video.gif", count=1)
    assert precious.read_text() == "mine" and not (tmp_path / "video.gif").is_symlink()


@pytest.mark.parametrize(
    ("out", "message"),
    [("x.avi", "as .mp4 or .gif"), ("folder.gif", "is a folder"), ("file/x.gif", "can't write")],
)
def test_where_a_video_cannot_go_is_said_before_it_is_drawn(run, tmp_path, out, message):
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "file").write_text("")
    world = Breaking()
    with pytest.raises(UsageError, match=message):
        dusdi.render(run, world, tmp_path / out)
    assert not world.drawn
