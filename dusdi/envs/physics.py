"""Many copies of a MuJoCo model at once, stepped by MuJoCo's own threads."""

from __future__ import annotations

import abc
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dusdi.envs.base import VectorWorld
from dusdi.envs.pictures import Camera, choose_opengl
from dusdi.errors import UsageError, WorldError
from dusdi.parallel import cores
from dusdi.types import WorldSpec

#: What worlds with physics want of preset `fast`: steps are dear, so there are few of them and two updates for every 64, on
#: batches so small that learning takes no longer than simulating. The rest is as in 2D Gunner. See docs/experiments.md.
PHYSICS_PRESET: dict[str, Any] = dict(
    num_envs=64,
    steps_per_update=32,
    batch_size=128,
    rbf_on="categorical",
    discriminator_lr=5e-3,
    penalty_hidden=(64, 64),
    penalty_lr=5e-4,
    alpha=0.05,
    learn_alpha=True,
)


def package_folder(package: str, world: str) -> Path:
    """The folder of an installed package, without importing it, or a `UsageError` that says what to install."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise UsageError(
            f"the world {world!r} needs the package {package!r}, which is not installed: pip install 'dusdi[mujoco]'"
        )
    return Path(found.submodule_search_locations[0])


def load_mujoco(world: str) -> ModuleType:
    """MuJoCo, or a `UsageError`."""
    package_folder("mujoco", world)
    choose_opengl()
    import mujoco

    return mujoco


class Simulation:
    """n copies of a model, without memory of their own: actuators and plugins with a state are not supported.

    Attributes:
      qpos: positions of the joints, [n, nq].
      qvel: velocities of the joints, [n, nv].
      sensors: what the model's sensors say in that state, [n, nsensordata].
    """

    def __init__(self, model: Any, count: int, substeps: int):
        import mujoco
        from mujoco.rollout import Rollout

        threads = min(count, len(cores()))
        self._pool = Rollout(nthread=threads if threads > 1 else 0)
        self._datas = [mujoco.MjData(model) for _ in range(threads)]
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        assert size == 1 + model.nq + model.nv
        self._model, self._substeps = model, substeps
        self._state, self.sensors = np.zeros((count, size)), np.zeros((count, model.nsensordata))
        self.qpos, self.qvel = (
            self._state[:, 1 : 1 + model.nq],
            self._state[:, 1 + model.nq :],
        )  # after the time

    def place(self, mask: np.ndarray, qpos: np.ndarray) -> None:
        """Puts copies [n] at rest with their joints at qpos [n, nq]."""
        self.qpos[mask], self.qvel[mask] = qpos[mask], 0.0
        _, sensors = self._roll_out(
            self._state[mask], np.zeros((int(mask.sum()), self._model.nu)), 1
        )
        self.sensors[mask] = sensors[:, 0]

    def step(self, control: np.ndarray) -> None:
        """Applies controls [n, nu] for all substeps."""
        # MuJoCo reads its sensors at the beginning of a step, so one more is made if there are any, of which only that is wanted.
        states, sensors = self._roll_out(
            self._state, control, self._substeps + (self._model.nsensordata > 0)
        )
        self._state[:], self.sensors[:] = states[:, self._substeps - 1], sensors[:, -1]
        # MuJoCo starts a copy anew when its numbers get out of hand, the time too, and says so nowhere else that lasts.
        lost = np.abs(self._state[:, 0] - self._substeps * self._model.opt.timestep) > 1e-9
        if lost.any():
            raise WorldError(
                f"the physics of copy {np.flatnonzero(lost)[0]} got out of hand: positions or velocities were huge"
            )
        self._state[:, 0] = 0.0

    def _roll_out(
        self, start: np.ndarray, control: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """States and sensors of copies that start somewhere and are controlled all along, [n, steps, ...]."""
        if not len(start):
            return np.zeros((0, steps, start.shape[1])), np.zeros((0, steps, self.sensors.shape[1]))
        held = np.broadcast_to(control[:, None], (len(control), steps, control.shape[1]))
        return self._pool.rollout(
            self._model, self._datas, start, np.ascontiguousarray(held, float), nstep=steps
        )

    def close(self) -> None:
        self._pool.close()


class PhysicsVector(VectorWorld):
    """Copies of a world on MuJoCo. Each world says how episodes start, what actions do to the motors, and what is observed."""

    camera: str  # of the model, that pictures are taken with

    def __init__(self, model: Any, spec: WorldSpec, count: int, substeps: int):
        self._model, self._spec, self._count = model, spec, count
        self._simulation = Simulation(model, count, substeps)
        self._random = np.random.default_rng()
        self._age = np.zeros(count, int)
        self._camera: Camera | None = None

    @abc.abstractmethod
    def _starts(self) -> np.ndarray:
        """Where the joints of all copies are if their episodes begin now, [n, nq]."""

    @abc.abstractmethod
    def _control(self, actions: np.ndarray) -> np.ndarray:
        """What actions [n, A] in [-1, 1] tell the motors, [n, nu]."""

    @abc.abstractmethod
    def _observe(self) -> np.ndarray:
        """Observations [n, D] as they are now."""

    def _begin(self, mask: np.ndarray) -> None:
        """For worlds that know more than their joints: new episodes begin where `mask`."""

    def _move_on(self) -> None:
        """For worlds that know more than their joints: a step was made."""

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._random = np.random.default_rng(seed)
        mask = np.ones(self._count, bool) if mask is None else mask
        self._simulation.place(mask, self._starts())
        self._age[mask] = 0
        self._begin(mask)
        return self._observe()

    def step(self, actions):
        self._simulation.step(self._control(np.clip(actions, -1.0, 1.0)))
        self._age += 1
        self._move_on()
        return self._observe(), np.zeros(self._count, bool), self._age >= self._spec.episode_length

    def render(self, index=0):
        self._camera = self._camera or Camera(self._model, self.camera)
        return self._camera.picture(self._simulation.qpos[index], self._lit(index))

    def _lit(self, index: int) -> set[str]:
        """The names of the geoms that glow in a picture of a copy."""
        return set()

    def close(self):
        self._simulation.close()
        if self._camera:
            self._camera.close()
