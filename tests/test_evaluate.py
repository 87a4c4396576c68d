"""Measuring and looking: what is measured on, what is refused, and where pictures and videos go."""

import dataclasses
import json
import warnings

import imageio.v3 as imageio
import numpy as np
import pytest
from probes import make_space

import dusdi
from dusdi import video
from dusdi.cli import main
from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.gunner import Gunner2D
from dusdi.errors import UsageError
from dusdi.evaluation import measure
from dusdi.rollouts import MAX_ENVS, collect, play_episodes
from dusdi.spaces import Categorical
from dusdi.stepping import HostStepper
from dusdi.task_evaluation import measure_task
from dusdi.types import Factor, WorldSpec


class Ticks(HostWorld):
    """Observes which environment it is and how many episodes that one had before; pays 1 a step.

    Episodes last five steps, but only three in the first environment.
    """

    spec = WorldSpec(
        name="ticks",
        options={},
        observation_size=2,
        action_size=1,
        factors=(Factor("environment", (0,)), Factor("episode", (1,))),
        episode_length=5,
        channels=("reward",),
    )

    def __init__(self):
        self.made = []
        self.seeds = []

    def vector(self, num_envs):
        self.made.append(num_envs)
        return _Ticks(self, num_envs)


class _Ticks(VectorWorld):
    def __init__(self, world, num_envs):
        self._world = world
        self._num_envs = num_envs
        self._age = np.zeros(num_envs, int)
        self._number = np.full(num_envs, -1)

    def _observe(self):
        return np.stack([np.arange(self._num_envs), self._number], axis=1).astype(np.float32)

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._world.seeds.append(seed)
        mask = np.ones(self._num_envs, bool) if mask is None else mask
        self._age[mask] = 0
        self._number[mask] += 1
        return self._observe()

    def step(self, actions):
        self._age += 1
        terminated = (np.arange(self._num_envs) == 0) & (self._age >= 3)
        return self._observe(), terminated, np.zeros(self._num_envs, bool)

    def rewards(self):
        return np.ones((self._num_envs, 1), np.float32)

    def state(self):
        return self._age

    def render(self, index=0):
        raise NotImplementedError


def act(observation, skill, state):
    return np.zeros((len(observation), 1))


# --- what is measured on ---


def test_short_episodes_go_on_in_a_bounded_number_of_environments():
    world = Ticks()
    done = []
    space = make_space(a=Categorical(3), b=Categorical(3))
    options = {"steps": 1_000, "skill_length": 2, "seed": 0, "advance": done.append}
    rollout = collect(world, act, space, **options)
    assert world.made == [MAX_ENVS] and len(rollout.observation) == 1_000
    assert done == list(range(100, 1_001, 100))
    labels = np.unique(np.column_stack([rollout.observation, rollout.episode]), axis=0)
    episodes = np.unique(rollout.observation, axis=0)
    assert len(labels) == len(episodes) == len(np.unique(rollout.episode))  # one label for each
    begun = [np.count_nonzero(episodes[:, 0] == env) for env in (0, 1)]
    assert begun == [4, 2]  # ten steps are three episodes and a bit of 3 steps, and two of 5


def test_returns_are_those_of_separate_episodes_in_a_bounded_number_of_environments():
    world = Ticks()
    done = []
    options = {"interval": 2, "episodes": 250, "seed": 7, "advance": done.append}
    earned = play_episodes(world, lambda observation: observation, act, **options)
    assert world.made == [100, 100, 50]
    play_episodes(world, lambda observation: observation, act, **{**options, "seed": 8})
    # An environment may add its number to the seed: no two of these episodes share one.
    apart = np.diff(np.sort(world.seeds))
    assert len(world.seeds) == 6 and min(apart) >= MAX_ENVS
    assert done[-1] == 250 * 5
    expected = np.full((250, 1), 5.0)
    expected[::100] = 3.0  # the first of each hundred ends early
    np.testing.assert_array_equal(earned, expected)


def test_a_run_can_be_named_by_its_folder_and_its_world_by_name(gunner_run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # so many steps are enough
        by_folder = dusdi.evaluate(str(gunner_run), steps=6_000)
        by_name = dusdi.evaluate(dusdi.load(gunner_run), "gunner-2d", steps=6_000)
    assert by_folder.to_json() == by_name.to_json()
    assert by_folder.own_factors == ("agent position", "ammo state", "target state")


def test_a_world_that_was_wrapped_is_not_taken_for_the_plain_one(gunner_run):
    skills = dusdi.load(gunner_run)
    skills.spec = dataclasses.replace(skills.spec, observation_size=99)
    with pytest.raises(UsageError, match=r"which has 99 observations, not .*; name theirs"):
        dusdi.evaluate(skills)


def test_too_few_steps_are_warned_of(gunner_run):
    with pytest.warns(UserWarning, match=r"2 skills only.*use at least 5,000 steps"):
        dusdi.evaluate(gunner_run, steps=100)


def test_a_world_on_the_host_is_measured_and_drawn(household_run, tmp_path):
    with pytest.warns(UserWarning, match="measured on 50 skills only"):
        report = measure(household_run, steps=500, out=tmp_path)
    assert report["seeds"][0]["seed"] == 0 and 0 <= report["disentanglement"] <= 1
    skills = dusdi.load(household_run)
    made = dusdi.render(skills, out=tmp_path / "skills.gif", count=1)
    assert imageio.imread(made, index=None).shape[0] == skills.skill_length == 10


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


def test_results_can_go_to_another_folder_and_say_what_is_at_chance(gunner_run, tmp_path, capsys):
    before = sorted(path.name for path in gunner_run.iterdir())
    out = tmp_path / "new" / "results"
    assert main(["evaluate", str(gunner_run), "--steps", "6000", "--out", str(out), "--quiet"]) == 0
    printed, said = capsys.readouterr()
    pictures = [f"{kind}-seed{seed}.png" for kind in ("dci", "values") for seed in (0, 1)]
    assert sorted(path.name for path in out.iterdir()) == sorted(["dci.json", *pictures])
    assert sorted(path.name for path in gunner_run.iterdir()) == before
    assert "is at chance" in printed and "docs/chance.md" in printed  # 1,920 steps are nothing
    assert "agent position" in printed
    assert f"{out}/values-seed*.png" in printed.replace("\n", "")
    assert not said


def test_what_cannot_be_written_is_said_before_measuring(gunner_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(HostStepper, "step", lambda *args: pytest.fail("measured"))
    (tmp_path / "file").write_text("")
    assert main(["evaluate", str(gunner_run), "--out", str(tmp_path / "file" / "results")]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "can't write into" in error and "--out" in error


def test_results_never_go_through_a_link(gunner, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    names = ("dci.json", "dci-seed0.png", "values-seed0.png")
    for name in names:
        (gunner / name).symlink_to(precious)
    measure(gunner, steps=6_000)
    assert precious.read_text() == "mine"
    assert json.loads((gunner / "dci.json").read_text())["chance"]
    for name in names[1:]:
        assert not (gunner / name).is_symlink()
        assert (gunner / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_logged_unless_it_is_not_wanted(
    gunner_run, tmp_path, capsys, monkeypatch, quiet
):
    for name in ("FIRST_LINE_SECONDS", "LINE_SECONDS"):
        monkeypatch.setattr(f"dusdi.progress.Progress.{name}", -1.0)
    more = ["--quiet"] if quiet else []
    policy = str(gunner_run / "policy-seed0.safetensors")
    words = ["evaluate", policy, "--steps", "6000", "--json", "--out", str(tmp_path)]
    assert main([*words, *more]) == 0
    video = str(tmp_path / "skills.gif")
    assert main(["render", policy, "--out", video, "--count", "1", *more]) == 0
    printed, said = capsys.readouterr()
    json.loads(printed.splitlines()[0])
    words = ("collecting: 6,000/6,000 steps", "fitting trees: 6/6 targets", "drawing: 50/50 frames")
    assert all((word in said) is not quiet for word in words)


# --- videos ---


def test_a_video_of_a_run_by_its_folder_and_of_a_world_by_its_name(gunner_run, tmp_path):
    out = dusdi.render(str(gunner_run), out=tmp_path / "a.gif", count=1)
    assert imageio.imread(out, index=None).shape == (50, 480, 800, 3)
    dusdi.render(dusdi.load(gunner_run), "gunner-2d", tmp_path / "b.gif", count=1)
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
def test_a_video_that_fails_leaves_what_was_there(gunner_run, tmp_path, name):
    (tmp_path / name).write_text("old")
    with pytest.raises(RuntimeError, match="broken"):
        dusdi.render(gunner_run, Breaking(), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_a_video_is_never_written_through_a_link(gunner_run, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "video.gif").symlink_to(precious)
    dusdi.render(gunner_run, out=tmp_path / "video.gif", count=1)
    assert precious.read_text() == "mine" and not (tmp_path / "video.gif").is_symlink()


@pytest.mark.parametrize(
    ("out", "message"),
    [("x.avi", "as .mp4 or .gif"), ("folder.gif", "is a folder"), ("file/x.gif", "can't write")],
)
def test_where_a_video_cannot_go_is_said_before_it_is_drawn(gunner_run, tmp_path, out, message):
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "file").write_text("")
    world = Breaking()
    with pytest.raises(UsageError, match=message):
        dusdi.render(gunner_run, world, tmp_path / out)
    assert not world.drawn


def test_a_category_beside_a_box_is_written_as_a_whole_number():
    assert video._text(np.array([0.68, -0.5, 2.0], np.float32)) == "0.68 -0.50 2"
    assert video._text(np.array([0, 3], np.int32)) == "0 3"
