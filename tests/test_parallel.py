"""Work side by side: on cores of its own, in order, and never without its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dusdi.errors import DusdiError, UsageError
from dusdi.parallel import cores, side_by_side


def tell(number):
    time.sleep(0.5)  # so that both workers get something to do
    return number, os.getpid(), cores()


def refuse(number):
    raise UsageError(f"{number} is refused")


def die(number):
    os._exit(1)


def nap(path):
    """Sleeps until it is interrupted, and then says so in a file."""
    try:
        Path(f"{path}.begun").touch()
        for _ in range(
            6000
        ):  # a signal that another thread gets is heard by the next line of Python
            time.sleep(0.1)
    except KeyboardInterrupt:
        Path(path).touch()
        raise KeyboardInterrupt(f"saved {Path(path).name}") from None


def test_results_come_in_order_from_workers_with_cores_of_their_own():
    finished = []
    found = side_by_side(tell, [(i,) for i in range(6)], 2, finished.append)
    assert [number for number, _, _ in found] == list(range(6)) and sorted(finished) == list(
        range(6)
    )
    workers = {worker: tuple(share) for _, worker, share in found}
    assert os.getpid() not in workers and set().union(*workers.values()) <= set(cores())
    assert len(workers) == 2
    if len(cores()) >= 2:
        assert not set.intersection(*map(set, workers.values()))


def test_what_fails_in_a_worker_fails_here():
    with pytest.raises(UsageError, match="7 is refused"):
        side_by_side(refuse, [(7,)], 2, lambda index: None)


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(DusdiError, match="ended all of a sudden"):
        side_by_side(die, [(0,), (1,), (2,)], 2, lambda index: None)


PARENT = """
import signal, sys
from test_parallel import nap
from dusdi.parallel import side_by_side

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        side_by_side(nap, [(f"{sys.argv[1]}/{i}",) for i in range(5)], 2, print)
    except KeyboardInterrupt as error:
        sys.exit(f"interrupted: {error}")
"""


def start_parent(folder):
    """A process with two workers that sleep."""
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
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0",
        "0.begun",
        "1",
        "1.begun",
        "parent.py",
    ]
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
        time.sleep(0.1)
    return found


def children_of(pid):
    """The workers of a process."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [
        child for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]


def is_running(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
