"""Jobs in this process and side by side: order, failures, interrupts, and cores of their own.

Workers import this file, so it imports little.
"""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dusdi.errors import DusdiError, UsageError
from dusdi.messages import PACKAGE, plain_warnings
from dusdi.parallel import cores


class Node(NamedTuple):
    """As much of a job as an executor looks at."""

    name: str
    inputs: tuple = ()
    settings: Any = None

    @property
    def key(self):
        return self.name


def execute(nodes, work, count):
    from dusdi.experiments.executors import LocalExecutor

    return LocalExecutor(count).run(nodes, work)


# --- what workers do ---


def tell(node):
    time.sleep(0.5)  # so that both workers get something to do
    return os.getpid(), cores()


def refuse(node):
    if node.name == "bad":
        raise UsageError("bad is refused")
    return os.getpid()


def warn(node):
    message = f"{node.name} may be wrong"
    warnings.warn_explicit(message, UserWarning, str(PACKAGE / "somewhere.py"), lineno=7)


def die(node):
    os._exit(1)


def wait_for_file(node):
    """Sleeps until the file that a job waits for is there, then writes its own."""
    folder, after = node.settings
    assert await_(lambda: Path(folder, after).exists())
    Path(folder, node.name).touch()


def nap(node):
    """Sleeps until it is interrupted, and then says so in a file."""
    path = node.name
    try:
        Path(f"{path}.begun").touch()
        for _ in range(6000):  # a signal for another thread is seen at the next line of Python
            time.sleep(0.1)
    except KeyboardInterrupt:
        Path(path).touch()
        raise KeyboardInterrupt(f"saved {Path(path).name}") from None


# --- order and failures ---


def test_workers_have_cores_of_their_own(all_cores):
    outcomes = list(execute([Node(str(i)) for i in range(6)], tell, 2))
    assert sorted(outcome.job.name for outcome in outcomes) == list("012345")
    workers = {process: tuple(share) for process, share in (found.result for found in outcomes)}
    assert len(workers) == 2 and os.getpid() not in workers
    assert set().union(*workers.values()) <= set(cores())
    if len(cores()) >= 2:
        assert not set.intersection(*map(set, workers.values()))


@pytest.mark.parametrize("count", [1, 2])
def test_warnings_of_jobs_are_sentences_wherever_they_run(capfd, count):
    with plain_warnings():
        list(execute([Node("a"), Node("b")], warn, count))
    said = capfd.readouterr().err
    assert "dusdi: warning: a may be wrong\n" in said
    assert "dusdi: warning: b may be wrong\n" in said
    assert "somewhere.py" not in said


@pytest.mark.parametrize("count", [1, 2])
def test_when_a_job_fails_those_that_need_it_are_not_started_and_others_are(count):
    bad = Node("bad")
    needs = Node("needs bad", (bad,))
    nodes = [bad, needs, Node("needs that too", (needs,)), Node("good")]
    found = {outcome.job.name: outcome for outcome in execute(nodes, refuse, count)}
    assert set(found) == {"bad", "good"}
    assert isinstance(found["bad"].error, UsageError)
    assert str(found["bad"].error) == "bad is refused"
    assert found["good"].error is None
    assert (found["good"].result == os.getpid()) == (count == 1)


def test_there_is_no_barrier_between_skills_and_tasks(tmp_path):
    """The slow skills wait until the task of the quick skills is done."""
    (tmp_path / "start").touch()
    slow = Node("slow skills", settings=(tmp_path, "quick task"))
    quick = Node("quick skills", settings=(tmp_path, "start"))
    tasks = [
        Node("slow task", (slow,), (tmp_path, "slow skills")),
        Node("quick task", (quick,), (tmp_path, "quick skills")),
    ]
    outcomes = list(execute([slow, quick, *tasks], wait_for_file, 2))
    assert not any(outcome.error for outcome in outcomes)
    names = [outcome.job.name for outcome in outcomes]
    assert names == ["quick skills", "quick task", "slow skills", "slow task"]


def test_in_this_process_a_task_follows_its_skills():
    a = Node("a")
    b = Node("b")
    order = [a, Node("task a", (a,)), b, Node("task b", (b,))]
    assert [outcome.job for outcome in execute(order, refuse, 1)] == order


def test_an_interrupt_in_this_process_is_not_a_failure_of_the_job():
    def interrupt(node):
        raise KeyboardInterrupt("saved")

    with pytest.raises(KeyboardInterrupt, match="saved"):
        list(execute([Node("a"), Node("b")], interrupt, 1))


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(DusdiError, match="ended all of a sudden"):
        list(execute([Node("a"), Node("b"), Node("c")], die, 2))


# --- interrupts ---

PARENT = """
import signal, sys
from test_parallel import Node, execute, nap

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        list(execute([Node(f"{sys.argv[1]}/{i}") for i in range(5)], nap, 2))
    except KeyboardInterrupt as error:
        sys.exit(f"interrupted: {error}")
"""


def start_parent(folder):
    """Starts a process with two workers that sleep."""
    script = folder / "parent.py"
    script.write_text(PARENT)
    paths = [str(Path(__file__).parent), *(path or os.getcwd() for path in sys.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    parent = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert await_(lambda: len(list(folder.glob("*.begun"))) == 2)
    return parent


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_interrupts_reach_what_runs_and_nothing_more_is_begun(tmp_path):
    parent = start_parent(tmp_path)
    children = children_of(parent.pid)
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=60)
    assert said.startswith("interrupted: saved") and "Traceback" not in said
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["0", "0.begun", "1", "1.begun", "parent.py"]
    assert children and not any(map(is_running, children))


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_what_a_cluster_sends_to_every_process_interrupts_each_once(tmp_path):
    parent = start_parent(tmp_path)
    children = children_of(parent.pid)
    for process in (*children, parent.pid):
        os.kill(process, signal.SIGTERM)
    _, said = parent.communicate(timeout=60)
    assert said.startswith("interrupted: saved") and "Traceback" not in said
    assert {"0", "1"} <= {path.name for path in tmp_path.iterdir()}
    assert children and not any(map(is_running, children))


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_workers_do_not_outlive_their_parent(tmp_path):
    parent = start_parent(tmp_path)
    children = children_of(parent.pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert children and await_(lambda: not any(map(is_running, children)))


def await_(condition):
    until = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def children_of(pid):
    """Returns the workers of a process."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [
        child for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]


def is_running(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
