"""What the tests share: a world with a known answer, and runs that are trained once a session."""

import csv
import json
import os
import shutil
import signal
from importlib.metadata import version
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from filelock import FileLock
from packaging.version import Version

# Before JAX starts, here and in child processes: a program is compiled once for all tests and all
# sessions, and quickly rather than well. Tests that learn for long do so in a child process
# without these flags. The older way to compile fused operations takes a third of the time; XLA does
# not start with a flag that it does not know, so later versions go without.
os.environ |= {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parents[1] / ".pytest_cache" / "xla"),
    "JAX_COMPILATION_CACHE_MAX_SIZE": str(500 * 2**20),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.03",  # to look for it takes as long
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * (Version(version("jaxlib")) < Version("0.11")),
}

from canned import fake, settings  # noqa: F401, experiments without training

import dusdi
from dusdi import checkpoint, learning, trainers
from dusdi.policy import read_policy
from dusdi.types import Factor, WorldSpec

# A shell has what it starts in the background ignore Ctrl-C, and children inherit that; some tests
# send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLIDERS = {"left": [0], "middle": [1], "right": [2]}


class Sliders(gymnasium.Env):
    """Three independent points on lines, moved by hidden mixtures of actions (action @ MIX).

    Disentangled skills put each point to a place of its own; the fourth observation is noise.
    """

    MIX = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, -1.0]])
    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (4,), np.float64)
    action_space = gymnasium.spaces.Box(-0.3, 0.3, (3,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 3)
        return self._observation(), {}

    def step(self, action):
        self.position = np.clip(self.position + action @ self.MIX, -1, 1)
        return self._observation(), 0.0, False, False, {}

    def _observation(self):
        return np.append(self.position, self.np_random.uniform(-1, 1))


@pytest.fixture
def spec():
    """A description of two controlled factors (entries 0, 1 and 2) and one that is not (3)."""
    factors = (Factor("ball", (0, 1)), Factor("box", (2,)), Factor("arm", (3,), controlled=False))
    return WorldSpec("toy", {}, observation_size=4, action_size=2, factors=factors)


# --- runs that are trained once for all tests and all processes ---


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder that all processes of this session share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def made_once(folder, make):
    """A folder that the first process to come makes by `make(folder)`; the others wait for it."""
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder


def train(out, env="gunner-2d", **fields):
    """A run of preset debug without progress bar, of two seeds."""
    fields = {"preset": "debug", "progress": False, "seeds": 2, **fields}
    return dusdi.pretrain(env, out=out, **fields)


@pytest.fixture(scope="session")
def gunner_run(shared_folder):
    """A run in 2D Gunner: seeds 0 and 1, 1,920 steps, checkpoints at 1,280 and 1,920. Read only."""
    return made_once(shared_folder / "gunner", lambda out: train(out, steps=1_920))


@pytest.fixture
def gunner(gunner_run, tmp_path):
    """A copy of that run to write into."""
    return shutil.copytree(gunner_run, tmp_path / "gunner")


@pytest.fixture(scope="session")
def household_run(shared_folder):
    """A run in the household, a world on the host: seed 0, 640 steps, skills of 10. Read only."""

    def make(out):
        train(out, "household", seeds=1, steps=640, skill_length=10, mask_steps=0)

    return made_once(shared_folder / "household", make)


@pytest.fixture(scope="session")
def task_run(shared_folder, gunner_run):
    """PPO over that run's skills in gunner-2d/limited: seed 0, 8,000 steps. Read only."""

    def make(out):
        options = {"preset": "debug", "steps": 8_000, "checkpoint_every": 4_000, "progress": False}
        dusdi.downstream(gunner_run, "gunner-2d/limited", out=out, **options)

    return made_once(shared_folder / "task", make)


@pytest.fixture
def task(task_run, tmp_path):
    """A copy of that run to write into."""
    return shutil.copytree(task_run, tmp_path / "task")


@pytest.fixture
def shared_programs():
    """Runs that differ only in their length share a trainer: to trace its programs takes seconds.

    Not for tests that change what is compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "make_trainer", _shared_trainer)
        yield


_TRAINERS = {}


def _shared_trainer(world, chosen):
    if not isinstance(world, dusdi.JaxWorld):
        return trainers.make_trainer(world, chosen)
    described = chosen.to_json()
    described["run"].pop("steps")
    key = json.dumps([type(world).__qualname__, world.spec.to_json(), described])
    if key not in _TRAINERS:
        _TRAINERS[key] = trainers.make_trainer(world, chosen)
    _TRAINERS[key].settings = chosen
    return _TRAINERS[key]


# --- reading runs ---


def log_rows(folder):
    """The rows of progress.csv without the one column that depends on the clock."""
    with (folder / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def newest_checkpoint(folder):
    """The path of the newest checkpoint of a run."""
    return checkpoint.newest_first(folder / "checkpoints")[0]


def assert_same_result(left, right):
    """Two runs have the same log rows and, bit for bit, the same last state and policies."""
    assert log_rows(left) == log_rows(right)
    states = [checkpoint.load(newest_checkpoint(folder)).arrays for folder in (left, right)]
    assert _differing(*states) == []
    names = [sorted(path.name for path in folder.glob("policy*")) for folder in (left, right)]
    assert names[0] == names[1] != []
    for name in names[0]:
        policies = [read_policy(folder / name)[1] for folder in (left, right)]
        assert _differing(*policies) == []


def _differing(left, right):
    assert left.keys() == right.keys()
    return [name for name in left if left[name].tobytes() != right[name].tobytes()]


# --- cores ---


def pytest_configure(config):
    """Each process of tests has a core of its own: JAX's threads would wait for each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker) % len(cores)]})


@pytest.fixture
def all_cores():
    """Lets a test use the cores of the machine, where a process of tests has one."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    yield
    os.sched_setaffinity(0, ours)


# --- tiers ---

#: Files of tests that train, start processes or simulate physics; `./test quick` leaves them out,
#: and all tests that need one of the shared runs.
LONGEST = {"test_quality", "test_terminal"}
END_TO_END = {
    "test_bench",
    "test_cli",
    "test_damage",
    "test_decisions",
    "test_downstream",
    "test_evaluate",
    "test_household_tasks",
    "test_info",
    "test_own_worlds",
    "test_parallel",
    "test_pretrain",
    "test_readme",
    "test_reproduce",
    "test_run_files",
    "test_skill_env",
    "test_terminal",
    "test_trainers",
    "test_walker",
    "test_wrapper",
}
SHARED_RUNS = {"gunner_run", "household_run", "task_run"}


def pytest_collection_modifyitems(items):
    # The longest come first, so that no process waits for one of them at the end.
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    for item in items:
        if item.path.stem in END_TO_END or SHARED_RUNS & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)
