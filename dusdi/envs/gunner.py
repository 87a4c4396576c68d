"""2D Gunner: a point agent that walks in a plane, picks up ammo with an arm, and aims at targets.

Its three factors depend on each other through geometry: ammo is picked up only where the arm
reaches a depot, and a target is hit only from the right bearing, so both depend on where the agent
stands. The map follows the pattern of the first release of DUSDi: four depots inside, four targets
at the corners.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import JaxWorld
from dusdi.envs.canvas import INK, Canvas, fade
from dusdi.types import Array, Factor, WorldSpec

# Lengths are in units of the plane, angles in radians, rates per step at full action. The plane,
# the rates, the four depots and targets and the hit tolerance are those of the first release; the
# places, the radius and the ammo are decided here.
PLANE = 5.0  # positions are in [0, 5]²
MOVE_RATE = 0.3
ARM_RATE = 0.15
ARM_REACH = PLANE / 3  # largest |x| and |y| of the arm, relative to the agent
AIM_RATE = 0.8  # the aim stays in [-pi, pi] and does not wrap around
DEPOTS = np.array([(1.5, 1.5), (1.5, 3.5), (3.5, 1.5), (3.5, 3.5)], np.float32)
DEPOT_RADIUS = 0.4
PICK_UP = 0.1  # ammo gained per step with the arm in a depot; 1 is the most
# Just outside the plane, so that the agent never stands on a target and each has a bearing.
TARGETS = np.array([(-0.25, -0.25), (5.25, -0.25), (-0.25, 5.25), (5.25, 5.25)], np.float32)
HIT_TOLERANCE = np.pi / 10

# Where the scripted expert stands and reaches: the corners and the centre of a square.
CORNERS_AND_CENTRE = np.array([(-1, -1), (1, -1), (-1, 1), (1, 1), (0, 0)], np.float32)
#: Aims that the expert considers when it should hit no target.
DIRECTIONS = np.linspace(-np.pi, np.pi, 41, dtype=np.float32)

#: Any place is a few steps away, so skills count the next few steps only. Together these settings
#: are worth 0.04 of D over ten seeds, see docs/ablation.md.
SHORT_HORIZON = {"discount": 0.7, "tau": 0.1, "rbf_features": 8}

BLUE = "#2f6fde"
RED = "#d64550"
ORANGE = "#f0851c"


class GunnerState(NamedTuple):
    """The state of a gunner.

    Attributes:
      position: of the agent, [2].
      arm: where the tip of the arm is, relative to the agent, [2].
      ammo: how much it has, 0 to 1, [].
      aim: direction of the gun, counter-clockwise from +x, [].
    """

    position: jax.Array
    arm: jax.Array
    ammo: jax.Array
    aim: jax.Array


class Gunner2D(JaxWorld):
    """The observation is position (2), arm (2), ammo (1), aim (1) and hit (1).

    `hit` is a category: 0 if no target is aimed at, i/4 for the i-th target.
    """

    spec = WorldSpec(
        name="gunner-2d",
        options={},
        observation_size=7,
        action_size=5,
        factors=(
            Factor("agent position", (0, 1)),
            Factor("ammo state", (2, 3, 4)),
            Factor("target state", (5, 6)),
        ),
        episode_length=1000,
        categorical=(6,),
    )
    method_presets = {
        "fast": {
            "dusdi": SHORT_HORIZON,
            "diayn-mc": SHORT_HORIZON,
            # Chosen by `dusdi reproduce tuning`
            "cic": {"discount": 0.93, "target_entropy": 0.0},
            "csd": {"discount": 0.93, "travel_scale": 100.0},
            "susd": {"travel_scale": 1.0},
            "rnd": {"target_entropy": 0.0},
            "elden": {"discount": 0.93, "target_entropy": 0.0},
        }
    }
    tuning_task = "limited"
    published_dci = {"dusdi": (0.864, 0.864, 0.897), "diayn-mc": (0.016, 0.024, 0.821)}

    def expert(self, state, skill):
        """Stands in a corner or the centre, reaches for one of them, aims at a target or none."""
        places = jnp.asarray(CORNERS_AND_CENTRE)
        goal = PLANE / 2 * (1 + places[skill[0]])
        walk = jnp.clip((goal - state.position) / MOVE_RATE, -1.0, 1.0)
        reach = (ARM_REACH * places[skill[1]] - state.arm) / ARM_RATE
        aims = expert_aims(state.position + MOVE_RATE * walk)
        turn = (aims[skill[2]] - state.aim) / AIM_RATE
        return jnp.clip(jnp.concatenate([walk, reach, turn[None]]), -1.0, 1.0)

    def reset(self, key):
        position_key, aim_key = jax.random.split(key)
        return GunnerState(
            position=jax.random.uniform(position_key, (2,), maxval=PLANE),
            arm=jnp.zeros(2),
            ammo=jnp.zeros(()),
            aim=jax.random.uniform(aim_key, (), minval=-jnp.pi, maxval=jnp.pi),
        )

    def step(self, state, action, key):
        del key
        action = jnp.clip(action, -1.0, 1.0)
        position = jnp.clip(state.position + MOVE_RATE * action[:2], 0.0, PLANE)
        arm = jnp.clip(state.arm + ARM_RATE * action[2:4], -ARM_REACH, ARM_REACH)
        aim = jnp.clip(state.aim + AIM_RATE * action[4], -jnp.pi, jnp.pi)
        picked_up = PICK_UP * is_in_depot(arm_tip(position, arm))
        return GunnerState(position, arm, jnp.minimum(state.ammo + picked_up, 1.0), aim)

    def observe(self, state):
        hit = (find_hit(state.position, state.aim) + 1) / len(TARGETS)
        return jnp.concatenate([state.position, state.arm, jnp.stack([state.ammo, state.aim, hit])])

    def render(self, state):
        return self.draw(state).image()

    def draw(self, state) -> Canvas:
        """The picture of a state, which tasks draw on."""
        position, arm, ammo, aim = (np.asarray(part) for part in state)
        canvas = Canvas(-0.6, PLANE + 0.6)
        canvas.grid(0.0, PLANE, 0.5)
        for depot in DEPOTS:
            _draw_depot(canvas, depot)
        hit = int(find_hit(position, aim))
        for i, target in enumerate(TARGETS):
            _draw_target(canvas, target, hit=i == hit)
        _draw_aim(canvas, position, aim)
        tip = np.asarray(arm_tip(position, arm))
        canvas.line(position, tip, INK, 2)
        canvas.disc(tip, 0.075, RED, INK, 1.5)
        _draw_star(canvas, position, 0.22)
        _draw_ammo(canvas, float(ammo))
        return canvas


def arm_tip(position: Array, arm: Array) -> jax.Array:
    """Where the tip of the arm is in the plane, [2]; it can't leave it."""
    return jnp.clip(position + arm, 0.0, PLANE)


def is_in_depot(point: Array) -> jax.Array:
    """Whether a point [2] is in one of the depots, bool []."""
    return jnp.any(jnp.linalg.norm(DEPOTS - point, axis=1) < DEPOT_RADIUS)


def target_bearings(position: Array) -> jax.Array:
    """The direction of each target as seen from a position [2], [targets]."""
    offset = TARGETS - position
    return jnp.arctan2(offset[:, 1], offset[:, 0])


def angle_between(a: Array, b: Array) -> jax.Array:
    """The angle between two directions, in [0, pi]."""
    return jnp.abs((a - b + jnp.pi) % (2 * jnp.pi) - jnp.pi)


def find_hit(position: Array, aim: Array) -> jax.Array:
    """The index of the target that is aimed at, the nearest in angle if several are; -1 if none."""
    error = angle_between(aim, target_bearings(position))
    return jnp.where(jnp.min(error) < HIT_TOLERANCE, jnp.argmin(error), -1)


def expert_aims(position: Array) -> jax.Array:
    """The aim at each target from a position [2], then one that misses all of them, [targets + 1].

    The last is the direction nearest to +x that is well away from every target.
    """
    bearings = target_bearings(position)
    gap = angle_between(DIRECTIONS[:, None], bearings).min(1)
    turn = jnp.where(gap > 1.1 * HIT_TOLERANCE, jnp.abs(DIRECTIONS), jnp.inf)
    return jnp.append(bearings, jnp.asarray(DIRECTIONS)[jnp.argmin(turn)])


def _draw_depot(canvas: Canvas, centre: np.ndarray) -> None:
    canvas.disc(centre, DEPOT_RADIUS, fade(RED, 0.13), fade(RED, 0.5), 1)
    canvas.polygon(centre + 0.17 * np.array([(1, 0), (0, 1), (-1, 0), (0, -1)]), RED)


def _draw_target(canvas: Canvas, centre: np.ndarray, hit: bool) -> None:
    if hit:
        canvas.disc(centre, 0.27, fade(ORANGE, 0.35), ORANGE, 2)
    for diagonal in np.array([(0.13, 0.13), (0.13, -0.13)]):
        canvas.line(centre - diagonal, centre + diagonal, ORANGE, 5)


def _draw_aim(canvas: Canvas, position: np.ndarray, aim: np.ndarray) -> None:
    angles = aim + HIT_TOLERANCE * np.array([0.0, -1.0, 1.0])
    ahead, right, left = np.stack([np.cos(angles), np.sin(angles)], 1)
    canvas.polygon(
        [position, position + 3 * PLANE * right, position + 3 * PLANE * left], fade(BLUE, 0.07)
    )
    canvas.line(position, position + ahead, BLUE, 3)


def _draw_star(canvas: Canvas, centre: np.ndarray, radius: float) -> None:
    angles = np.pi / 2 + np.pi / 5 * np.arange(10)
    radii = radius * np.where(np.arange(10) % 2, 0.45, 1.0)
    canvas.polygon(
        centre + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1), BLUE, INK, 1
    )


def _draw_ammo(canvas: Canvas, ammo: float) -> None:
    canvas.text((1.3, -0.3), "ammo", INK, 0.2, anchor="rm")
    canvas.box((1.4, -0.38), (1.4 + 2.2 * ammo, -0.22), RED)
    canvas.box((1.4, -0.38), (3.6, -0.22), edge=fade(INK, 0.5))
