"""SUSD's tasks: its protocol, worked out by hand, and the world's fixed layout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from wrapped_worlds import random_action, roll_out

from dusdi.envs.base import Discounting
from dusdi.envs.particle import MultiParticle, ParticleState
from dusdi.errors import UsageError
from dusdi.resolve import resolve_downstream
from dusdi.tasks import SUSD_TASKS, as_task, make_task

KEY = jax.random.PRNGKey(0)
#: The highest discounted returns, from the protocol: Σ_t 0.99^t over the ten decisions of an
#: episode is 9.562, and each station is worth 1. In sequential each instruction takes ten steps,
#: and a decision pays 10 after that: for two instructions 10 · (0.99^4 + … + 0.99^9) = 56.2.
CEILINGS = {
    "food-poison-easy": 19.1,
    "food-poison-medium": 47.8,
    "food-poison-hard": 76.5,
    "food-poison-difficult": 95.6,
    "sequential-easy": 56.2,
    "sequential-medium": 37.1,
    "sequential-hard": 18.4,
}
#: What of these the scripted reference reaches at least: it has to travel, in 50 steps.
SHARE = 0.9


def ideal_world(task, variables):
    """Every agent is where it should be, at once."""
    near = np.asarray(task.expert_skill(variables, None)) == 0
    position = np.zeros((len(near), 2))
    position[:, 0] = np.where(near, 0.1, 1.2)
    return ParticleState(*map(jnp.float32, (position, 0 * position, 0 * position)))


@pytest.mark.parametrize("level", CEILINGS)
def test_ceilings_of_an_ideal_that_is_paid_from_the_first_step_on(level):
    task = make_task(f"multi-particle/susd-{level}")
    state = task.reset(KEY)
    advance = jax.jit(task.advance)
    rewards = []
    for _ in range(task.spec.episode_length):
        state = advance(state, ideal_world(task, state.variables), KEY)
        rewards.append(float(state.reward.sum()))
    earned = task.discounting.weights(len(rewards)) @ rewards
    assert earned == pytest.approx(CEILINGS[level], abs=0.05)


@pytest.mark.parametrize("name", SUSD_TASKS)
def test_the_scripted_reference_solves_it_and_random_actions_do_not(name):
    task = make_task(name)
    weights = task.discounting.weights(50)
    ceiling = CEILINGS[name.removeprefix("multi-particle/susd-")]

    def earned(act):
        _, rewards = roll_out(task, act, steps=50, num_envs=64)
        return float((weights @ np.asarray(rewards).sum(2)).mean())

    assert SHARE * ceiling < earned(lambda state, key: task.expert_action(state)) <= ceiling
    assert earned(random_action(task)) < 0.35 * ceiling


def test_the_discounted_return_by_hand():
    weights = Discounting(0.5, 2).weights(5)
    # Means over two steps count 1, 1/2 and 1/4; the last two steps are cut short.
    np.testing.assert_allclose(weights, [0.5, 0.5, 0.25, 0.25, 0.125])


@pytest.mark.parametrize("name", SUSD_TASKS)
def test_episodes_are_short_and_begin_in_the_same_layout(name):
    task = make_task(name)
    assert task.spec.episode_length == 50 and task.world.spec.episode_length == 1000
    assert task.spec.options["layout"] == 0
    first, second = (task.reset(jax.random.PRNGKey(seed)).world for seed in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert set(task.published_returns) == {"susd", "dusdi"}


@pytest.mark.parametrize("name", SUSD_TASKS)
@pytest.mark.parametrize("preset", ["paper", "fast", "debug"])
def test_decisions_are_short_in_every_preset(name, preset):
    run = resolve_downstream(make_task(name), "ppo", preset).settings.run
    assert run.decision_length == 5
    if preset == "fast":
        assert run.steps % (run.num_envs * run.rollout_length * run.decision_length) == 0


def test_what_stations_offer_stays_for_an_episode_and_differs_between_episodes():
    task = make_task("multi-particle/susd-food-poison-difficult")
    state, step = task.reset(KEY), jax.jit(task.step)
    seen = [np.asarray(state.variables)]
    for t in range(49):
        state = step(state, jnp.zeros(50), jax.random.PRNGKey(t))
        seen.append(np.asarray(state.variables))
    assert len(np.unique(seen, axis=0)) == 1
    assert (np.asarray(task.reset(jax.random.PRNGKey(1)).variables) != seen[0]).any()


def test_an_instruction_is_checked_every_ten_steps_and_one_step_is_enough():
    task = make_task("multi-particle/susd-sequential-medium")
    state = task.reset(KEY)
    np.testing.assert_array_equal(state.variables.order[:3], [0, 2, 8])
    assert sorted(np.asarray(state.variables.order)) == list(range(10))
    ideal = ideal_world(task, state.variables)
    away = ideal._replace(position=ideal.position.at[:, 0].set(1.2))
    done = []
    for t in range(1, 31):
        # At the station in step 4 of the first check, never in the second one.
        state = task.advance(state, ideal if t == 4 else away, KEY)
        done.append(int(state.variables.done))
    assert done == [0] * 9 + [1] * 21
    # Now agent 2 is instructed. It is away from its station, and agent 0 is at its own: two
    # penalties of 0.1.
    reward = task.advance(state, ideal, KEY).reward
    np.testing.assert_allclose(reward, [-0.1, 0, -0.1, *[0] * 8], atol=1e-7)


def test_a_layout_is_the_same_in_all_episodes_and_another_for_another_seed():
    worlds = [MultiParticle(layout=layout) for layout in (0, 0, 1, None)]
    keys = [jax.random.PRNGKey(i) for i in range(4)]
    places = [np.asarray(world.reset(key).station) for world, key in zip(worlds, keys, strict=True)]
    np.testing.assert_array_equal(places[0], places[1])
    assert all((places[0] != other).any() for other in places[2:])
    assert "layout" not in MultiParticle().spec.options
    for layout in (-1, 0.5, True, "0", 2**31):
        with pytest.raises(UsageError, match="layout is a seed from 0 to"):
            MultiParticle(layout=layout)


def test_the_layout_is_that_of_the_skills_if_they_have_one():
    name = "multi-particle/susd-sequential-easy"
    assert as_task(name, MultiParticle(layout=7).spec).spec.options["layout"] == 7
    assert as_task(name, MultiParticle().spec).spec.options["layout"] == 0
    assert as_task("multi-particle/sequential-easy").spec.options.get("layout") is None


def test_a_world_without_the_stations_is_refused():
    with pytest.raises(UsageError, match=r"susd-sequential-hard is about station 9, but there are"):
        make_task("multi-particle/susd-sequential-hard", agents=8)
    with pytest.raises(UsageError, match=r"susd-food-poison-easy is about station 6, but there"):
        make_task("multi-particle/susd-food-poison-easy", agents=6)
