"""Household: a Fetch robot in a living room, with appliances to switch and things to look at.

The paper uses iGibson, whose assets no package registry has; this is the same kind of task on MuJoCo, with the Fetch model of
gymnasium-robotics. The robot drives, looks around and points a remote control, all at once.

Its arm is compensated for gravity, as the real one's, and everything else stands still, so gravity is left out.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.canvas import INK, Canvas, fade
from dusdi.envs.physics import PHYSICS_PRESET, PhysicsVector, load_mujoco, package_folder
from dusdi.types import Factor, WorldSpec

# Metres, radians, seconds. x is east, y north, z up; the middle of the room is the origin.
TIMESTEP, SUBSTEPS = 0.2 / 6, 6  # a control step is 0.2 s
ROOM = 2.5  # walls at x, y = ±2.5
HEIGHT = 2.5
WALL_HALF = 0.15  # half of how thick the walls are
LIFT = 0.2  # how far the torso is lifted
SPEED, TURN = 1.2, 2.5  # of the base, at full action
START = (
    (-1.0, -1.0, -np.pi),
    (1.3, 1.2, np.pi),
)  # lowest and highest location: its arm touches nothing there
VIEW = 0.4  # half angle of the cone in which the head camera sees
BEAM = 0.5  # half angle of the remote control's beam
RANGE = 6.0  # of the remote control
PRESSED = 0.035  # the remote control sends while the gripper is closed farther than this
AFTERGLOW = 2  # steps for which an appliance runs on without a signal


class Box(NamedTuple):
    """A piece of furniture: its middle, half its size, and a colour."""

    name: str
    middle: tuple[float, float, float]
    half: tuple[float, float, float]
    colour: str


class Thing(NamedTuple):
    """Something to point or look at, and where."""

    name: str
    place: tuple[float, float, float]
    colour: str


FURNITURE = (
    Box("sideboard", (0.0, 2.3, 0.35), (0.7, 0.19, 0.35), "#8a6a4a"),
    Box("stand", (1.4, 2.3, 0.15), (0.3, 0.19, 0.15), "#7b5a3c"),
    Box("sofa", (0.0, -2.1, 0.22), (1.0, 0.38, 0.22), "#6d7f8f"),
    Box("sofa back", (0.0, -2.4, 0.42), (1.0, 0.09, 0.42), "#5d6e7d"),
    Box("bookshelf", (-2.33, -0.9, 0.8), (0.16, 0.5, 0.8), "#7b5a3c"),
    Box("table", (2.0, -1.9, 0.36), (0.4, 0.5, 0.36), "#a9825a"),
)
APPLIANCES = (
    Thing("lamp", (-1.4, 2.3, 2.0), "#e8b100"),
    Thing("fan", (-1.4, 2.25, 0.35), "#1b998b"),
    Thing("television", (1.4, 2.4, 1.9), "#2f6fde"),
    Thing("radio", (1.4, 2.25, 0.43), "#d64550"),
)
OBJECTS = (
    Thing("painting", (-2.46, 1.0, 1.5), "#a463f2"),
    Thing("screen", (0.0, 2.46, 1.75), "#3ca951"),
    Thing("plant", (2.3, 1.0, 0.9), "#ff725c"),
)

# joints in the order of the actions, the resting place of each, and how far from it an action reaches
HEAD = {"head_pan": (0.0, 1.5), "head_tilt": (0.1, 0.6)}
ARM = {
    "shoulder_pan": (0.0, 1.55),
    "shoulder_lift": (-0.8, 0.3),
    "upperarm_roll": (0.0, 0.3),
    "elbow_flex": (1.4, 0.3),
    "forearm_roll": (0.0, 0.3),
    "wrist_flex": (-0.6, 0.8),
}
FINGERS = {"r_gripper_finger": (0.025, 0.025), "l_gripper_finger": (0.025, 0.025)}
BASE = ("east", "north", "heading")  # joints
SERVO = {**HEAD, **ARM, **FINGERS}

#: observation entries
LOCATION, RUNNING, IN_VIEW, FREE = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 42)
SINE, COSINE, OPENING, REMOTE, POINTING, LOOKING = (
    10,
    11,
    31,
    slice(33, 36),
    slice(36, 39),
    slice(39, 42),
)
HEAD_CONTROL, ARM_CONTROL, GRIPPER_CONTROL = (
    slice(2, 4),
    slice(4, 10),
    10,
)  # action entries; the first two drive

#: Bodies without mass that only carry cameras we don't use; every body costs time.
UNUSED_CAMERAS = (
    "robot0:gripper_camera_link",
    "robot0:head_camera_depth_frame",
    "robot0:external_camera_body_0",
)
FLOOR, WALL = "#d9c7a8", "#efe9dd"


class Household(HostWorld):
    """The observation is where the robot is (x, y, and how far its torso is lifted, which is fixed), which appliances run (4),
    which objects are in view (3), and what the robot feels of itself (32): sine and cosine of the heading, the base's speeds,
    joint positions and velocities of head, arm and gripper, the remote control's place relative to the base, where it points,
    and where the camera looks.

    The action is speed and turning rate of the base (2) and where to move head (2), arm (6) and gripper (1).

    Args:
      view: the picture that is drawn: "room" and "head" (what the robot sees) need OpenGL, "map" does not.
    """

    spec = WorldSpec(
        name="household",
        options={},
        observation_size=42,
        action_size=11,
        factors=(
            Factor("agent location", tuple(range(42))[LOCATION]),
            Factor("electric appliances", tuple(range(42))[RUNNING]),
            Factor("objects in view", tuple(range(42))[IN_VIEW]),
            Factor("proprioception", tuple(range(42))[FREE], controlled=False),
        ),
        episode_length=1000,
    )
    views = ("room", "head", "map")
    #: Which appliance runs is found by chance at first, so the policy is kept random enough. See docs/experiments.md.
    presets = {"fast": PHYSICS_PRESET | dict(penalty_weight=0.5, target_entropy=-0.3)}
    paper_note = "The paper's figures are for iGibson, a world of the same kind."
    paper_dci = {"dusdi": (0.833, 0.834, 0.854), "diayn-mc": (0.017, 0.019, 0.752)}

    def __init__(self, view: str = "room"):
        self.choose_view(view)

    def check_installed(self):
        for package in ("mujoco", "gymnasium_robotics"):
            package_folder(package, self.spec.name)

    @cached_property
    def model(self) -> Any:
        """The robot in its room."""
        return build_model(self.spec.name)

    def vector(self, count: int) -> VectorWorld:
        return _Homes(self.model, self.spec, count, self.view)

    def oracle(self, observation, skill):
        """Drives to a corner or the middle and faces north, points at an appliance or at none, looks at an object or at none."""
        action = np.zeros((len(observation), 11), np.float32)
        action[:, :2] = drive_to(observation, PLACES[skill[:, 0]])
        action[:, ARM_CONTROL], action[:, GRIPPER_CONTROL] = point_at(observation, skill[:, 1])
        action[:, HEAD_CONTROL] = look_at(observation, skill[:, 2])
        return np.clip(action, -1.0, 1.0)


# --- the room and the robot ---


def build_model(world: str) -> Any:
    """The Fetch of gymnasium-robotics, on wheels, in a furnished room."""
    mujoco = load_mujoco(world)
    folder = package_folder("gymnasium_robotics", world) / "envs" / "assets"
    spec = mujoco.MjSpec.from_file(str(folder / "fetch" / "reach.xml"))
    for name in ("robot0:mocap", "floor0", "table0", *UNUSED_CAMERAS):
        spec.delete(spec.body(name))
    for unwanted in [
        *spec.equalities,
        *spec.excludes,
        *spec.lights,
        spec.geom("floor0"),
        *spec.body("robot0:base_link").joints,
    ]:
        spec.delete(unwanted)
    for texture in [
        texture for texture in spec.textures if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX
    ]:
        spec.delete(texture)
    spec.option.timestep, spec.option.gravity = TIMESTEP, (0, 0, 0)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    _motorise(mujoco, spec)
    _furnish(mujoco, spec)
    return spec.compile()


def _motorise(mujoco: Any, spec: Any) -> None:
    """Wheels, servos and simple shapes to bump into things with."""
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0  # meshes are for looking at
    base, hinge, slide = (
        spec.body("robot0:base_link"),
        mujoco.mjtJoint.mjJNT_HINGE,
        mujoco.mjtJoint.mjJNT_SLIDE,
    )
    base.pos = (0, 0, 0)
    for name, kind, axis in zip(BASE, (slide, slide, hinge), np.eye(3), strict=True):
        _set_friction(base.add_joint(name=name, type=kind, axis=axis), armature=0.0, damping=0.0)
    base.add_site(name="axle", rgba=(0, 0, 0, 0))
    for name, entry, gain, force in (
        ("ahead", 0, 800.0, 250.0),
        ("sideways", 1, 8000.0, 1600.0),
        ("turn", 5, 100.0, 100.0),
    ):
        motor = spec.add_actuator(name=name, target="axle", trntype=mujoco.mjtTrn.mjTRN_SITE)
        motor.set_to_velocity(kv=gain)
        motor.gear = np.eye(6)[entry]
        motor.forcelimited, motor.forcerange = True, (-force, force)
    for name in ("torso_lift_joint", "wrist_roll_joint"):  # are not driven
        spec.delete(spec.joint(f"robot0:{name}"))
    spec.body("robot0:torso_lift_link").pos += np.array([0, 0, LIFT])
    for name in ("r", "l"):  # as shipped, a finger weighs 4 kg
        finger = spec.body(f"robot0:{name}_gripper_finger_link")
        finger.mass, finger.inertia = 0.1, (1e-4, 1e-4, 1e-4)
    for name in SERVO:
        joint = spec.joint(f"robot0:{name}_joint")
        _set_friction(joint, armature=0.5, damping=5.0)
        motor = spec.add_actuator(name=name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        stiff = name in FINGERS  # or they slip when the arm is swung
        motor.set_to_position(kp=400.0 if stiff else 150.0, kv=40.0 if stiff else 25.0)
        motor.forcelimited, motor.forcerange = True, (-60.0, 60.0)
    solid = {"contype": 1, "conaffinity": 0, "group": 4, "rgba": (0, 0, 0, 0), "mass": 0}
    capsule, cylinder = mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER
    base.add_geom(type=cylinder, size=(0.28, 0.18, 0), pos=(0, 0, 0.2), **solid)
    base.add_geom(type=cylinder, size=(0.2, 0.35, 0), pos=(-0.08, 0, 0.75), **solid)
    limbs = {
        "upperarm_roll": (0.06, 0.13),
        "elbow_flex": (0.06, 0.2),
        "forearm_roll": (0.06, 0.12),
        "wrist_roll": (0.1, 0.2),
    }
    for name, (thick, length) in limbs.items():
        body = spec.body(f"robot0:{name}_link")
        body.add_geom(type=capsule, size=(thick, 0, 0), fromto=(0, 0, 0, length, 0, 0), **solid)
    hand = spec.body("robot0:gripper_link")
    dark = {"contype": 0, "conaffinity": 0, "mass": 0}
    hand.add_geom(
        name="remote",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=(0.07, 0.013, 0.02),
        pos=(0.05, 0, 0),
        rgba=(0.1, 0.1, 0.12, 1),
        **dark,
    )
    hand.add_site(name="remote", pos=(0.12, 0, 0), size=(0.01, 0.01, 0.01), rgba=(1, 0.1, 0.1, 1))
    spec.body("robot0:head_camera_link").add_site(name="eye", pos=(0, 0, 0), rgba=(0, 0, 0, 0))
    for site in ("remote", "eye"):
        for kind in (mujoco.mjtSensor.mjSENS_FRAMEPOS, mujoco.mjtSensor.mjSENS_FRAMEXAXIS):
            spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site)


def _set_friction(joint: Any, *, armature: float, damping: float) -> None:
    joint.armature, joint.frictionloss = armature, 0.0
    # polynomials, of which the first coefficient is the ordinary one
    joint.stiffness, joint.damping = np.zeros(3), np.array([damping, 0.0, 0.0])


def _furnish(mujoco: Any, spec: Any) -> None:
    """Walls, furniture, appliances and objects; what stops the robot has conaffinity 1, what hides things is a box."""
    world, box = spec.worldbody, mujoco.mjtGeom.mjGEOM_BOX
    solid, loose = {"contype": 0, "conaffinity": 1}, {"contype": 0, "conaffinity": 0}
    _material(mujoco, spec, "floor", FLOOR, "#cbb592", repeat=6)
    _material(mujoco, spec, "wall", WALL, "#ebe4d6", repeat=3)
    world.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=(ROOM, ROOM, 0.1), material="floor", **loose
    )
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        half = (
            WALL_HALF if x else ROOM + 2 * WALL_HALF,
            WALL_HALF if y else ROOM + 2 * WALL_HALF,
            HEIGHT / 2,
        )
        middle = (x * (ROOM + WALL_HALF), y * (ROOM + WALL_HALF), HEIGHT / 2)
        south_or_east = x > 0 or y < 0  # where the camera stands: to be looked through
        colour = (1, 1, 1, 0.12) if south_or_east else (1, 1, 1, 1)
        world.add_geom(
            type=box, pos=middle, size=half, material="wall", rgba=colour, margin=0.1, **solid
        )
    for piece in FURNITURE:
        _material(mujoco, spec, piece.name, piece.colour, _darker(piece.colour), repeat=2)
        world.add_geom(
            name=piece.name,
            type=box,
            pos=piece.middle,
            size=piece.half,
            material=piece.name,
            group=1,
            **solid,
        )
    for thing in (*APPLIANCES, *OBJECTS):
        _build_thing(mujoco, world, thing, loose)
    cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER
    world.add_geom(
        type=cylinder, size=(1.1, 0.005, 0), pos=(0.1, -0.2, 0.005), rgba=_rgba("#b65c4a"), **loose
    )
    world.add_geom(
        type=cylinder, size=(0.85, 0.006, 0), pos=(0.1, -0.2, 0.005), rgba=_rgba("#e3cdb0"), **loose
    )
    world.add_geom(
        type=box, size=(0.02, 0.6, 0.45), pos=(-2.49, -1.8, 1.7), rgba=_rgba("#bcdcf0"), **loose
    )
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = (
        (0.35, 0.35, 0.35),
        (0.3, 0.3, 0.3),
    )
    world.add_light(
        pos=(0.3, -0.3, 2.4),
        dir=(0, 0, -1),
        diffuse=(0.6, 0.57, 0.5),
        castshadow=True,
        cutoff=85,
        exponent=1,
    )
    camera = np.array([3.4, -4.6, 4.4])
    forward = np.array([0, 0.1, 0.5]) - camera
    right = np.cross(forward, [0, 0, 1])
    up = np.cross(right, forward)
    world.add_camera(name="room", pos=camera, xyaxes=(*right, *up), fovy=46)


def _build_thing(mujoco: Any, world: Any, thing: Thing, loose: dict[str, int]) -> None:
    """An appliance or object made of simple shapes; the part named like it lights up when it runs or is in view."""
    x, y, z = thing.place
    box, cylinder, sphere = (
        mujoco.mjtGeom.mjGEOM_BOX,
        mujoco.mjtGeom.mjGEOM_CYLINDER,
        mujoco.mjtGeom.mjGEOM_SPHERE,
    )
    dark, colour = _rgba("#33373f"), _rgba(thing.colour)

    def add(kind, size, pos, rgba, name=""):
        world.add_geom(name=name, type=kind, size=(*size, 0, 0, 0)[:3], pos=pos, rgba=rgba, **loose)

    if thing.name == "lamp":
        add(box, (0.02, (ROOM - y) / 2, 0.02), (x, (ROOM + y) / 2, z + 0.13), dark)
        add(cylinder, (0.16, 0.13), (x, y, z), colour, thing.name)
    elif thing.name == "television":
        add(box, (0.42, 0.02, 0.25), (x, y + 0.03, z), dark)
        add(box, (0.39, 0.02, 0.22), (x, y, z), colour, thing.name)
    elif thing.name == "fan":
        add(cylinder, (0.02, z / 2), (x, y, z / 2), dark)
        add(cylinder, (0.14, 0.02), (x, y, 0.02), dark)
        for angle in np.arange(3) * 2 * np.pi / 3:
            add(
                sphere,
                (0.07,),
                (x + 0.09 * np.cos(angle), y - 0.03, z + 0.09 * np.sin(angle)),
                _rgba("#dde3e8"),
            )
        add(sphere, (0.06,), (x, y - 0.05, z), colour, thing.name)
    elif thing.name == "radio":
        add(box, (0.2, 0.08, 0.13), (x, y, z), dark)
        add(cylinder, (0.005, 0.15), (x + 0.15, y, z + 0.25), dark)
        add(box, (0.15, 0.02, 0.08), (x, y - 0.08, z), colour, thing.name)
    elif thing.name == "painting":
        add(box, (0.02, 0.4, 0.3), (x, y, z), _rgba("#4a3524"))
        add(box, (0.02, 0.35, 0.25), (x + 0.01, y, z), colour, thing.name)
    elif thing.name == "screen":
        add(box, (0.28, 0.02, 0.18), (x, y, z), dark)
        add(box, (0.25, 0.02, 0.15), (x, y - 0.01, z), colour, thing.name)
    else:
        add(cylinder, (0.15, 0.18), (x, y, 0.18), _rgba("#c9744f"))
        add(cylinder, (0.02, 0.3), (x, y, 0.55), _rgba("#5b4a32"))
        for dx, dy, dz in ((0, 0, 0.15), (-0.13, 0.05, 0), (0.1, -0.12, 0.0), (0.02, 0.14, -0.02)):
            add(sphere, (0.14,), (x + dx, y + dy, z + dz), _rgba("#4e9a51"))
        add(sphere, (0.06,), (x - 0.12, y - 0.08, z + 0.08), colour, thing.name)


def _material(mujoco: Any, spec: Any, name: str, light: str, dark: str, repeat: int) -> None:
    checker, flat = mujoco.mjtBuiltin.mjBUILTIN_CHECKER, mujoco.mjtTexture.mjTEXTURE_2D
    spec.add_texture(
        name=name, type=flat, builtin=checker, rgb1=_rgba(light)[:3], rgb2=_rgba(dark)[:3], width=64, height=64,
        mark=mujoco.mjtMark.mjMARK_RANDOM, markrgb=_rgba(_darker(light))[:3], random=0.02,
    )  # fmt: skip
    textures = [""] * mujoco.mjtTextureRole.mjNTEXROLE
    textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    spec.add_material(
        name=name, textures=textures, texrepeat=(repeat, repeat), specular=0.1, shininess=0.1
    )


def _rgba(colour: str) -> tuple[float, float, float, float]:
    return (*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)), 1.0)  # type: ignore[return-value]


def _darker(colour: str) -> str:
    return "#" + "".join(f"{round(255 * 0.9 * x):02x}" for x in _rgba(colour)[:3])


# --- what is pointed at and what is seen ---


def angle_to(origin: np.ndarray, direction: np.ndarray, things: np.ndarray) -> np.ndarray:
    """The angle between a direction [n, 3] and the way from an origin [n, 3] to each of the things [m, 3], [n, m]."""
    way = things - origin[:, None]
    cosine = np.einsum("nmd,nd->nm", way, direction) / np.linalg.norm(way, axis=-1)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def is_hidden(origin: np.ndarray, things: np.ndarray) -> np.ndarray:
    """Whether a piece of furniture is between an origin [n, 3] and each of the things [m, 3], bool [n, m]: a ray cast."""
    middle, half = (
        np.array([piece.middle for piece in FURNITURE]),
        np.array([piece.half for piece in FURNITURE]),
    )
    way = (things - origin[:, None])[:, :, None]  # [n, m, pieces, 3]
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)
    to_middle = (middle - origin[:, None])[:, None]
    near, far = (to_middle - half * np.sign(way)) / way, (to_middle + half * np.sign(way)) / way
    enters, leaves = near.max(-1), far.min(-1)  # shares of the way to the thing
    return ((enters < leaves) & (leaves > 0) & (enters < 1)).any(-1)


PLACES_OF_APPLIANCES = np.array([thing.place for thing in APPLIANCES])
PLACES_OF_OBJECTS = np.array([thing.place for thing in OBJECTS])


def find_signalled(origin: np.ndarray, direction: np.ndarray, pressed: np.ndarray) -> np.ndarray:
    """Which appliance hears the remote control: the one nearest to the middle of the beam, if it can, bool [n, 4]."""
    angle = angle_to(origin, direction, PLACES_OF_APPLIANCES)
    far = np.linalg.norm(PLACES_OF_APPLIANCES - origin[:, None], axis=-1) > RANGE
    angle = np.where(far | is_hidden(origin, PLACES_OF_APPLIANCES), np.inf, angle)
    return (angle < BEAM) & (angle == angle.min(1, keepdims=True)) & pressed[:, None]


def find_in_view(origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Which objects are in view: inside the camera's cone and not behind furniture, bool [n, 3]."""
    return (angle_to(origin, direction, PLACES_OF_OBJECTS) < VIEW) & ~is_hidden(
        origin, PLACES_OF_OBJECTS
    )


# --- many homes ---


class _Homes(PhysicsVector):
    def __init__(self, model: Any, spec: WorldSpec, count: int, view: str):
        super().__init__(model, spec, count, SUBSTEPS)
        self._view, self.camera = view, "head_camera_rgb" if view == "head" else "room"
        self._glow = np.zeros(
            (count, len(APPLIANCES)), int
        )  # steps for which each appliance runs on
        self._servo = np.array([model.joint(f"robot0:{name}_joint").qposadr[0] for name in SERVO])
        self._rest, self._reach = np.array(list(SERVO.values())).T
        self._base = np.array([model.joint(name).qposadr[0] for name in BASE])

    def _starts(self):
        start = np.zeros((self._count, self._model.nq))
        start[:, self._base] = self._random.uniform(*START, (self._count, 3))
        start[:, self._servo] = self._rest + self._reach * self._random.uniform(
            -0.3, 0.3, (self._count, len(self._servo))
        )
        return start

    def _begin(self, mask):
        self._glow[mask] = 0

    def _control(self, actions):
        wheels = np.stack(
            [SPEED * actions[:, 0], np.zeros(self._count), TURN * actions[:, 1]], axis=1
        )  # that don't slip
        servo = np.concatenate([actions[:, 2:], actions[:, -1:]], axis=1)  # both fingers alike
        return np.concatenate([wheels, self._rest + self._reach * servo], axis=1)

    def _move_on(self):
        remote, pointing, _, _ = self._sites()
        heard = find_signalled(remote, pointing, self._opening() < PRESSED)
        self._glow = np.where(heard, AFTERGLOW + 1, np.maximum(self._glow - 1, 0))

    def _sites(self) -> np.ndarray:
        """Where the remote control is, where it points, where the eye is, where it looks, [4, n, 3]."""
        return self._simulation.sensors.reshape(self._count, 4, 3).swapaxes(0, 1)

    def _opening(self) -> np.ndarray:
        return self._simulation.qpos[:, self._servo[-2:]].mean(1)

    def _observe(self):
        qpos, qvel = self._simulation.qpos, self._simulation.qvel
        remote, pointing, eye, looking = self._sites()
        place, heading = qpos[:, self._base[:2]], qpos[:, self._base[2]]
        cosine, sine = np.cos(heading), np.sin(heading)
        ahead, sideways = turned(qvel[:, self._base[:2]], cosine, sine)
        columns = [
            place, np.full(self._count, LIFT),
            self._glow > 0,
            find_in_view(eye, looking),
            sine, cosine, ahead, sideways, qvel[:, self._base[2]],
            qpos[:, self._servo[:8]], qvel[:, self._servo[:8]],
            self._opening(), qvel[:, self._servo[-2:]].mean(1),
            *turned(remote[:, :2] - place, cosine, sine), remote[:, 2],
            pointing, looking,
        ]  # fmt: skip
        return np.concatenate(
            [np.reshape(column, (self._count, -1)) for column in columns], axis=1
        ).astype(np.float32)

    def _lit(self, index):
        on = self._observe()[index, 3:10] > 0
        return {thing.name for thing, lit in zip((*APPLIANCES, *OBJECTS), on, strict=True) if lit}

    def render(self, index=0):
        return draw_map(self._observe()[index]) if self._view == "map" else super().render(index)


def turned(
    vector: np.ndarray, cosine: np.ndarray, sine: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [n, 2] of the room as a robot sees them: how far ahead, and how far to the left."""
    return vector[:, 0] * cosine + vector[:, 1] * sine, vector[:, 1] * cosine - vector[:, 0] * sine


def heading_of(observation: np.ndarray) -> np.ndarray:
    """Where the robot faces, counter-clockwise from east; observations [..., 42]."""
    return np.arctan2(observation[..., SINE], observation[..., COSINE])


# --- a hand-written policy ---

PLACES = np.array(
    [(-1.4, -1.0), (1.4, -1.0), (-1.4, 0.7), (1.4, 0.7), (0.0, -0.2)]
)  # where the oracle drives
SHOULDER = np.array(
    [0.0326, 0.0, 0.726 + 0.06 + LIFT]
)  # the arm's first joint relative to the base
HEAD_JOINT = np.array([-0.0338, 0.0, 1.06 + LIFT])


def drive_to(observation: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Speed and turn [n, 2] of a base that goes to a place [n, 2], backwards if that is shorter, and then faces north."""
    way, heading = place - observation[:, :2], heading_of(observation)
    distance, bearing = np.linalg.norm(way, axis=1), np.arctan2(way[:, 1], way[:, 0])
    ahead = wrapped(bearing - heading)
    backwards = np.abs(ahead) > np.pi / 2
    error = np.where(backwards, wrapped(ahead + np.pi), ahead)
    speed = (
        np.where(backwards, -1, 1)
        * np.minimum(2.5 * distance, SPEED)
        * np.maximum(np.cos(error) ** 3, 0)
    )
    there = distance < 0.12
    turn = np.where(there, wrapped(np.pi / 2 - heading), error)
    return np.stack([np.where(there, 0.0, speed) / SPEED, 4.0 * turn / TURN], axis=1)


def point_at(observation: np.ndarray, appliance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arm [n, 6] and gripper [n] that point the remote control at an appliance [n], or let go of the button if it is none."""
    none = appliance >= len(APPLIANCES)
    target = PLACES_OF_APPLIANCES[np.where(none, 0, appliance)]
    bearing, _, _ = bearing_from(observation, SHOULDER, target)
    remote = observation[:, REMOTE]
    level = np.linalg.norm(target[:, :2] - observation[:, :2], axis=1) - np.linalg.norm(
        remote[:, :2], axis=1
    )
    pitch = np.arctan2(remote[:, 2] - target[:, 2], np.maximum(level, 0.1))  # downwards
    arm = np.zeros((len(observation), 6))
    joints = np.array(list(ARM.values()))
    arm[:, 0] = (bearing - joints[0, 0]) / joints[0, 1]
    arm[:, 5] = (pitch - joints[1, 0] - joints[3, 0] - joints[5, 0]) / joints[
        5, 1
    ]  # the pitches of the arm's joints add up
    return arm, np.where(none, 1.0, -1.0)


def look_at(observation: np.ndarray, thing: np.ndarray) -> np.ndarray:
    """Head [n, 2] that looks at an object [n], or at the floor if it is none."""
    none = thing >= len(OBJECTS)
    bearing, distance, height = bearing_from(
        observation, HEAD_JOINT, PLACES_OF_OBJECTS[np.where(none, 0, thing)]
    )
    tilt = np.where(none, 1.0, np.arctan2(-height, distance))
    joints = np.array(list(HEAD.values()))
    return (np.stack([bearing, tilt], axis=1) - joints[:, 0]) / joints[:, 1]


def bearing_from(
    observation: np.ndarray, joint: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bearing of a target [n, 3] seen from a joint of the body, relative to the heading; how far and how high it is."""
    heading = heading_of(observation)
    forward = np.stack([np.cos(heading), np.sin(heading)], axis=1)
    way = target[:, :2] - observation[:, :2] - joint[0] * forward
    return (
        wrapped(np.arctan2(way[:, 1], way[:, 0]) - heading),
        np.linalg.norm(way, axis=1),
        target[:, 2] - joint[2],
    )


def wrapped(angle: np.ndarray) -> np.ndarray:
    """An angle in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


# --- a picture without OpenGL ---


def draw_map(observation: np.ndarray) -> np.ndarray:
    """The room from above: who is where, what runs, what is seen and what is pointed at."""
    x, y, heading = *observation[:2], float(heading_of(observation))
    canvas = Canvas(-ROOM - 0.15, ROOM + 0.15)
    canvas.box((-ROOM, -ROOM), (ROOM, ROOM), FLOOR, fade(INK, 0.6), 3)
    for piece in FURNITURE:
        (px, py, _), (hx, hy, _) = piece.middle, piece.half
        canvas.box((px - hx, py - hy), (px + hx, py + hy), piece.colour, fade(INK, 0.4))
    for thing, on in zip((*APPLIANCES, *OBJECTS), observation[3:10], strict=True):
        aside = (
            0.25 * np.sign(thing.place[2] - 1.0) if thing in APPLIANCES else 0.0
        )  # one above the other, drawn side by side
        place, colour = (
            np.clip(thing.place[:2] + np.array([aside, 0.0]), -ROOM + 0.12, ROOM - 0.12),
            thing.colour,
        )
        if on > 0:
            canvas.disc(place, 0.25, fade(colour, 0.35))
        canvas.disc(place, 0.11, colour if on > 0 else "#ffffff", colour, 2.5)
        canvas.text((place[0], place[1] - 0.24), thing.name, INK, 0.13)
    looking, pointing = observation[LOOKING][:2], observation[POINTING][:2]
    eye = np.arctan2(looking[1], looking[0]) + VIEW * np.linspace(-1, 1, 9)
    here = np.array([x, y])
    canvas.polygon(
        [here, *(here + 1.5 * np.stack([np.cos(eye), np.sin(eye)], 1))], fade("#3b6fb5", 0.15)
    )
    forward, left = (
        np.array([np.cos(heading), np.sin(heading)]),
        np.array([-np.sin(heading), np.cos(heading)]),
    )
    remote = here + observation[REMOTE][0] * forward + observation[REMOTE][1] * left
    canvas.disc(here, 0.28, "#dfe4ea", INK, 2)
    canvas.line(here, here + 0.28 * forward, INK, 3)
    canvas.line(here, remote, "#1681c4", 5)
    pressed = observation[OPENING] < PRESSED
    canvas.line(
        remote,
        remote + (1.0 if pressed else 0.25) * pointing,
        "#d64550" if pressed else fade(INK, 0.5),
        2,
    )
    return canvas.image()
