"""Many environments on one MuJoCo model, stepped by MuJoCo's own threads."""

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

#: Settings of preset `fast` for worlds with physics. Steps are expensive, so there are few of them,
#: with two updates for every 64, on batches so small that learning takes no longer than simulating.
PHYSICS_PRESET: dict[str, Any] = {
    "num_envs": 64,
    "steps_per_update": 32,
    "batch_size": 128,
}


def package_folder(package: str, world: str) -> Path:
    """The folder of an installed package, which is not imported.

    Raises a `UsageError` that says what to install if it is missing.
    """
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise UsageError(
            f"the world {world!r} needs the package {package!r}, which is not installed: "
            "pip install 'dusdi[mujoco]'"
        )
    return Path(found.submodule_search_locations[0])


def load_mujoco(world: str) -> ModuleType:
    """MuJoCo, or a `UsageError`."""
    package_folder("mujoco", world)
    choose_opengl()
    import mujoco

    return mujoco


class Simulation:
    """n simulations of a model; actuators and plugins with a state are not supported.

    Attributes:
      qpos: positions of the joints, [n, nq].
      qvel: velocities of the joints, [n, nv].
      sensors: the sensor readings in that state, [n, nsensordata].
    """

    def __init__(self, model: Any, num_envs: int, substeps: int):
        import mujoco
        from mujoco.rollout import Rollout

        threads = min(num_envs, len(cores()))
        self._pool = Rollout(nthread=threads if threads > 1 else 0)
        self._datas = [mujoco.MjData(model) for _ in range(threads)]
        self._model = model
        self._substeps = substeps
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        assert size == 1 + model.nq + model.nv  # the time comes first
        self._state = np.zeros((num_envs, size))
        self.qpos = self._state[:, 1 : 1 + model.nq]
        self.qvel = self._state[:, 1 + model.nq :]
        self.sensors = np.zeros((num_envs, model.nsensordata))

    def reset(self, mask: np.ndarray, qpos: np.ndarray) -> None:
        """Puts environments [n] at rest with their joints at qpos [n, nq]."""
        self.qpos[mask] = qpos[mask]
        self.qvel[mask] = 0.0
        no_control = np.zeros((int(mask.sum()), self._model.nu))
        _, sensors = self._roll_out(self._state[mask], no_control, 1)
        self.sensors[mask] = sensors[:, 0]

    def step(self, control: np.ndarray) -> None:
        """Applies controls [n, nu] for all substeps."""
        # MuJoCo reads sensors at the beginning of a step, so one more step reads those of the end.
        steps = self._substeps + (1 if self._model.nsensordata else 0)
        states, sensors = self._roll_out(self._state, control, steps)
        self._state[:] = states[:, self._substeps - 1]
        self.sensors[:] = sensors[:, -1]
        self._check_time()
        self._state[:, 0] = 0.0

    def _check_time(self) -> None:
        """Raises a `WorldError` if MuJoCo reset a simulation, which it does when one diverges.

        The only trace of it is that the time was reset, too.
        """
        expected = self._substeps * self._model.opt.timestep
        diverged = np.abs(self._state[:, 0] - expected) > 1e-9
        if diverged.any():
            raise WorldError(
                f"the physics of environment {np.flatnonzero(diverged)[0]} diverged: "
                "positions or velocities became huge"
            )

    def _roll_out(
        self, start: np.ndarray, control: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """States and sensors under a constant control from given states, [n, steps, ...]."""
        if not len(start):
            return np.zeros((0, steps, start.shape[1])), np.zeros((0, steps, self.sensors.shape[1]))
        shape = (len(control), steps, control.shape[1])
        controls = np.ascontiguousarray(np.broadcast_to(control[:, None], shape), float)
        return self._pool.rollout(self._model, self._datas, start, controls, nstep=steps)

    def close(self) -> None:
        self._pool.close()


class PhysicsVector(VectorWorld):
    """Environments of a world on MuJoCo.

    Subclasses define how episodes start, what actions do, what is observed and what the state is.
    """

    camera: str  # the camera of the model that takes the images

    def __init__(self, model: Any, num_envs: int, substeps: int):
        self._model = model
        self._num_envs = num_envs
        self._simulation = Simulation(model, num_envs, substeps)
        self._random = np.random.default_rng()
        self._camera: Camera | None = None

    @abc.abstractmethod
    def _draw_starts(self) -> np.ndarray:
        """Draws initial joint positions for all environments, [n, nq]."""

    @abc.abstractmethod
    def _control(self, actions: np.ndarray) -> np.ndarray:
        """The controls [n, nu] for actions [n, A] in [-1, 1]."""

    @abc.abstractmethod
    def _observe(self) -> np.ndarray:
        """The current observations [n, D]."""

    def _reset_memory(self, mask: np.ndarray) -> None:
        """Resets what a world remembers besides its joints, where `mask` is true."""

    def _update_memory(self) -> None:
        """Updates what a world remembers besides its joints, after a step."""

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._random = np.random.default_rng(seed)
        mask = np.ones(self._num_envs, bool) if mask is None else mask
        self._simulation.reset(mask, self._draw_starts())
        self._reset_memory(mask)
        return self._observe()

    def step(self, actions):
        self._simulation.step(self._control(np.clip(actions, -1.0, 1.0)))
        self._update_memory()
        never = np.zeros(self._num_envs, bool)
        return self._observe(), never, never.copy()

    def render(self, index=0):
        self._camera = self._camera or Camera(self._model, self.camera)
        return self._camera.picture(self._simulation.qpos[index], self._highlighted(index))

    def _highlighted(self, index: int) -> set[str]:
        """The names of the geoms that glow in an image of an environment."""
        return set()

    def close(self):
        self._simulation.close()
        if self._camera:
            self._camera.close()
