"""Multi-Particle: point agents and stations in a plane, where agent i belongs to station i.

The physics is that of the Multi-Agent Particle Environments (Lowe et al. 2017) without collisions,
and is tested step by step against `mpe2`. One policy moves all agents, and each skill component is
to control how far one agent is from its station, which makes this the world with the most factors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EXPERT_VALUES
from dusdi.envs.canvas import HUES, INK, PAPER, Canvas, fade, rgb
from dusdi.envs.pictured import PicturedWorld
from dusdi.errors import UsageError
from dusdi.raster import Discs
from dusdi.types import Factor, WorldSpec

TIME_STEP = 0.1  # seconds; World.dt in mpe2
DAMPING = 0.25  # part of the velocity lost per step; World.damping in mpe2
# Acceleration per unit of action (all masses are 1); SimpleEnv._set_action in mpe2.
SENSITIVITY = 5.0
HALF_WIDTH = 1.0  # positions are in [-1, 1]; from the first release of DUSDi, mpe2 has no walls
REACH = 1.25  # a little less than every agent can be away from its station, wherever that is
FULL_ACTION = 5  # action entries per agent: (none, +x, -x, +y, -y)
SIMPLE_ACTION = 2  # action entries per agent: (x, y)
MOST_AGENTS = 1000
# Pictures, as in the first release: 64 pixels, of which the square takes 58, and agents over
# stations, both in the agent's colour.
PIXELS = 64
PIXELS_PER_UNIT = 28.8
AGENT_RADIUS = 3.2
STATION_RADIUS = 5.3
LARGEST_LAYOUT = 2**31 - 1


#: The first rewards are tiny beside the entropy of fifty action entries, so the temperature starts
#: low; it then rises to keep the policy from becoming deterministic too early.
POLICY_SETTINGS = {"alpha": 0.02, "learn_alpha": True, "target_entropy": 0.4}
#: An agent on its way to its own distance passes through those of other values; the prior mixture
#: bounds what that costs. The width of the RBF features sets how far apart the values settle.
DISCRIMINATOR_SETTINGS = {"prior_mixture": 0.3, "rbf_features": 18, "discriminator_lr": 2e-3}


class ParticleState(NamedTuple):
    """The state of all agents and stations.

    Attributes:
      position: of the agents, [n, 2].
      velocity: of the agents, [n, 2].
      station: positions of the stations, [n, 2]; they stay where they are during an episode.
    """

    position: jax.Array
    velocity: jax.Array
    station: jax.Array


class MultiParticle(PicturedWorld):
    """n agents and n stations.

    The observation is n distances, n times [vx, vy, px, py] of an agent, n times [x, y] of a
    station.

    Args:
      agents: how many there are.
      simple_actions: whether an agent has two action entries (x, y) instead of five.
      layout: a seed from which all episodes draw the same first positions of agents and stations;
        by default each draws its own.
    """

    presets = {"fast": {"steps": 3_072_000}}
    method_presets = {
        "fast": {
            "dusdi": {
                **POLICY_SETTINGS,
                **DISCRIMINATOR_SETTINGS,
                "discount": 0.93,  # agents have a way to go
                # Distances of other agents tell nothing, so q_psi may be weak, and matters little.
                "penalty_hidden": (),
                "penalty_lr": 2e-3,
                "penalty_weight": 0.1,
                "background_weight": 1.5,
                "background_steps": 3_072_000,
            },
            "diayn-mc": {**POLICY_SETTINGS, **DISCRIMINATOR_SETTINGS, "discount": 0.93},
        }
    }
    tuning_task = "food-poison-medium"
    published_dci = {"dusdi": (0.705, 0.750, 0.849), "diayn-mc": (0.002, 0.003, 0.791)}
    larger = ({"agents": 20}, {"agents": 40})

    def __init__(self, agents: int = 10, simple_actions: bool = False, layout: int | None = None):
        if not _is_whole(agents) or not 1 <= agents <= MOST_AGENTS:
            raise UsageError(
                f"multi-particle has 1 to {MOST_AGENTS} agents, not {agents!r}; try agents=10"
            )
        if layout is not None and (not _is_whole(layout) or not 0 <= layout <= LARGEST_LAYOUT):
            raise UsageError(
                f"layout is a seed from 0 to {LARGEST_LAYOUT}, or null for a layout of each "
                f"episode's own, not {layout!r}; try layout=0"
            )
        if not isinstance(simple_actions, bool):
            raise UsageError(
                f"simple_actions is true or false, not {simple_actions!r}; try simple_actions=true"
            )
        self.agents = agents
        self._simple_actions = simple_actions
        self._layout = layout
        options: dict[str, Any] = {"agents": agents, "simple_actions": simple_actions}
        if layout is not None:  # runs without one are described as before there was a choice
            options["layout"] = layout
        self.spec = WorldSpec(
            name="multi-particle",
            options=options,
            observation_size=7 * agents,
            action_size=(SIMPLE_ACTION if simple_actions else FULL_ACTION) * agents,
            factors=list_factors(agents),
            episode_length=1000,
        )
        self.discs = list_discs(agents)

    def expert(self, state, skill):
        """Keeps each agent at one of five even distances from its station.

        It is there on the line to the corner that is farthest from the station.
        """
        station = state.station
        outward = -jnp.where(station > 0, 1.0, -1.0) * HALF_WIDTH - station
        distance = jnp.linspace(0.0, REACH, EXPERT_VALUES)[skill][:, None]
        goal = station + distance * outward / jnp.linalg.norm(outward, axis=1, keepdims=True)
        # The next position is settled by the velocity, so the next velocity is chosen to arrive at
        # the goal one step later.
        next_position = state.position + TIME_STEP * state.velocity
        velocity = (goal - next_position) / TIME_STEP
        force = (velocity - (1 - DAMPING) * state.velocity) / (TIME_STEP * SENSITIVITY)
        return jnp.clip(self._to_action(force), -1.0, 1.0)

    def _to_action(self, force: jax.Array) -> jax.Array:
        """The action [A] that applies forces [n, 2]."""
        if self._simple_actions:
            return force.ravel()
        x, y = (force / 2).T  # half of it by each of two opposite entries
        return jnp.stack([jnp.zeros_like(x), x, -x, y, -y], axis=1).ravel()

    def reset(self, key):
        if self._layout is not None:
            key = jax.random.PRNGKey(self._layout)
        agent_key, station_key = jax.random.split(key)
        shape = (self.agents, 2)
        return ParticleState(
            position=jax.random.uniform(agent_key, shape, minval=-HALF_WIDTH, maxval=HALF_WIDTH),
            velocity=jnp.zeros(shape),
            station=jax.random.uniform(station_key, shape, minval=-HALF_WIDTH, maxval=HALF_WIDTH),
        )

    def step(self, state, action, key):
        del key
        force = self._force(jnp.clip(action, -1.0, 1.0))
        position = state.position + TIME_STEP * state.velocity  # the old one, as in mpe2
        velocity = (1 - DAMPING) * state.velocity + TIME_STEP * SENSITIVITY * force
        return ParticleState(jnp.clip(position, -HALF_WIDTH, HALF_WIDTH), velocity, state.station)

    def _force(self, action):
        if self._simple_actions:
            return action.reshape(self.agents, SIMPLE_ACTION)
        # The order of OpenAI's MPE and of the first release; mpe2 has the signs reversed.
        _, right, left, up, down = action.reshape(self.agents, FULL_ACTION).T
        return jnp.stack([right - left, up - down], axis=1)

    def observe(self, state):
        distance = jnp.linalg.norm(state.position - state.station, axis=1)
        agents = jnp.concatenate([state.velocity, state.position], axis=1)
        return jnp.concatenate([distance, agents.ravel(), state.station.ravel()])

    def places(self, state):
        return jnp.concatenate([state.station, state.position])

    def observe_places(self, places, before):
        station, position = jnp.split(places, 2)
        velocity = (position - jnp.split(before, 2)[1]) / TIME_STEP
        return self.observe(ParticleState(position, velocity, station))

    def render(self, state):
        return self.draw(state).image()

    def draw(self, state) -> Canvas:
        """The picture of a state, which tasks draw on."""
        position, velocity, station = (np.asarray(part) for part in state)
        canvas = Canvas(-1.16 * HALF_WIDTH, 1.16 * HALF_WIDTH)
        canvas.grid(-HALF_WIDTH, HALF_WIDTH, 0.25)
        colours = [HUES[i % len(HUES)] for i in range(self.agents)]
        for colour, agent, goal in zip(colours, position, station, strict=True):
            canvas.line(agent, goal, fade(colour, 0.45), 1.5)
        for colour, goal in zip(colours, station, strict=True):
            canvas.disc(goal, 0.095, PAPER)
            canvas.disc(goal, 0.095, fade(colour, 0.3), colour, 2.5)
        for colour, agent, speed in zip(colours, position, velocity, strict=True):
            canvas.line(agent, agent + TIME_STEP * speed, fade(INK, 0.8), 2)
            canvas.disc(agent, 0.045, colour, INK, 1.5)
        return canvas


def list_discs(agents: int) -> Discs:
    """The discs of a picture: stations, and agents over them."""
    hues = [rgb(HUES[i % len(HUES)]) for i in range(agents)]
    names = [f"{kind} {i}" for kind in ("station", "agent") for i in range(agents)]
    radii = np.repeat(np.array([STATION_RADIUS, AGENT_RADIUS], np.float32), agents)
    return Discs(
        names=tuple(names),
        radii=radii,
        colours=np.array(hues * 2, np.float32),
        paper=np.ones(3, np.float32),
        pixels=PIXELS,
        scale=PIXELS_PER_UNIT,
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def list_factors(agents: int) -> tuple[Factor, ...]:
    """A controlled factor per station (its distance), then a factor per agent.

    The latter consists of the agent's motion and the place of its station.
    """
    stations = []
    motions = []
    for i in range(agents):
        stations.append(Factor(f"station {i}", (i,)))
        motion = range(agents + 4 * i, agents + 4 * i + 4)
        place = range(5 * agents + 2 * i, 5 * agents + 2 * i + 2)
        motions.append(Factor(f"agent {i}", (*motion, *place), controlled=False))
    return (*stations, *motions)
