"""DMC-Walker: dm_control's planar walker, many at a time.

The bodies, starts, control rate and observation are those of dm_control. Two entries are added: how
far the walker has come, and how fast its centre of mass moves, which dm_control's tasks reward.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.physics import PHYSICS_PRESET, PhysicsVector, load_mujoco, package_folder
from dusdi.types import Factor, WorldSpec

SUBSTEPS = 10  # of 2.5 ms, as in dm_control
STANDING = 1.3  # height of the torso when rootz is 0
ROOTZ, ROOTX, ROOTY = range(3)
X, Z, CENTRE_SPEED, TORSO_XX = 0, 1, 2, 5  # observation entries that tasks look at

#: The planar walker with the physics of dm_control's. Lengths are in metres, ranges in degrees.
#: Contacts are between the walker and the floor only.
MJCF = """
<mujoco model="walker">
  <option timestep="0.0025"/>
  <statistic extent="2" center="0 0 1"/>
  <visual>
    <headlight ambient=".4 .4 .4" diffuse=".8 .8 .8" specular=".1 .1 .1"/>
    <map znear=".01"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" width="256" height="1536"
             rgb1=".5 .7 .9" rgb2=".05 .08 .12"/>
    <texture name="tiles" type="2d" builtin="checker" mark="edge" width="300" height="300"
             rgb1=".1 .2 .3" rgb2=".2 .3 .4" markrgb=".2 .3 .4"/>
    <material name="tiles" texture="tiles" texuniform="true" reflectance=".2"/>
  </asset>
  <default>
    <geom type="capsule" conaffinity="0" friction=".7 .1 .1" rgba=".7 .5 .3 1"/>
    <joint axis="0 -1 0" damping=".1" armature=".01" solimplimit="0 .99 .01"/>
    <motor ctrlrange="-1 1"/>
    <default class="root">
      <joint damping="0" armature="0"/>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" conaffinity="1" size="0 .8 .2" material="tiles" rgba="1 1 1 1"/>
    <body name="torso" pos="0 0 1.3">
      <light pos="0 0 2" mode="trackcom"/>
      <camera name="side" pos="0 -2 .7" euler="60 0 0" mode="trackcom"/>
      <joint name="rootz" class="root" type="slide" axis="0 0 1"/>
      <joint name="rootx" class="root" type="slide" axis="1 0 0"/>
      <joint name="rooty" class="root" axis="0 1 0"/>
      <geom name="torso" size=".07" fromto="0 0 .3 0 0 -.3"/>
      {legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>
"""
LEG = """
<body name="{side}_thigh" pos="0 {y} -.3">
  <joint name="{side}_hip" range="-20 100"/>
  <geom name="{side}_thigh" size=".05" fromto="0 0 0 0 0 -.45"/>
  <body name="{side}_leg" pos="0 0 -.7">
    <joint name="{side}_knee" pos="0 0 .25" range="-150 0"/>
    <geom name="{side}_leg" size=".04" fromto="0 0 .25 0 0 -.25"/>
    <body name="{side}_foot" pos=".06 0 -.25">
      <joint name="{side}_ankle" pos="-.06 0 0" range="-45 45"/>
      <geom name="{side}_foot" size=".05" fromto=".1 0 0 -.1 0 0"/>
    </body>
  </body>
</body>
"""
SIDES = {"right": -0.05, "left": 0.05}  # and where their legs are along y
GEARS = {"hip": 100, "knee": 50, "ankle": 20}  # torques at full action, in newton metres


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
    #: A longer view than in other worlds, as it takes a while to get up, and larger batches than the household's. See
    #: docs/experiments.md.
    presets = {
        "fast": PHYSICS_PRESET
        | dict(
            steps=512_000,
            batch_size=192,
            actor_parts="whole",
            input_gain=0.0,
            discount=0.99,
            target_entropy=0.0,
        )
    }

    def check_installed(self):
        package_folder("mujoco", self.spec.name)

    @cached_property
    def model(self) -> Any:
        """The compiled walker."""
        legs = "".join(LEG.format(side=side, y=y) for side, y in SIDES.items())
        motors = "".join(
            f'<motor name="{side}_{joint}" joint="{side}_{joint}" gear="{gear}"/>'
            for side in SIDES
            for joint, gear in GEARS.items()
        )
        mujoco = load_mujoco(self.spec.name)
        return mujoco.MjModel.from_xml_string(MJCF.format(legs=legs, motors=motors))

    def vector(self, count: int) -> VectorWorld:
        return _Walkers(self.model, self.spec, count)


class _Walkers(PhysicsVector):
    camera = "side"

    def __init__(self, model: Any, spec: WorldSpec, count: int):
        super().__init__(model, spec, count, SUBSTEPS)
        self._chain, self._lever = planar_chain(model)

    def _starts(self):
        start = np.zeros((self._count, self._model.nq))
        start[:, ROOTY] = self._random.uniform(-np.pi, np.pi, self._count)
        low, high = self._model.jnt_range[ROOTY + 1 :].T
        start[:, ROOTY + 1 :] = self._random.uniform(low, high, (self._count, len(low)))
        return start

    def _control(self, actions):
        return actions

    def _observe(self):
        qpos, qvel = self._simulation.qpos, self._simulation.qvel
        pitch, rate = qpos[:, ROOTY:] @ self._chain, qvel[:, ROOTY:] @ self._chain
        cosine, sine = np.cos(pitch), np.sin(pitch)
        speed = qvel[:, ROOTX] + (
            rate * (cosine * self._lever[:, 1] - sine * self._lever[:, 0])
        ).sum(1)
        columns = [
            qpos[:, [ROOTX]],
            STANDING + qpos[:, [ROOTZ]],
            speed[:, None],
            qvel[:, [ROOTX, ROOTZ]],
            np.stack([cosine, sine], axis=-1).reshape(self._count, -1),
            qvel[:, ROOTY:],
        ]
        return np.concatenate(columns, axis=1).astype(np.float32)


def planar_chain(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """How hinges pitch bodies, and what that does to the centre of mass, of a tree of bodies with one hinge each in a plane.

    Returns:
      chain: [hinges, bodies], pitches of the bodies are angles @ chain.
      lever: [bodies, 2], x and z in each body's frame: the centre of mass is the root and the sum of these, pitched alike.
    """
    bodies = model.nbody - 1
    chain, lever = np.zeros((bodies, bodies)), np.zeros((bodies, 3))
    joint = model.body_jntadr[1:] + model.body_jntnum[1:] - 1  # the hinge is a body's last joint
    parent, hinge = model.body_parentid[1:] - 1, model.jnt_pos[joint]
    for body in range(bodies):
        chain[body, body] = model.jnt_axis[joint[body], 1]
        share, place, below = (
            model.body_mass[body + 1] / model.body_mass.sum(),
            model.body_ipos[body + 1],
            body,
        )
        while (
            below >= 0
        ):  # from the body's centre of mass to its hinge, from there to its parent's, and so on to the root
            lever[below] += share * (place - hinge[below])
            chain[below, body] = chain[below, below]
            place, below = model.body_pos[below + 1] + hinge[below], parent[below]
    return chain, lever[:, ::2]
