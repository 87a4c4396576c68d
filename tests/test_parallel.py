"""Work side by side: on cores of its own, in order, and never without its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dusdi.errors import UsageError
from dusdi.parallel import cores, side_by_side


def tell(number):
    return number, os.getpid(), cores()


def refuse(number):
    raise UsageError(f"{number} is refused")


def test_results_come_in_order_from_workers_with_cores_of_their_own():
    finished = []
    found = side_by_side(tell, [(i,) for i in range(6)], 2, finished.append)
    assert [number for number, _, _ in found] == list(range(6)) and sorted(finished) == list(range(6))
    workers = {worker: tuple(share) for _, worker, share in found}
    assert os.getpid() not in workers and set().union(*workers.values()) <= set(cores())
    if len(workers) == 2 and len(cores()) >= 2:
        assert not set.intersection(*map(set, workers.values()))


def test_what_fails_in_a_worker_fails_here():
    with pytest.raises(UsageError, match="7 is refused"):
        side_by_side(refuse, [(7,)], 2, lambda index: None)


PARENT = """
import time
from dusdi.parallel import side_by_side

if __name__ == "__main__":
    side_by_side(time.sleep, [(600,), (600,)], 2, print)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_workers_do_not_outlive_their_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    parent = subprocess.Popen([sys.executable, str(script)], env=environment)
    children = await_(lambda: children_of(parent.pid))
    time.sleep(5)  # until they have settled
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert await_(lambda: not any(map(is_running, children)))


def await_(condition):
    until = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def children_of(pid):
    """Workers among the children of a process, once there are two."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    workers = [child for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
    return workers if len(workers) == 2 else []


def is_running(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
