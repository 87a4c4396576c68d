"""Tasks: rewards worked out by hand, and that each can be solved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dusdi
from dusdi.config import AGENTS
from dusdi.envs.gunner import GunnerState
from dusdi.envs.particle import ParticleState
from dusdi.errors import UsageError
from dusdi.evaluation import ceiling_returns, returns
from dusdi.task_learning import agent_config
from dusdi.tasks import TASKS, JaxTask, make_task
from dusdi.tasks.gunner import SHOT
from dusdi.tasks.particle import LISTED, Progress

IN_JAX = [name for name in TASKS if isinstance(make_task(name), JaxTask)]
NO = jnp.bool_(False)
YES = jnp.bool_(True)


def particles(distances):
    """Agents at so many units to the right of their stations, all at rest."""
    station = jnp.zeros((len(distances), 2))
    position = station.at[:, 0].set(jnp.asarray(distances))
    return ParticleState(position, jnp.zeros_like(station), station)


@pytest.mark.parametrize("name", IN_JAX)
def test_the_hand_written_solution_solves_it_and_random_actions_do_not(name):
    task = make_task(name)
    best = {"food-poison": 930 * len(task.spec.channels), "sequential": 5_900, "gunner-2d": 19.5}
    solved = ceiling_returns(task, episodes=8).sum(1).mean()
    rng = np.random.default_rng(0)

    def random_action(observation, _):
        return rng.uniform(-1, 1, (len(observation), task.spec.action_size)).astype(np.float32)

    random = returns(task, lambda o: o, random_action, interval=1, episodes=8, seed=0).sum(1).mean()
    bar = next(value for key, value in best.items() if key in name)
    assert solved >= bar
    assert random < 0.35 * bar


@pytest.mark.parametrize("name", TASKS)
def test_every_agent_learns_a_task_for_as_many_steps(name):
    assert len({agent_config(make_task(name), agent, "fast", {}).steps for agent in AGENTS}) == 1


@pytest.mark.parametrize("name", IN_JAX)
def test_a_task_adds_to_the_worlds_observation_and_names_its_channels(name):
    task = make_task(name)
    state = task.reset(jax.random.PRNGKey(0))
    seen = np.asarray(task.observe(state))
    np.testing.assert_array_equal(
        seen[: task.world.spec.observation_size], task.world.observe(state.world)
    )
    assert len(seen) == task.spec.observation_size
    assert task.causal.shape == (len(task.spec.channels), len(task.world.spec.controlled))
    assert (
        task.spec.factors[:-1] == task.world.spec.factors and not task.spec.factors[-1].controlled
    )
    assert task.render(jax.tree.map(np.asarray, state)).dtype == np.uint8


def test_food_poison_pays_for_being_where_food_is_and_away_from_poison():
    task = make_task("multi-particle/food-poison-medium")
    world = particles([0.1, 0.1, 0.1, 0.1, 0.9, 0.1, 0.9, 0.1, 0.1, 0.59])
    poison = jnp.zeros(10, bool).at[jnp.array([2, 6])].set(True)
    _, _, reward = task.judge(poison, world, NO)
    # listed stations 0, 2, 4, 6, 9: there and food, there and poison, away and food, away and poison, there and food
    np.testing.assert_array_equal(reward, [1, -1, -1, 1, 1])


def test_each_food_poison_channel_depends_on_the_component_of_its_station():
    for level, listed in LISTED.items():
        causal = make_task(f"multi-particle/food-poison-{level}").causal
        assert [list(np.flatnonzero(row)) for row in causal] == [[i] for i in listed]


def test_indicators_change_every_fifty_steps_only():
    task = make_task("multi-particle/food-poison-hard")
    state, step = task.reset(jax.random.PRNGKey(0)), jax.jit(task.step)
    seen = [np.asarray(state.variables)]
    for t in range(100):
        state = step(state, jnp.zeros(50), jax.random.PRNGKey(t))
        seen.append(np.asarray(state.variables))
    changes = [t for t in range(100) if (seen[t] != seen[t + 1]).any()]
    assert set(changes) <= {49, 99} and changes
    assert float(task.observe(state)[-1]) == 2.0  # time, in windows


def test_sequential_charges_penalises_advances_and_pays_when_all_is_done():
    task = make_task("multi-particle/sequential-easy")
    begun = Progress(jnp.array([3, 7, 0, 1, 2, 4, 5, 6, 8, 9]), jnp.int32(0), jnp.int32(40))
    away = [0.9] * 10
    busy, _, reward = task.judge(begun, particles([*away[:3], 0.1, *away[4:]]), NO)
    assert int(busy.charge) == 41
    np.testing.assert_array_equal(reward, np.zeros(11))
    idle, _, reward = task.judge(
        begun, particles([0.1, *away[1:]]), NO
    )  # the wrong agent, and not the right one
    assert int(idle.charge) == 40
    np.testing.assert_allclose(reward, [-0.1, 0, 0, -0.1, 0, 0, 0, 0, 0, 0, 0], atol=1e-7)
    assert int(task.turn(busy, None).done) == 1 and int(task.turn(busy, None).charge) == 0
    assert int(task.turn(idle, None).done) == 0  # forty steps are not more than forty
    np.testing.assert_array_equal(task.tell(task.turn(busy, None)), np.eye(10)[7])
    done = begun._replace(done=jnp.int32(2))
    _, _, reward = task.judge(done, particles([0.1] * 10), NO)
    np.testing.assert_array_equal(reward, [*[0] * 10, 10])
    np.testing.assert_array_equal(task.tell(done), np.zeros(10))


@pytest.mark.parametrize("limited", [False, True])
def test_a_shot_scores_at_the_end_of_a_window_from_near_at_a_target_that_is_up(limited):
    task = make_task("gunner-2d/limited" if limited else "gunner-2d/unlimited")
    up = jnp.array([True, False, False, True])

    def score(position, aim, ammo=1.0, last=YES):
        world = GunnerState(
            jnp.asarray(position), jnp.zeros(2), jnp.float32(ammo), jnp.float32(aim)
        )
        _, after, reward = task.judge(up, world, last)
        return float(reward[0]), float(after.ammo)

    down_left = -3 * np.pi / 4
    assert score((1.0, 1.0), down_left) == (1.0, pytest.approx(1 - SHOT if limited else 1.0))
    assert score((1.0, 1.0), down_left, last=NO) == (0.0, 1.0)
    assert score((1.0, 1.0), 0.0)[0] == 0.0  # aims past it
    assert score((3.0, 3.0), down_left)[0] == 0.0  # too far
    assert score((4.0, 1.0), -np.pi / 4)[0] == 0.0  # that target is not up
    assert score((1.0, 1.0), down_left, ammo=0.1)[0] == (0.0 if limited else 1.0)


def test_impossible_tasks_are_refused():
    with pytest.raises(UsageError, match=r"station 9, but there are 4; try agents=10"):
        make_task("multi-particle/food-poison-medium", agents=4)
    with pytest.raises(UsageError, match="instructs 8 agents, but there are 7"):
        make_task("multi-particle/sequential-hard", agents=7)
    with pytest.raises(UsageError, match="did you mean gunner-2d/limited"):
        dusdi.make_task("gunner-2d/limitted")
    with pytest.raises(UsageError, match="does not take these options"):
        dusdi.make_task("gunner-2d/limited", agents=3)
