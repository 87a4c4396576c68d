"""DMC-Walker: dm_control's planar walker, many at a time.

Model, starts, control rate and observation are dm_control's. Two entries are added: how far the walker has come, and how fast
its centre of mass moves, which is what dm_control's tasks pay for.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.physics import PhysicsVector, load_mujoco, package_folder
from dusdi.types import Factor, WorldSpec

SUBSTEPS = 10  # of 2.5 ms, as in dm_control
STANDING = 1.3  # height of the torso when rootz is 0
ROOTZ, ROOTX, ROOTY = range(3)
X, Z, CENTRE_SPEED, TORSO_XX = 0, 1, 2, 5  # observation entries that tasks look at


class Walker(HostWorld):
    """The observation is torso x, z (2), speed of the centre of mass along x and of the torso along x and z (3), the x of every
    body's x and z axes (14), and the rates of the torso's pitch and of the six joints (7)."""

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

    def check_installed(self):
        for package in ("mujoco", "dm_control"):
            package_folder(package, self.spec.name)

    @cached_property
    def model(self) -> Any:
        """The walker as dm_control ships it, with sensors for what it observes."""
        mujoco, folder = load_mujoco(self.spec.name), package_folder("dm_control", self.spec.name)
        spec = mujoco.MjSpec.from_file(str(folder / "suite" / "walker.xml"))
        for body in spec.bodies[1:]:
            axis, kind = mujoco.mjtSensor.mjSENS_FRAMEXAXIS, mujoco.mjtObj.mjOBJ_XBODY
            spec.add_sensor(name=body.name, type=axis, objtype=kind, objname=body.name)
        return spec.compile()

    def vector(self, count: int) -> VectorWorld:
        return _Walkers(self.model, self.spec, count, SUBSTEPS)


class _Walkers(PhysicsVector):
    camera = "side"

    def _starts(self):
        start = np.zeros((self._count, self._model.nq))
        start[:, ROOTY] = self._random.uniform(-np.pi, np.pi, self._count)
        low, high = self._model.jnt_range[ROOTY + 1 :].T
        start[:, ROOTY + 1 :] = self._random.uniform(low, high, (self._count, len(low)))
        return start

    def _control(self, actions):
        return actions

    def _observe(self):
        qpos, qvel, sensors = self._simulation.qpos, self._simulation.qvel, self._simulation.sensors
        axes = sensors[:, 3:].reshape(self._count, -1, 3)  # the x axis of each body
        columns = [
            qpos[:, [ROOTX]],
            STANDING + qpos[:, [ROOTZ]],
            sensors[:, :1],
            qvel[:, [ROOTX, ROOTZ]],
            np.stack([axes[..., 0], -axes[..., 2]], axis=-1).reshape(self._count, -1),
            qvel[:, ROOTY:],
        ]
        return np.concatenate(columns, axis=1).astype(np.float32)
