"""Household: a Fetch robot in a living room, with appliances to switch and things to look at.

The paper uses iGibson, whose assets no package registry has; this is the same kind of world on
MuJoCo, with the Fetch model of gymnasium-robotics (see `household_model`). The robot drives, looks
around and points a remote control, all at once.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.canvas import INK, Canvas, fade
from dusdi.envs.household_model import (
    APPLIANCES,
    ARM,
    BASE,
    FLOOR,
    FURNITURE,
    HEAD,
    LIFT,
    OBJECTS,
    ROOM,
    SERVOS,
    SUBSTEPS,
    build_model,
)  # fmt: skip
from dusdi.envs.physics import PHYSICS_PRESET, PhysicsVector, package_folder
from dusdi.types import Factor, WorldSpec

# Metres, radians, seconds.
SPEED = 1.2  # of the base, at full action
TURN_RATE = 2.5  # of the base, at full action
# Lowest and highest x, y and heading to start from: the arm touches nothing there.
START = ((-1.0, -1.0, -np.pi), (1.3, 1.2, np.pi))
VIEW = 0.4  # half angle of the cone in which the head camera sees
BEAM = 0.5  # half angle of the remote control's beam
RANGE = 6.0  # of the remote control
PRESSED = 0.035  # the remote control sends while the gripper is closed farther than this
AFTERGLOW = 2  # steps for which an appliance keeps running without a signal
#: Which appliance runs is found by chance at first, so the policy is kept random enough.
POLICY_SETTINGS = {"alpha": 0.05, "learn_alpha": True, "target_entropy": -0.3}

#: Action entries; the first two drive.
HEAD_ACTION = slice(2, 4)
ARM_ACTION = slice(4, 10)
GRIPPER_ACTION = 10

APPLIANCE_PLACES = np.array([thing.place for thing in APPLIANCES])
OBJECT_PLACES = np.array([thing.place for thing in OBJECTS])
FURNITURE_MIDDLES = np.array([piece.middle for piece in FURNITURE])
FURNITURE_HALVES = np.array([piece.half for piece in FURNITURE])


class HouseholdState(NamedTuple):
    """What tasks, the scripted expert and maps read.

    Attributes:
      position: x and y of the base, [n, 2].
      heading: where the robot faces, counter-clockwise from east, [n].
      running: which appliances run, bool [n, 4].
      in_view: which objects are in view, bool [n, 3].
      opening: how far the gripper is open, [n] metres.
      remote: the remote control as seen from the base: ahead, to the left, up, [n, 3].
      pointing: the direction in which the remote control points, [n, 3].
      looking: the direction in which the head camera looks, [n, 3].
    """

    position: np.ndarray
    heading: np.ndarray
    running: np.ndarray
    in_view: np.ndarray
    opening: np.ndarray
    remote: np.ndarray
    pointing: np.ndarray
    looking: np.ndarray


class Household(HostWorld):
    """A robot in a living room.

    The observation is where the robot is (x, y, and how far its torso is lifted, which is fixed),
    which appliances run (4), which objects are in view (3), and proprioception (32): sine and
    cosine of the heading, the base's speeds, joint positions and velocities of head, arm and
    gripper, the remote control's place relative to the base, where it points, and where the camera
    looks.

    The action is speed and turning rate of the base (2) and where to move head (2), arm (6) and
    gripper (1).

    Args:
      view: the image that is rendered: "room" and "head" (what the robot sees) need OpenGL, "map"
        does not.
    """

    spec = WorldSpec(
        name="household",
        options={},
        observation_size=42,
        action_size=11,
        factors=(
            Factor("agent location", tuple(range(3))),
            Factor("electric appliances", tuple(range(3, 7))),
            Factor("objects in view", tuple(range(7, 10))),
            Factor("proprioception", tuple(range(10, 42)), controlled=False),
        ),
        episode_length=1000,
    )
    views = ("room", "head", "map")
    presets = {"fast": PHYSICS_PRESET}
    method_presets = {"fast": {"dusdi": POLICY_SETTINGS, "diayn-mc": POLICY_SETTINGS}}
    published_dci = {"dusdi": (0.833, 0.834, 0.854), "diayn-mc": (0.017, 0.019, 0.752)}
    published_note = "The paper's figures are for iGibson, a world of the same kind."

    def __init__(self, view: str = "room"):
        self.choose_view(view)

    def check_installed(self):
        for package in ("mujoco", "gymnasium_robotics"):
            package_folder(package, self.spec.name)

    @cached_property
    def model(self) -> Any:
        """The robot in its room."""
        return build_model(self.spec.name)

    def vector(self, num_envs: int) -> VectorWorld:
        return _HouseholdVector(self.model, num_envs, self.view)

    def expert(self, state, skill):
        """Drives to a corner or the middle, points at an appliance, looks at an object, or not."""
        action = np.zeros((len(skill), self.spec.action_size), np.float32)
        action[:, :2] = drive_to(state, EXPERT_PLACES[skill[:, 0]])
        action[:, ARM_ACTION], action[:, GRIPPER_ACTION] = point_at(state, skill[:, 1])
        action[:, HEAD_ACTION] = look_at(state, skill[:, 2])
        return np.clip(action, -1.0, 1.0)


# --- what is pointed at and what is in view ---


def angle_to(origin: np.ndarray, direction: np.ndarray, things: np.ndarray) -> np.ndarray:
    """Angles [n, m] between a direction [n, 3] and the ways from an origin [n, 3] to things."""
    way = things - origin[:, None]
    cosine = np.einsum("nmd,nd->nm", way, direction) / np.linalg.norm(way, axis=-1)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def is_hidden(origin: np.ndarray, things: np.ndarray) -> np.ndarray:
    """Whether furniture is between an origin [n, 3] and each of the things [m, 3], bool [n, m]."""
    way = (things - origin[:, None])[:, :, None]  # [n, m, pieces, 3]
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)
    to_middle = (FURNITURE_MIDDLES - origin[:, None])[:, None]
    half = FURNITURE_HALVES * np.sign(way)
    # A ray enters and leaves a piece of furniture at these shares of its way.
    enters = ((to_middle - half) / way).max(-1)
    leaves = ((to_middle + half) / way).min(-1)
    return ((enters < leaves) & (leaves > 0) & (enters < 1)).any(-1)


def find_signalled(origin: np.ndarray, direction: np.ndarray, pressed: np.ndarray) -> np.ndarray:
    """Which appliance receives the remote control's signal, bool [n, 4].

    It is the one nearest to the middle of the beam, unless that is too far away or hidden.
    """
    angle = angle_to(origin, direction, APPLIANCE_PLACES)
    far = np.linalg.norm(APPLIANCE_PLACES - origin[:, None], axis=-1) > RANGE
    angle = np.where(far | is_hidden(origin, APPLIANCE_PLACES), np.inf, angle)
    return (angle < BEAM) & (angle == angle.min(1, keepdims=True)) & pressed[:, None]


def find_in_view(origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Which objects are in the camera's cone and not behind furniture, bool [n, 3]."""
    inside = angle_to(origin, direction, OBJECT_PLACES) < VIEW
    return inside & ~is_hidden(origin, OBJECT_PLACES)


# --- many households ---


class _HouseholdVector(PhysicsVector):
    def __init__(self, model: Any, num_envs: int, view: str):
        super().__init__(model, num_envs, SUBSTEPS)
        self._view = view
        self.camera = "head_camera_rgb" if view == "head" else "room"
        # Steps for which each appliance keeps running.
        self._afterglow = np.zeros((num_envs, len(APPLIANCES)), int)
        self._servos = np.array([model.joint(f"robot0:{name}_joint").qposadr[0] for name in SERVOS])
        self._rest, self._reach = np.array(list(SERVOS.values())).T
        self._base = np.array([model.joint(name).qposadr[0] for name in BASE])

    def _draw_starts(self):
        start = np.zeros((self._num_envs, self._model.nq))
        start[:, self._base] = self._random.uniform(*START, (self._num_envs, 3))
        offset = self._random.uniform(-0.3, 0.3, (self._num_envs, len(self._servos)))
        start[:, self._servos] = self._rest + self._reach * offset
        return start

    def _reset_memory(self, mask):
        self._afterglow[mask] = 0
        self._state = self._read_state()

    def _control(self, actions):
        no_slip = np.zeros(self._num_envs)
        wheels = np.stack([SPEED * actions[:, 0], no_slip, TURN_RATE * actions[:, 1]], axis=1)
        servos = np.concatenate([actions[:, 2:], actions[:, -1:]], axis=1)  # both fingers alike
        return np.concatenate([wheels, self._rest + self._reach * servos], axis=1)

    def _update_memory(self):
        remote, pointing, _, _ = self._sites()
        signalled = find_signalled(remote, pointing, self._opening() < PRESSED)
        self._afterglow = np.where(signalled, AFTERGLOW + 1, np.maximum(self._afterglow - 1, 0))
        self._state = self._read_state()

    def _sites(self) -> np.ndarray:
        """Where the remote is, where it points, where the eye is, where it looks, [4, n, 3]."""
        return self._simulation.sensors.reshape(self._num_envs, 4, 3).swapaxes(0, 1)

    def _opening(self) -> np.ndarray:
        return self._simulation.qpos[:, self._servos[-2:]].mean(1)

    def _read_state(self) -> HouseholdState:
        qpos = self._simulation.qpos
        remote, pointing, eye, looking = self._sites()
        position = qpos[:, self._base[:2]]
        heading = qpos[:, self._base[2]]
        ahead, left = rotate_to_robot(remote[:, :2] - position, heading)
        return HouseholdState(
            position=position,
            heading=heading.copy(),
            running=self._afterglow > 0,
            in_view=find_in_view(eye, looking),
            opening=self._opening(),
            remote=np.stack([ahead, left, remote[:, 2]], axis=1),
            pointing=pointing.copy(),
            looking=looking.copy(),
        )

    def state(self):
        return self._state

    def _observe(self):
        qpos = self._simulation.qpos
        qvel = self._simulation.qvel
        state = self._state
        columns = [
            state.position,
            np.full(self._num_envs, LIFT),
            state.running,
            state.in_view,
            np.sin(state.heading),
            np.cos(state.heading),
            *rotate_to_robot(qvel[:, self._base[:2]], state.heading),
            qvel[:, self._base[2]],
            qpos[:, self._servos[:-2]],
            qvel[:, self._servos[:-2]],
            state.opening,
            qvel[:, self._servos[-2:]].mean(1),
            state.remote,
            state.pointing,
            state.looking,
        ]
        rows = [np.reshape(column, (self._num_envs, -1)) for column in columns]
        return np.concatenate(rows, axis=1).astype(np.float32)

    def _highlighted(self, index):
        lit = np.append(self._state.running[index], self._state.in_view[index])
        return {thing.name for thing, on in zip((*APPLIANCES, *OBJECTS), lit, strict=True) if on}

    def render(self, index=0):
        if self._view == "map":
            return draw_map(HouseholdState(*(part[index] for part in self._state)))
        return super().render(index)


def rotate_to_robot(vector: np.ndarray, heading: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [n, 2] of the room as the robot sees them: how far ahead, how far to the left."""
    cosine = np.cos(heading)
    sine = np.sin(heading)
    return vector[:, 0] * cosine + vector[:, 1] * sine, vector[:, 1] * cosine - vector[:, 0] * sine


# --- the scripted expert ---

EXPERT_PLACES = np.array([(-1.4, -1.0), (1.4, -1.0), (-1.4, 0.7), (1.4, 0.7), (0.0, -0.2)])
SHOULDER = np.array([0.0326, 0.0, 0.726 + 0.06 + LIFT])  # the arm's first joint, from the base
HEAD_JOINT = np.array([-0.0338, 0.0, 1.06 + LIFT])


def drive_to(state: HouseholdState, place: np.ndarray) -> np.ndarray:
    """Speed and turn [n, 2] of a base that goes to a place [n, 2] and then faces north.

    It goes backwards if that is shorter.
    """
    way = place - state.position
    distance = np.linalg.norm(way, axis=1)
    ahead = wrap_angle(np.arctan2(way[:, 1], way[:, 0]) - state.heading)
    backwards = np.abs(ahead) > np.pi / 2
    error = np.where(backwards, wrap_angle(ahead + np.pi), ahead)
    slow_down = np.maximum(np.cos(error) ** 3, 0)
    speed = np.where(backwards, -1, 1) * np.minimum(2.5 * distance, SPEED) * slow_down
    there = distance < 0.12
    turn = np.where(there, wrap_angle(np.pi / 2 - state.heading), error)
    return np.stack([np.where(there, 0.0, speed) / SPEED, 4.0 * turn / TURN_RATE], axis=1)


def point_at(state: HouseholdState, appliance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arm [n, 6] and gripper [n] that point the remote control at an appliance [n].

    If there is no such appliance, the gripper opens and releases the button.
    """
    none = appliance >= len(APPLIANCES)
    target = APPLIANCE_PLACES[np.where(none, 0, appliance)]
    bearing, _, _ = bearing_from(state, SHOULDER, target)
    to_target = np.linalg.norm(target[:, :2] - state.position, axis=1)
    level = to_target - np.linalg.norm(state.remote[:, :2], axis=1)
    downwards = np.arctan2(state.remote[:, 2] - target[:, 2], np.maximum(level, 0.1))
    rest, reach = np.array(list(ARM.values())).T
    arm = np.zeros((len(appliance), len(ARM)))
    arm[:, 0] = (bearing - rest[0]) / reach[0]
    arm[:, 5] = (downwards - rest[1] - rest[3] - rest[5]) / reach[5]  # the pitches add up
    return arm, np.where(none, 1.0, -1.0)


def look_at(state: HouseholdState, thing: np.ndarray) -> np.ndarray:
    """Head [n, 2] that looks at an object [n], or at the floor if there is no such object."""
    none = thing >= len(OBJECTS)
    target = OBJECT_PLACES[np.where(none, 0, thing)]
    bearing, distance, height = bearing_from(state, HEAD_JOINT, target)
    tilt = np.where(none, 1.0, np.arctan2(-height, distance))
    rest, reach = np.array(list(HEAD.values())).T
    return (np.stack([bearing, tilt], axis=1) - rest) / reach


def bearing_from(
    state: HouseholdState, joint: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bearing [n] of a target [n, 3] from a joint of the body, its distance [n] and height [n].

    The bearing is relative to the heading, the height to the joint.
    """
    forward = np.stack([np.cos(state.heading), np.sin(state.heading)], axis=1)
    way = target[:, :2] - state.position - joint[0] * forward
    bearing = wrap_angle(np.arctan2(way[:, 1], way[:, 0]) - state.heading)
    return bearing, np.linalg.norm(way, axis=1), target[:, 2] - joint[2]


def wrap_angle(angle: np.ndarray) -> np.ndarray:
    """An angle in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


# --- a picture without OpenGL ---


def draw_map(state: HouseholdState) -> np.ndarray:
    """The room from above, for one state: the robot, what runs, what is seen and pointed at."""
    canvas = Canvas(-ROOM - 0.15, ROOM + 0.15)
    canvas.box((-ROOM, -ROOM), (ROOM, ROOM), FLOOR, fade(INK, 0.6), 3)
    for piece in FURNITURE:
        middle = np.array(piece.middle[:2])
        half = np.array(piece.half[:2])
        canvas.box(middle - half, middle + half, piece.colour, fade(INK, 0.4))
    _draw_things(canvas, np.append(state.running, state.in_view))
    _draw_robot(canvas, state)
    return canvas.image()


def _draw_things(canvas: Canvas, on: np.ndarray) -> None:
    for thing, lit in zip((*APPLIANCES, *OBJECTS), on, strict=True):
        # Appliances that are one above the other are drawn side by side.
        aside = 0.25 * np.sign(thing.place[2] - 1.0) if thing in APPLIANCES else 0.0
        place = np.clip(thing.place[:2] + np.array([aside, 0.0]), -ROOM + 0.12, ROOM - 0.12)
        if lit:
            canvas.disc(place, 0.25, fade(thing.colour, 0.35))
        canvas.disc(place, 0.11, thing.colour if lit else "#ffffff", thing.colour, 2.5)
        canvas.text((place[0], place[1] - 0.24), thing.name, INK, 0.13)


def _draw_robot(canvas: Canvas, state: HouseholdState) -> None:
    here = state.position
    view = np.arctan2(state.looking[1], state.looking[0]) + VIEW * np.linspace(-1, 1, 9)
    cone = here + 1.5 * np.stack([np.cos(view), np.sin(view)], 1)
    canvas.polygon([here, *cone], fade("#3b6fb5", 0.15))
    forward = np.array([np.cos(state.heading), np.sin(state.heading)])
    left = np.array([-forward[1], forward[0]])
    remote = here + state.remote[0] * forward + state.remote[1] * left
    canvas.disc(here, 0.28, "#dfe4ea", INK, 2)
    canvas.line(here, here + 0.28 * forward, INK, 3)
    canvas.line(here, remote, "#1681c4", 5)
    pressed = state.opening < PRESSED
    beam = (1.0 if pressed else 0.25) * state.pointing[:2]
    canvas.line(remote, remote + beam, "#d64550" if pressed else fade(INK, 0.5), 2)
