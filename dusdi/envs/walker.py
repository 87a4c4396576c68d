"""DMC-Walker: dm_control's planar walker, many at a time.

The bodies, starts, control rate and observation are those of dm_control. Two entries are added: how
far the walker has come, and how fast its centre of mass moves, which dm_control's tasks reward.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.physics import PHYSICS_PRESET, PhysicsVector, load_mujoco, package_folder
from dusdi.types import Factor, WorldSpec

SUBSTEPS = 10  # of 2.5 ms, as in dm_control
STANDING = 1.3  # height of the torso when rootz is 0
ROOTZ, ROOTX, ROOTY = range(3)  # joints

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
#: One actor, and a longer horizon than in other worlds, as it takes a while to get up.
POLICY_SETTINGS = {
    "additive_actor": False,
    "input_gain": 0.0,
    "discount": 0.99,
    "alpha": 0.05,
    "learn_alpha": True,
    "target_entropy": 0.0,
}


class Walker(HostWorld):
    """dm_control's planar walker.

    The observation is torso x, z (2), speed of the centre of mass along x and of the torso along x
    and z (3), the x of every body's x and z axes (14), and the rates of the torso's pitch and of
    the six joints (7).
    """

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
    presets = {"fast": {**PHYSICS_PRESET, "steps": 512_000, "batch_size": 192}}
    method_presets = {
        "fast": {
            # Position and velocity can't be independent, so the penalty is weak.
            "dusdi": {**POLICY_SETTINGS, "penalty_weight": 0.1},
            "diayn-mc": POLICY_SETTINGS,
        }
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

    def vector(self, num_envs: int) -> VectorWorld:
        return _WalkerVector(self.model, num_envs)


class WalkerState(NamedTuple):
    """What tasks read of walkers.

    Attributes:
      x: how far forward the torso is, [n] metres.
      height: of the torso, [n] metres.
      upright: the cosine of the torso's pitch, [n].
      centre_speed: speed of the centre of mass along x, [n] metres per second.
    """

    x: np.ndarray
    height: np.ndarray
    upright: np.ndarray
    centre_speed: np.ndarray


class _WalkerVector(PhysicsVector):
    camera = "side"

    def __init__(self, model: Any, num_envs: int):
        super().__init__(model, num_envs, SUBSTEPS)
        self._chain, self._lever = planar_chain(model)

    def _draw_starts(self):
        start = np.zeros((self._num_envs, self._model.nq))
        start[:, ROOTY] = self._random.uniform(-np.pi, np.pi, self._num_envs)
        low, high = self._model.jnt_range[ROOTY + 1 :].T
        start[:, ROOTY + 1 :] = self._random.uniform(low, high, (self._num_envs, len(low)))
        return start

    def _control(self, actions):
        return actions

    def _pitches(self) -> np.ndarray:
        """The pitch of every body, [n, bodies]."""
        return self._simulation.qpos[:, ROOTY:] @ self._chain

    def _centre_speed(self) -> np.ndarray:
        """Speed of the centre of mass along x, [n]."""
        pitch = self._pitches()
        rate = self._simulation.qvel[:, ROOTY:] @ self._chain
        swing = np.cos(pitch) * self._lever[:, 1] - np.sin(pitch) * self._lever[:, 0]
        return self._simulation.qvel[:, ROOTX] + (rate * swing).sum(1)

    def state(self):
        qpos = self._simulation.qpos
        return WalkerState(
            x=qpos[:, ROOTX].copy(),
            height=STANDING + qpos[:, ROOTZ],
            upright=np.cos(self._pitches()[:, 0]),
            centre_speed=self._centre_speed(),
        )

    def _observe(self):
        qpos = self._simulation.qpos
        qvel = self._simulation.qvel
        pitch = self._pitches()
        axes = np.stack([np.cos(pitch), np.sin(pitch)], axis=-1)
        columns = [
            qpos[:, [ROOTX]],
            STANDING + qpos[:, [ROOTZ]],
            self._centre_speed()[:, None],
            qvel[:, [ROOTX, ROOTZ]],
            axes.reshape(self._num_envs, -1),
            qvel[:, ROOTY:],
        ]
        return np.concatenate(columns, axis=1).astype(np.float32)


def planar_chain(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """How hinges pitch bodies, and what that does to the centre of mass.

    It is for a tree of bodies in a plane with one hinge each.

    Returns:
      chain: [hinges, bodies], pitches of the bodies are angles @ chain.
      lever: [bodies, 2], x and z in each body's frame: the centre of mass is the root plus the sum
        of these, each pitched like its body.
    """
    bodies = model.nbody - 1
    chain = np.zeros((bodies, bodies))
    lever = np.zeros((bodies, 3))
    joint = model.body_jntadr[1:] + model.body_jntnum[1:] - 1  # the hinge is a body's last joint
    hinge = model.jnt_pos[joint]
    for body in range(bodies):
        chain[body, body] = model.jnt_axis[joint[body], 1]
        share = model.body_mass[body + 1] / model.body_mass.sum()
        place = model.body_ipos[body + 1]
        # From the body's centre of mass to its hinge, then to its parent's, and on to the root.
        ancestor = body
        while ancestor >= 0:
            lever[ancestor] += share * (place - hinge[ancestor])
            chain[ancestor, body] = chain[ancestor, ancestor]
            place = model.body_pos[ancestor + 1] + hinge[ancestor]
            ancestor = model.body_parentid[ancestor + 1] - 1
    return chain, lever[:, ::2]
