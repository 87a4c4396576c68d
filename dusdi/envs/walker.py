"""DMC-Walker: dm_control's planar walker, many at a time.

Model, starts, control rate and observation are dm_control's. Two entries are added: how far the walker has come, and how fast
its centre of mass moves, which is what dm_control's tasks pay for.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.physics import Simulation, kinematics, load_mujoco, package_folder
from dusdi.envs.pictures import Camera
from dusdi.types import Factor, WorldSpec

SUBSTEPS = 10  # of 2.5 ms, as in dm_control
STANDING = 1.3  # height of the torso when rootz is 0
ROOTZ, ROOTX, ROOTY = range(3)
X, Z, CENTRE_SPEED, TORSO_XX = 0, 1, 2, 5  # observation entries that tasks look at


class Walker(HostWorld):
    """The observation is torso x, z (2), speed of the centre of mass along x and of the torso along x and z (3), the x and z of
    every body's x axis (14), and the rates of the torso's pitch and of the six joints (7)."""

    spec = WorldSpec(
        name="walker",
        options={},
        observation_size=26,
        action_size=6,
        factors=(
            Factor("body position", (0, 1)),
            Factor("body velocity", (2, 3, 4)),
            Factor("proprioception", tuple(range(5, 26)), controlled=False),
        ),
        episode_length=1000,
    )

    @cached_property
    def model(self) -> Any:
        """The walker as dm_control ships it."""
        folder = package_folder("dm_control", self.spec.name)
        return load_mujoco(self.spec.name).MjModel.from_xml_path(str(folder / "suite" / "walker.xml"))

    def vector(self, count: int) -> VectorWorld:
        return _Walkers(self.model, self.spec, count)


class _Walkers(VectorWorld):
    def __init__(self, model: Any, spec: WorldSpec, count: int):
        self._model, self._spec, self._count = model, spec, count
        self._simulation = Simulation(model, count, SUBSTEPS)
        self._random = np.random.default_rng()
        self._age = np.zeros(count, int)
        self._camera: Camera | None = None

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._random = np.random.default_rng(seed)
        mask = np.ones(self._count, bool) if mask is None else mask
        start = np.zeros((self._count, self._model.nq))
        start[:, ROOTY] = self._random.uniform(-np.pi, np.pi, self._count)
        low, high = self._model.jnt_range[ROOTY + 1 :].T
        start[:, ROOTY + 1 :] = self._random.uniform(low, high, (self._count, len(low)))
        self._simulation.qpos[mask] = start[mask]
        self._simulation.qvel[mask] = 0.0
        self._age[mask] = 0
        return self._observe()

    def step(self, actions):
        self._simulation.step(np.clip(actions, -1.0, 1.0))
        self._age += 1
        return self._observe(), np.zeros(self._count, bool), self._age >= self._spec.episode_length

    def _observe(self) -> np.ndarray:
        qpos, qvel = self._simulation.qpos, self._simulation.qvel
        bodies = kinematics(self._model, qpos, qvel)
        # momentum over mass: each body's centre moves with its frame, and turns about it
        mass, centre = self._model.body_mass, (bodies.rotation @ self._model.body_ipos[..., None])[..., 0]
        along_x = bodies.velocity[..., 0] + bodies.spin[..., 1] * centre[..., 2] - bodies.spin[..., 2] * centre[..., 1]
        speed = along_x @ mass / mass.sum()
        columns = [
            qpos[:, [ROOTX]],
            STANDING + qpos[:, [ROOTZ]],
            speed[:, None],
            qvel[:, [ROOTX, ROOTZ]],
            bodies.rotation[:, 1:, 0, ::2].reshape(self._count, -1),  # x row: its entries for the x and z axes
            qvel[:, ROOTY:],
        ]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def render(self, index=0):
        self._camera = self._camera or Camera(self._model, "side")
        return self._camera.picture(self._simulation.qpos[index])

    def close(self):
        self._simulation.close()
        if self._camera:
            self._camera.close()
