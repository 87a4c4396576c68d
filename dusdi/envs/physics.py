"""Many copies of a MuJoCo model at once: stepped by MuJoCo's own threads, looked at with NumPy.

`Simulation` holds the copies' positions and velocities, and `kinematics` says where that puts their bodies: as MuJoCo would
after each step, but for all copies together and without a step more.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from dusdi.errors import UsageError

HINGE, SLIDE = 3, 2  # MuJoCo's numbers of joint types


def package_folder(package: str, world: str) -> Path:
    """The folder of an installed package, without importing it, or a `UsageError` that says what to install."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise UsageError(
            f"the world {world!r} needs the package {package!r}, which is not installed: pip install 'dusdi[mujoco]'"
        )
    return Path(found.submodule_search_locations[0])


def load_mujoco(world: str) -> ModuleType:
    """MuJoCo, or a `UsageError`. Where there is no display, it is told to draw offscreen, which it wants to know beforehand."""
    package_folder("mujoco", world)
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl" if ctypes.util.find_library("EGL") else "osmesa")
    import mujoco

    return mujoco


class Simulation:
    """n copies of a model.

    Attributes:
      model: the `mujoco.MjModel`.
      qpos: positions of the joints, [n, nq]; writing to it moves the copies.
      qvel: velocities of the joints, [n, nv].
    """

    def __init__(self, model: Any, count: int, substeps: int):
        import mujoco
        from mujoco.rollout import Rollout

        self.model, self._substeps = model, substeps
        threads = min(count, len(os.sched_getaffinity(0)))
        self._pool = Rollout(nthread=threads if threads > 1 else 0)
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        self._state = np.zeros((count, size))
        self._path = np.zeros((count, substeps, size))
        self._sensors = np.zeros((count, substeps, model.nsensordata))
        start = 1  # after the time
        self.qpos = self._state[:, start : start + model.nq]
        self.qvel = self._state[:, start + model.nq : start + model.nq + model.nv]
        self._models = [model] * count

    def step(self, control: np.ndarray) -> None:
        """Applies controls [n, nu] for all substeps."""
        held = np.ascontiguousarray(np.broadcast_to(control[:, None], (len(control), self._substeps, control.shape[1])), float)
        options = {"nstep": self._substeps, "state": self._path, "sensordata": self._sensors, "skip_checks": True}
        self._state[:, 0] = 0.0  # time means nothing here, and episodes have no end as far as MuJoCo is concerned
        self._pool.rollout(self._models, self._data, self._state, held, **options)
        self._state[:] = self._path[:, -1]

    def close(self) -> None:
        self._pool.close()


class Bodies(NamedTuple):
    """Where the bodies of n copies are and how they move.

    Attributes:
      position: of their frames, [n, nbody, 3].
      rotation: of their frames, columns are the axes, [n, nbody, 3, 3].
      velocity: of their frames' origins, [n, nbody, 3].
      spin: their angular velocity, [n, nbody, 3].
    """

    position: np.ndarray
    rotation: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray


def kinematics(model: Any, qpos: np.ndarray, qvel: np.ndarray) -> Bodies:
    """The bodies of n copies with joint positions [n, nq] and velocities [n, nv]; for hinges and slides only."""
    count, bodies = len(qpos), model.nbody
    position, velocity, spin = (np.zeros((bodies, count, 3)) for _ in range(3))
    rotation = np.zeros((bodies, count, 3, 3))
    rotation[0] = np.eye(3)
    for body in range(1, bodies):
        parent = model.body_parentid[body]
        turn = rotation[parent]
        offset = turn @ model.body_pos[body]
        place, speed, rate = position[parent] + offset, velocity[parent] + np.cross(spin[parent], offset), spin[parent]
        turn = turn @ matrix_of(model.body_quat[body])
        for joint in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
            axis, moved, moving = turn @ model.jnt_axis[joint], qpos[:, joint] - model.qpos0[joint], qvel[:, joint, None]
            if model.jnt_type[joint] == SLIDE:
                place = place + axis * moved[:, None]
                speed = speed + axis * moving + np.cross(rate, axis * moved[:, None])
            else:
                assert model.jnt_type[joint] == HINGE
                arm = turn @ model.jnt_pos[joint]
                turn = turn @ turn_about(model.jnt_axis[joint], moved)
                back = turn @ model.jnt_pos[joint]
                speed = speed + np.cross(rate, arm)
                rate = rate + axis * moving
                speed = speed - np.cross(rate, back)
                place = place + arm - back
        position[body], rotation[body], velocity[body], spin[body] = place, turn, speed, rate
    return Bodies(*(x.swapaxes(0, 1) for x in (position, rotation, velocity, spin)))


def matrix_of(quaternion: np.ndarray) -> np.ndarray:
    """The rotation matrix of a unit quaternion (w, x, y, z)."""
    w, v = quaternion[0], quaternion[1:]
    return np.eye(3) + 2 * w * cross_matrix(v) + 2 * cross_matrix(v) @ cross_matrix(v)


def turn_about(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Rotations by angles [n] about a unit axis, [n, 3, 3] (Rodrigues)."""
    k = cross_matrix(axis)
    return np.eye(3) + np.sin(angle)[:, None, None] * k + (1 - np.cos(angle))[:, None, None] * (k @ k)


def cross_matrix(v: np.ndarray) -> np.ndarray:
    """The matrix that multiplies like the cross product with v."""
    return np.array([(0, -v[2], v[1]), (v[2], 0, -v[0]), (-v[1], v[0], 0)])
