"""The MuJoCo model of the household: the Fetch of gymnasium-robotics, on wheels, in a living room.

Its arm is compensated for gravity, as the real one's, and everything else stands still, so gravity
is left out. Lengths are in metres, angles in radians; x is east, y north, z up, and the origin is
the middle of the room.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dusdi.envs.physics import load_mujoco, package_folder

TIMESTEP = 0.2 / 6  # seconds
SUBSTEPS = 6  # so that a control step is 0.2 s
ROOM = 2.5  # walls at x, y = ±2.5
HEIGHT = 2.5
WALL_HALF = 0.15  # half of how thick the walls are
LIFT = 0.2  # how far the torso is lifted
FLOOR = "#d9c7a8"
WALL = "#efe9dd"
DARK = "#33373f"


class Box(NamedTuple):
    """A piece of furniture: its middle, half its size, and a colour."""

    name: str
    middle: tuple[float, float, float]
    half: tuple[float, float, float]
    colour: str


class Thing(NamedTuple):
    """An appliance or object, and where it is."""

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

# Joints in the order of the actions, the resting place of each, and how far an action moves it.
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
SERVOS = {**HEAD, **ARM, **FINGERS}
BASE = ("east", "north", "heading")  # joints of the base

#: Bodies without mass that only carry cameras that are not used; every body costs time.
UNUSED_CAMERAS = (
    "robot0:gripper_camera_link",
    "robot0:head_camera_depth_frame",
    "robot0:external_camera_body_0",
)
#: Motors of the base: the entry of its velocity (3 of translation, 3 of rotation), gain, force.
WHEELS = {"ahead": (0, 800.0, 250.0), "sideways": (1, 8000.0, 1600.0), "turn": (5, 100.0, 100.0)}
#: Capsules that collide instead of the meshes of the arm: thickness and length.
LIMBS = {
    "upperarm_roll": (0.06, 0.13),
    "elbow_flex": (0.06, 0.2),
    "forearm_roll": (0.06, 0.12),
    "wrist_roll": (0.1, 0.2),
}

# Only geoms with contype 1 (the robot's) and those with conaffinity 1 (the room's) collide.
ROBOT = {"contype": 1, "conaffinity": 0, "group": 4, "rgba": (0, 0, 0, 0), "mass": 0}
SOLID = {"contype": 0, "conaffinity": 1}
LOOSE = {"contype": 0, "conaffinity": 0}


def build_model(world: str) -> Any:
    """The compiled model; raises a `UsageError` that names the world if packages are missing."""
    mujoco = load_mujoco(world)
    folder = package_folder("gymnasium_robotics", world) / "envs" / "assets"
    spec = mujoco.MjSpec.from_file(str(folder / "fetch" / "reach.xml"))
    _remove_unused(mujoco, spec)
    spec.option.timestep = TIMESTEP
    spec.option.gravity = (0, 0, 0)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0  # meshes are only looked at
    _add_wheels(mujoco, spec)
    _add_servos(mujoco, spec)
    _add_collision_shapes(mujoco, spec)
    _add_remote_and_eye(mujoco, spec)
    _build_room(mujoco, spec)
    _add_furniture(mujoco, spec)
    for thing in (*APPLIANCES, *OBJECTS):
        _ThingBuilder(mujoco, spec.worldbody, thing).build()
    _add_light_and_camera(spec)
    return spec.compile()


def _remove_unused(mujoco: Any, spec: Any) -> None:
    """Removes the table, the floor, the lights and what holds the robot in its place."""
    for name in ("robot0:mocap", "floor0", "table0", *UNUSED_CAMERAS):
        spec.delete(spec.body(name))
    joints = spec.body("robot0:base_link").joints
    sky = mujoco.mjtTexture.mjTEXTURE_SKYBOX
    skies = [texture for texture in spec.textures if texture.type == sky]
    floor = spec.geom("floor0")
    for part in [*spec.equalities, *spec.excludes, *spec.lights, floor, *joints, *skies]:
        spec.delete(part)


def _add_wheels(mujoco: Any, spec: Any) -> None:
    """Lets the base drive ahead and turn; a strong motor keeps it from slipping sideways."""
    base = spec.body("robot0:base_link")
    base.pos = (0, 0, 0)
    slide = mujoco.mjtJoint.mjJNT_SLIDE
    hinge = mujoco.mjtJoint.mjJNT_HINGE
    for name, kind, axis in zip(BASE, (slide, slide, hinge), np.eye(3), strict=True):
        _set_friction(base.add_joint(name=name, type=kind, axis=axis), armature=0.0, damping=0.0)
    base.add_site(name="axle", rgba=(0, 0, 0, 0))
    for name, (entry, gain, force) in WHEELS.items():
        motor = spec.add_actuator(name=name, target="axle", trntype=mujoco.mjtTrn.mjTRN_SITE)
        motor.set_to_velocity(kv=gain)
        motor.gear = np.eye(6)[entry]
        motor.forcelimited = True
        motor.forcerange = (-force, force)


def _add_servos(mujoco: Any, spec: Any) -> None:
    """Motors that move head, arm and fingers to given positions."""
    for name in ("torso_lift_joint", "wrist_roll_joint"):  # these are not driven
        spec.delete(spec.joint(f"robot0:{name}"))
    spec.body("robot0:torso_lift_link").pos += np.array([0, 0, LIFT])
    for side in ("r", "l"):  # as shipped, a finger weighs 4 kg
        finger = spec.body(f"robot0:{side}_gripper_finger_link")
        finger.mass = 0.1
        finger.inertia = (1e-4, 1e-4, 1e-4)
    for name in SERVOS:
        joint = spec.joint(f"robot0:{name}_joint")
        _set_friction(joint, armature=0.5, damping=5.0)
        motor = spec.add_actuator(name=name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        stiff = name in FINGERS  # or they slip when the arm is swung
        motor.set_to_position(kp=400.0 if stiff else 150.0, kv=40.0 if stiff else 25.0)
        motor.forcelimited = True
        motor.forcerange = (-60.0, 60.0)


def _set_friction(joint: Any, *, armature: float, damping: float) -> None:
    joint.armature = armature
    joint.frictionloss = 0.0
    # These are polynomials, of which the first coefficient is the ordinary one.
    joint.stiffness = np.zeros(3)
    joint.damping = np.array([damping, 0.0, 0.0])


def _add_collision_shapes(mujoco: Any, spec: Any) -> None:
    """Simple shapes that collide instead of the robot's meshes."""
    cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    base = spec.body("robot0:base_link")
    base.add_geom(type=cylinder, size=(0.28, 0.18, 0), pos=(0, 0, 0.2), **ROBOT)
    base.add_geom(type=cylinder, size=(0.2, 0.35, 0), pos=(-0.08, 0, 0.75), **ROBOT)
    for name, (thickness, length) in LIMBS.items():
        body = spec.body(f"robot0:{name}_link")
        ends = (0, 0, 0, length, 0, 0)
        body.add_geom(type=capsule, size=(thickness, 0, 0), fromto=ends, **ROBOT)


def _add_remote_and_eye(mujoco: Any, spec: Any) -> None:
    """A remote control in the gripper, and sensors of where it and the head camera point."""
    hand = spec.body("robot0:gripper_link")
    hand.add_geom(
        name="remote",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=(0.07, 0.013, 0.02),
        pos=(0.05, 0, 0),
        rgba=(0.1, 0.1, 0.12, 1),
        mass=0,
        **LOOSE,
    )
    hand.add_site(name="remote", pos=(0.12, 0, 0), size=(0.01, 0.01, 0.01), rgba=(1, 0.1, 0.1, 1))
    spec.body("robot0:head_camera_link").add_site(name="eye", pos=(0, 0, 0), rgba=(0, 0, 0, 0))
    for site in ("remote", "eye"):
        for kind in (mujoco.mjtSensor.mjSENS_FRAMEPOS, mujoco.mjtSensor.mjSENS_FRAMEXAXIS):
            spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site)


def _build_room(mujoco: Any, spec: Any) -> None:
    """Floor, walls, carpet and a window. The walls before the camera are transparent."""
    world = spec.worldbody
    box = mujoco.mjtGeom.mjGEOM_BOX
    cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    _add_material(mujoco, spec, "floor", FLOOR, "#cbb592", repeat=6)
    _add_material(mujoco, spec, "wall", WALL, "#ebe4d6", repeat=3)
    world.add_geom(type=plane, size=(ROOM, ROOM, 0.1), material="floor", **LOOSE)
    long = ROOM + 2 * WALL_HALF
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        half = (WALL_HALF if x else long, WALL_HALF if y else long, HEIGHT / 2)
        middle = (x * (ROOM + WALL_HALF), y * (ROOM + WALL_HALF), HEIGHT / 2)
        south_or_east = x > 0 or y < 0
        colour = (1, 1, 1, 0.12) if south_or_east else (1, 1, 1, 1)
        look = {"material": "wall", "rgba": colour}
        world.add_geom(type=box, pos=middle, size=half, margin=0.1, **look, **SOLID)
    for radius, thickness, carpet in ((1.1, 0.005, "#b65c4a"), (0.85, 0.006, "#e3cdb0")):
        shape = {"size": (radius, thickness, 0), "pos": (0.1, -0.2, 0.005)}
        world.add_geom(type=cylinder, rgba=_rgba(carpet), **shape, **LOOSE)
    window = {"size": (0.02, 0.6, 0.45), "pos": (-2.49, -1.8, 1.7)}
    world.add_geom(type=box, rgba=_rgba("#bcdcf0"), **window, **LOOSE)


def _add_furniture(mujoco: Any, spec: Any) -> None:
    """Boxes in geom group 1, which hide things behind them."""
    for piece in FURNITURE:
        _add_material(mujoco, spec, piece.name, piece.colour, _darker(piece.colour), repeat=2)
        spec.worldbody.add_geom(
            name=piece.name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=piece.middle,
            size=piece.half,
            material=piece.name,
            group=1,
            **SOLID,
        )


def _add_light_and_camera(spec: Any) -> None:
    spec.visual.headlight.ambient = (0.35, 0.35, 0.35)
    spec.visual.headlight.diffuse = (0.3, 0.3, 0.3)
    spec.worldbody.add_light(
        pos=(0.3, -0.3, 2.4),
        dir=(0, 0, -1),
        diffuse=(0.6, 0.57, 0.5),
        castshadow=True,
        cutoff=85,
        exponent=1,
    )
    place = np.array([3.4, -4.6, 4.4])
    forward = np.array([0, 0.1, 0.5]) - place
    right = np.cross(forward, [0, 0, 1])
    up = np.cross(right, forward)
    spec.worldbody.add_camera(name="room", pos=place, xyaxes=(*right, *up), fovy=46)


class _ThingBuilder:
    """Makes an appliance or object of simple shapes.

    The part named like the thing is lit when the appliance runs or the object is in view.
    """

    def __init__(self, mujoco: Any, body: Any, thing: Thing):
        self._box = mujoco.mjtGeom.mjGEOM_BOX
        self._cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER
        self._sphere = mujoco.mjtGeom.mjGEOM_SPHERE
        self._body = body
        self._thing = thing

    def build(self) -> None:
        getattr(self, f"_build_{self._thing.name}")(*self._thing.place)

    def _add(self, kind: Any, size: tuple[float, ...], pos: tuple[float, ...], colour: str) -> Any:
        padded = (*size, 0, 0, 0)[:3]
        return self._body.add_geom(type=kind, size=padded, pos=pos, rgba=_rgba(colour), **LOOSE)

    def _add_lit(self, kind: Any, size: tuple[float, ...], pos: tuple[float, ...]) -> None:
        self._add(kind, size, pos, self._thing.colour).name = self._thing.name

    def _build_lamp(self, x: float, y: float, z: float) -> None:
        self._add(self._box, (0.02, (ROOM - y) / 2, 0.02), (x, (ROOM + y) / 2, z + 0.13), DARK)
        self._add_lit(self._cylinder, (0.16, 0.13), (x, y, z))

    def _build_television(self, x: float, y: float, z: float) -> None:
        self._add(self._box, (0.42, 0.02, 0.25), (x, y + 0.03, z), DARK)
        self._add_lit(self._box, (0.39, 0.02, 0.22), (x, y, z))

    def _build_fan(self, x: float, y: float, z: float) -> None:
        self._add(self._cylinder, (0.02, z / 2), (x, y, z / 2), DARK)
        self._add(self._cylinder, (0.14, 0.02), (x, y, 0.02), DARK)
        for angle in np.arange(3) * 2 * np.pi / 3:
            blade = (x + 0.09 * np.cos(angle), y - 0.03, z + 0.09 * np.sin(angle))
            self._add(self._sphere, (0.07,), blade, "#dde3e8")
        self._add_lit(self._sphere, (0.06,), (x, y - 0.05, z))

    def _build_radio(self, x: float, y: float, z: float) -> None:
        self._add(self._box, (0.2, 0.08, 0.13), (x, y, z), DARK)
        self._add(self._cylinder, (0.005, 0.15), (x + 0.15, y, z + 0.25), DARK)
        self._add_lit(self._box, (0.15, 0.02, 0.08), (x, y - 0.08, z))

    def _build_painting(self, x: float, y: float, z: float) -> None:
        self._add(self._box, (0.02, 0.4, 0.3), (x, y, z), "#4a3524")
        self._add_lit(self._box, (0.02, 0.35, 0.25), (x + 0.01, y, z))

    def _build_screen(self, x: float, y: float, z: float) -> None:
        self._add(self._box, (0.28, 0.02, 0.18), (x, y, z), DARK)
        self._add_lit(self._box, (0.25, 0.02, 0.15), (x, y - 0.01, z))

    def _build_plant(self, x: float, y: float, z: float) -> None:
        self._add(self._cylinder, (0.15, 0.18), (x, y, 0.18), "#c9744f")
        self._add(self._cylinder, (0.02, 0.3), (x, y, 0.55), "#5b4a32")
        leaves = ((0, 0, 0.15), (-0.13, 0.05, 0), (0.1, -0.12, 0.0), (0.02, 0.14, -0.02))
        for dx, dy, dz in leaves:
            self._add(self._sphere, (0.14,), (x + dx, y + dy, z + dz), "#4e9a51")
        self._add_lit(self._sphere, (0.06,), (x - 0.12, y - 0.08, z + 0.08))


def _add_material(mujoco: Any, spec: Any, name: str, light: str, dark: str, *, repeat: int) -> None:
    """A checkered material."""
    spec.add_texture(
        name=name,
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=_rgba(light)[:3],
        rgb2=_rgba(dark)[:3],
        width=64,
        height=64,
        mark=mujoco.mjtMark.mjMARK_RANDOM,
        markrgb=_rgba(_darker(light))[:3],
        random=0.02,
    )
    textures = [""] * mujoco.mjtTextureRole.mjNTEXROLE
    textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    spec.add_material(
        name=name, textures=textures, texrepeat=(repeat, repeat), specular=0.1, shininess=0.1
    )


def _rgba(colour: str) -> tuple[float, float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue, 1.0


def _darker(colour: str) -> str:
    return "#" + "".join(f"{round(255 * 0.9 * x):02x}" for x in _rgba(colour)[:3])
