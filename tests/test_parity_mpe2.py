"""Multi-Particle moves exactly as the real `mpe2` does: compared after every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dusdi.envs.particle import MultiParticle, ParticleState

core = pytest.importorskip(
    "mpe2._mpe_utils.core", reason="needs mpe2, which is only installed for tests"
)
scenario = pytest.importorskip("mpe2._mpe_utils.scenario")
simple_env = pytest.importorskip("mpe2._mpe_utils.simple_env")

#: mpe2 takes (none, -x, +x, -y, +y) and Multi-Particle (none, +x, -x, +y, -y).
MPE2_ORDER = [0, 2, 1, 4, 3]


class FreeAgents(scenario.BaseScenario):
    """n agents without collisions, speech, reward or a place of their own."""

    def make_world(self, agents):
        world = core.World()
        for i in range(agents):
            agent = core.Agent()
            agent.name, agent.collide, agent.silent = f"agent_{i}", False, True
            world.agents.append(agent)
        return world

    def reset_world(self, world, np_random):
        for agent in world.agents:
            agent.state.p_pos, agent.state.p_vel = np.zeros(2), np.zeros(2)
            agent.state.c = np.zeros(world.dim_c)

    def reward(self, agent, world):
        return 0.0

    def observation(self, agent, world):
        return agent.state.p_pos


def make_reference(agents, steps):
    free_agents = FreeAgents()
    world = free_agents.make_world(agents)
    env = simple_env.SimpleEnv(free_agents, world, max_cycles=steps, continuous_actions=True)
    env.reset(seed=0)
    return env


def step_reference(env, action):
    """One step of the whole mpe2 environment by its own action path, then the wall it lacks."""
    for agent_action in action.reshape(-1, 5)[:, MPE2_ORDER]:
        env.step(agent_action)
    for agent in env.world.agents:
        agent.state.p_pos = np.clip(agent.state.p_pos, -1, 1)


def draw_actions(rng, steps, agents):
    """Noise around pushes that last 5 steps, so that agents speed up and run into the walls."""
    pushes = np.repeat(rng.uniform(-1, 1, (steps // 5, 5 * agents)), 5, axis=0)
    return np.clip(pushes + rng.normal(0, 0.3, pushes.shape), -1, 1).astype(np.float32)


@pytest.mark.parametrize("agents, steps", [(1, 400), (3, 400), (10, 300)])
@pytest.mark.parametrize("simple_actions", [False, True])
def test_every_step_agrees_with_mpe2(agents, steps, simple_actions):
    rng = np.random.default_rng(agents)
    position, station = rng.uniform(-1, 1, (2, agents, 2))
    velocity = rng.normal(0, 1, (agents, 2))
    env, world = make_reference(agents, steps + 1), MultiParticle(agents, simple_actions)
    for i, agent in enumerate(env.world.agents):
        agent.state.p_pos, agent.state.p_vel = position[i].copy(), velocity[i].copy()
    state = ParticleState(*map(jnp.float32, (position, velocity, station)))
    step, at_wall = jax.jit(world.step), []
    for action in draw_actions(rng, steps, agents):
        if simple_actions:  # mpe2 has none: push with one of each pair of opposite actions
            action.reshape(agents, 5)[:, [2, 4]] = 0
        step_reference(env, action)
        ours = action.reshape(agents, 5)[:, [1, 3]].ravel() if simple_actions else action
        state = step(state, ours, jax.random.PRNGKey(0))
        expected = np.array(
            [(*agent.state.p_pos, *agent.state.p_vel) for agent in env.world.agents]
        )
        np.testing.assert_allclose(np.hstack([state.position, state.velocity]), expected, atol=2e-5)
        at_wall.append(np.abs(expected[:, :2]) == 1)
    assert 0.05 < np.mean(at_wall) < 0.6
    np.testing.assert_array_equal(state.station, station.astype(np.float32))
