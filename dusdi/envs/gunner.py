"""2D Gunner: a point agent that walks in a plane, picks up ammo with an arm, and aims at targets.

Its three factors depend on each other through geometry: ammo is held only where the arm reaches a depot, and a
target is hit only from the right bearing, so both depend on where the agent stands.
The map follows the pattern of the first release of DUSDi: four depots inside, four targets at the corners.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import JaxWorld
from dusdi.envs.canvas import INK, Canvas, fade
from dusdi.types import Array, Factor, WorldSpec

# Lengths are in units of the plane, angles in radians, rates per step at full action. The plane, the rates, the four depots
# and targets and the hit tolerance are the first release's; the places, the radius and the ammo are decided here.
PLANE = 5.0  # positions are in [0, 5]²
MOVE_RATE = 0.3
ARM_RATE = 0.15
ARM_REACH = PLANE / 3  # largest |x| and |y| of the arm, relative to the agent
AIM_RATE = 0.8  # the aim stays in [-pi, pi] and does not wrap around
DEPOTS = np.array([(1.5, 1.5), (1.5, 3.5), (3.5, 1.5), (3.5, 3.5)], np.float32)
DEPOT_RADIUS = 0.4
PICK_UP = 0.1  # ammo gained per step with the arm in a depot; 1 is all that can be held
# Just outside the plane, so that no agent ever stands on a target and each has a bearing from everywhere.
TARGETS = np.array([(-0.25, -0.25), (5.25, -0.25), (-0.25, 5.25), (5.25, 5.25)], np.float32)
HIT_TOLERANCE = np.pi / 10

FIVE = np.array(
    [(-1, -1), (1, -1), (-1, 1), (1, 1), (0, 0)], np.float32
)  # as on a die: where the oracle stands and reaches

BLUE, RED, ORANGE = "#2f6fde", "#d64550", "#f0851c"


class GunnerState(NamedTuple):
    """What there is to know.

    Attributes:
      position: of the agent, [2].
      arm: where the tip of the arm is, relative to the agent, [2].
      ammo: how much is held, 0 to 1, [].
      aim: direction of the gun, counter-clockwise from +x, [].
    """

    position: jax.Array
    arm: jax.Array
    ammo: jax.Array
    aim: jax.Array


class Gunner2D(JaxWorld):
    """The observation is position (2), arm (2), ammo (1), aim (1) and hit (1: 0 nothing, i/4 the i-th target)."""

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
    #: Plain entries gather each skill in one place of factors with several dimensions. What is hit betrays where the agent
    #: stands only in combination with the aim, so q_psi needs hidden layers, and a weight that counts. See docs/experiments.md.
    presets = {
        "fast": {
            "rbf_on": "categorical",
            "rbf_features": 8,
            "discriminator_lr": 5e-3,
            "penalty_hidden": (64, 64),
            "penalty_lr": 5e-4,
            "penalty_weight": 0.5,
            "discount": 0.7,
            "tau": 0.1,
        }
    }
    paper_dci = {"dusdi": (0.864, 0.864, 0.897), "diayn-mc": (0.016, 0.024, 0.821)}

    def oracle(self, observation, skill):
        """Stands in a corner or the middle, reaches for a corner or not at all, and aims at a target or past all of them."""
        position, arm, aim = observation[:, :2], observation[:, 2:4], observation[:, 5]
        walk = np.clip((PLANE / 2 * (1 + FIVE[skill[:, 0]]) - position) / MOVE_RATE, -1.0, 1.0)
        reach = (ARM_REACH * FIVE[skill[:, 1]] - arm) / ARM_RATE
        offset = TARGETS - (position + MOVE_RATE * walk)[:, None]
        bearings = np.arctan2(offset[..., 1], offset[..., 0])  # [n, targets]
        directions = np.linspace(-np.pi, np.pi, 41)
        gap = np.abs((directions[:, None] - bearings[:, None] + np.pi) % (2 * np.pi) - np.pi).min(
            -1
        )  # [n, directions]
        past = directions[
            np.where(gap > 1.1 * HIT_TOLERANCE, np.abs(directions), np.inf).argmin(1)
        ]  # the one nearest to +x
        wanted = np.take_along_axis(
            np.concatenate([bearings, past[:, None]], axis=1), skill[:, 2:], axis=1
        )[:, 0]
        turn = (wanted - aim) / AIM_RATE
        return np.clip(np.concatenate([walk, reach, turn[:, None]], axis=1), -1.0, 1.0).astype(
            np.float32
        )

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
        """A picture that can still be drawn on."""
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


def aim_error(position: Array, aim: Array, targets: Array) -> jax.Array:
    """The angle between the aim and the bearing of each target [n, 2], in [0, pi], [n]."""
    offset = targets - position
    difference = aim - jnp.arctan2(offset[:, 1], offset[:, 0])
    return jnp.abs((difference + jnp.pi) % (2 * jnp.pi) - jnp.pi)


def find_hit(position: Array, aim: Array) -> jax.Array:
    """The index of the target that is aimed at, the nearest in angle if there are several; -1 if none is."""
    error = aim_error(position, aim, TARGETS)
    return jnp.where(jnp.min(error) < HIT_TOLERANCE, jnp.argmin(error), -1)


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
