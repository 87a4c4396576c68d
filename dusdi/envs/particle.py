"""Multi-Particle: point agents and stations in a plane, where agent i only has to do with station i.

The physics is that of the Multi-Agent Particle Environments (Lowe et al. 2017) without collisions, and is tested
step by step against `mpe2`. One controller moves all agents, and each skill component is to control how far
one agent is from its station, which makes this the world with the most factors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import ORACLE_VALUES, JaxWorld
from dusdi.envs.canvas import HUES, INK, PAPER, Canvas, fade
from dusdi.errors import UsageError
from dusdi.types import Factor, WorldSpec

TIME_STEP = 0.1  # seconds; World.dt in mpe2
DAMPING = 0.25  # part of the velocity lost per step; World.damping in mpe2
SENSITIVITY = (
    5.0  # acceleration per unit of action (all masses are 1); SimpleEnv._set_action in mpe2
)
HALF_WIDTH = 1.0  # positions are in [-1, 1]; from the first release of DUSDi, mpe2 has no walls
REACH = 1.25  # a little less than what every agent can be away from its station, wherever that is
FULL_ACTION, SIMPLE_ACTION = 5, 2  # action entries per agent: (none, +x, -x, +y, -y) or (x, y)
MOST_AGENTS = 1000


class ParticleState(NamedTuple):
    """Where everything is.

    Attributes:
      position: of the agents, [n, 2].
      velocity: of the agents, [n, 2].
      station: positions of the stations, [n, 2]; they stay where they are during an episode.
    """

    position: jax.Array
    velocity: jax.Array
    station: jax.Array


class MultiParticle(JaxWorld):
    """n agents and n stations; the observation is n distances, n times [vx, vy, px, py], n times [x, y]."""

    #: The first reward is tiny beside the entropy of fifty action entries, so the temperature starts low; it then rises to keep
    #: the policy from freezing, which cost a tenth of disentanglement. See docs/experiments.md, also for what gathers each skill
    #: at one distance.
    presets = {
        "fast": dict(
            steps=3_072_000,
            alpha=0.02,
            learn_alpha=True,
            target_entropy=0.4,
            discount=0.93,  # far enough to go past what others claim
            prior_mixture=0.3,  # and cheap enough
            rbf_features=18,  # values keep as far apart as bumps are wide; too far, and the last ones don't fit everywhere
            discriminator_decay=1e-2,  # without, a value claims both ends
            background_weight=1.5,
            background_steps=3_072_000,
        )
    }
    paper_dci = {"dusdi": (0.705, 0.750, 0.849), "diayn-mc": (0.002, 0.003, 0.791)}
    larger = ({"agents": 20}, {"agents": 40})

    def __init__(self, agents: int = 10, simple_actions: bool = False):
        if (
            isinstance(agents, bool)
            or not isinstance(agents, int)
            or not 1 <= agents <= MOST_AGENTS
        ):
            raise UsageError(
                f"multi-particle has 1 to {MOST_AGENTS} agents, not {agents!r}; try agents=10"
            )
        self._agents, self._simple_actions = agents, simple_actions
        self.spec = WorldSpec(
            name="multi-particle",
            options={"agents": agents, "simple_actions": simple_actions},
            observation_size=7 * agents,
            action_size=(SIMPLE_ACTION if simple_actions else FULL_ACTION) * agents,
            factors=list_factors(agents),
            episode_length=1000,
        )
        if (
            agents > 10
        ):  # most of the time would go into inputs that have nothing to do with a component; fewer don't pay
            self.presets = {
                "fast": {**self.presets["fast"], "input_limit": 32, "input_limit_from": 1_536_000}
            }

    def oracle(self, observation, skill):
        """Keeps each agent at one of five even distances from its station, on the way to the corner farthest from that."""
        n = self._agents
        velocity, position = np.split(observation[:, n : 5 * n].reshape(-1, n, 4), 2, axis=-1)
        station = observation[:, 5 * n :].reshape(-1, n, 2)
        outward = -np.where(station > 0, 1.0, -1.0) * HALF_WIDTH - station
        distance = np.linspace(0.0, REACH, ORACLE_VALUES)[skill][..., None]
        goal = station + distance * outward / np.linalg.norm(outward, axis=-1, keepdims=True)
        # The position after the next step is settled already; the velocity after it is chosen to be at the goal after two.
        speed = (goal - (position + TIME_STEP * velocity)) / TIME_STEP
        force = (speed - (1 - DAMPING) * velocity) / (TIME_STEP * SENSITIVITY)
        if (
            not self._simple_actions
        ):  # an entry for each sign, at half of it: (none, +x, -x, +y, -y)
            x, y = force[..., :1] / 2, force[..., 1:] / 2
            force = np.concatenate([np.zeros_like(x), x, -x, y, -y], axis=-1)
        return np.clip(force, -1.0, 1.0).reshape(len(observation), -1).astype(np.float32)

    def reset(self, key):
        agent_key, station_key = jax.random.split(key)
        shape = (self._agents, 2)
        return ParticleState(
            position=jax.random.uniform(agent_key, shape, minval=-HALF_WIDTH, maxval=HALF_WIDTH),
            velocity=jnp.zeros(shape),
            station=jax.random.uniform(station_key, shape, minval=-HALF_WIDTH, maxval=HALF_WIDTH),
        )

    def step(self, state, action, key):
        del key
        force = self._force(jnp.clip(action, -1.0, 1.0))
        position = (
            state.position + TIME_STEP * state.velocity
        )  # with the old velocity, as mpe2 does it
        velocity = (1 - DAMPING) * state.velocity + TIME_STEP * SENSITIVITY * force
        return ParticleState(jnp.clip(position, -HALF_WIDTH, HALF_WIDTH), velocity, state.station)

    def _force(self, action):
        if self._simple_actions:
            return action.reshape(self._agents, SIMPLE_ACTION)
        # The order of OpenAI's MPE and of the first release; mpe2 has the signs the other way round.
        _, right, left, up, down = action.reshape(self._agents, FULL_ACTION).T
        return jnp.stack([right - left, up - down], axis=1)

    def observe(self, state):
        distance = jnp.linalg.norm(state.position - state.station, axis=1)
        agents = jnp.concatenate([state.velocity, state.position], axis=1)
        return jnp.concatenate([distance, agents.ravel(), state.station.ravel()])

    def render(self, state):
        return self.draw(state).image()

    def draw(self, state) -> Canvas:
        """A picture that can still be drawn on."""
        position, velocity, station = (np.asarray(part) for part in state)
        canvas = Canvas(-1.16 * HALF_WIDTH, 1.16 * HALF_WIDTH)
        canvas.grid(-HALF_WIDTH, HALF_WIDTH, 0.25)
        colours = [HUES[i % len(HUES)] for i in range(self._agents)]
        for colour, agent, goal in zip(colours, position, station, strict=True):
            canvas.line(agent, goal, fade(colour, 0.45), 1.5)
        for colour, goal in zip(colours, station, strict=True):
            canvas.disc(goal, 0.095, PAPER)
            canvas.disc(goal, 0.095, fade(colour, 0.3), colour, 2.5)
        for colour, agent, speed in zip(colours, position, velocity, strict=True):
            canvas.line(agent, agent + TIME_STEP * speed, fade(INK, 0.8), 2)
            canvas.disc(agent, 0.045, colour, INK, 1.5)
        return canvas


def list_factors(agents: int) -> tuple[Factor, ...]:
    """A controlled factor per station, its distance, and a factor per agent, with the place of its station."""
    stations, motions = [], []
    for i in range(agents):
        stations.append(Factor(f"station {i}", (i,)))
        motion = range(agents + 4 * i, agents + 4 * i + 4)
        place = range(5 * agents + 2 * i, 5 * agents + 2 * i + 2)
        motions.append(Factor(f"agent {i}", (*motion, *place), controlled=False))
    return (*stations, *motions)
