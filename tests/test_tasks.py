"""Tasks: rewards worked out by hand, and that the scripted expert solves each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from wrapped_worlds import random_action, roll_out

import dusdi
from dusdi.envs.gunner import GunnerState
from dusdi.envs.particle import MultiParticle, ParticleState
from dusdi.errors import UsageError
from dusdi.resolve import resolve_downstream
from dusdi.tasks import COMPARED_TASKS, SUSD_TASKS, TASKS, JaxTask, as_task, make_task
from dusdi.tasks.base import train_for
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


#: What the scripted expert earns at least in an episode, by what the task's name contains.
BARS = {"food-poison": 930, "sequential": 5_900, "gunner-2d": 19.5}


@pytest.mark.parametrize("name", [name for name in IN_JAX if name not in SUSD_TASKS])
def test_the_scripted_expert_solves_it_and_random_actions_do_not(name):
    task = make_task(name)
    bar = next(value for key, value in BARS.items() if key in name)
    if "food-poison" in name:
        bar *= len(task.spec.channels)
    length = task.spec.episode_length
    _, solved = roll_out(task, lambda state, key: task.expert_action(state), steps=length)
    _, random = roll_out(task, random_action(task), steps=length)
    assert solved.sum((0, 2)).mean() >= bar
    assert random.sum((0, 2)).mean() < 0.35 * bar


#: Steps that all agents learn the tasks of a world for.
BUDGETS = {
    "multi-particle": 4_096_000,
    "gunner-2d": 1_024_000,
    "walker": 1_024_000,
    "household": 256_000,
}


@pytest.mark.parametrize("name", TASKS)
def test_every_agent_learns_every_task_of_a_world_for_as_many_steps(name):
    budget = 500_000 if name in SUSD_TASKS else BUDGETS[name.split("/")[0]]
    presets = make_task(name).task_presets["fast"]
    assert presets["ppo"]["steps"] == presets["sac"]["steps"] == budget


@pytest.mark.parametrize("name", IN_JAX)
def test_a_learning_curve_has_thirty_to_sixty_points(name):
    task = make_task(name)
    for agent in ("ppo", "sac"):
        run = resolve_downstream(task, agent, "fast").settings.run
        assert 30 <= run.steps / run.log_every <= 60


def test_methods_are_compared_in_the_papers_tasks_and_with_targets_anywhere():
    assert len(COMPARED_TASKS) == 13 + 2 and len(SUSD_TASKS) == 4 + 3
    assert [name for name in COMPARED_TASKS if "anywhere" in name] == list(COMPARED_TASKS[13:])
    assert set(TASKS) == {*COMPARED_TASKS, *SUSD_TASKS}


@pytest.mark.parametrize("name", TASKS)
def test_every_field_of_a_tasks_presets_is_a_setting(name):
    task = make_task(name)
    for agent, fields in task.task_presets["fast"].items():
        settings = resolve_downstream(task, agent, "fast").settings.flat()
        assert {field: settings.get(field) for field in fields} == fields


def test_a_budget_changes_only_the_steps_and_no_other_task():
    presets = {"fast": {"ppo": {"clip": 0.3, "steps": 1}}, "debug": {"ppo": {"steps": 2}}}
    found = train_for(9, presets)
    assert found == {
        "fast": {"ppo": {"clip": 0.3, "steps": 9}, "sac": {"steps": 9}},
        "debug": {"ppo": {"steps": 2}},
    }
    assert presets["fast"]["ppo"]["steps"] == 1


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
    _, reward = task.score(poison, world, NO)
    # at stations 0, 2, 4, 6, 9: at food, at poison, away from food, away from poison, at food
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


def test_the_phase_of_the_window_is_observed_and_the_time_is_not():
    task = make_task("multi-particle/food-poison-easy")
    state = task.reset(jax.random.PRNGKey(0))
    phases = [float(task.observe(state._replace(age=jnp.int32(age)))[-1]) for age in (0, 1, 49, 50)]
    np.testing.assert_allclose(phases, [0, 0.02, 0.98, 0])
    early, late = (task.observe(state._replace(age=jnp.int32(age))) for age in (7, 957))
    np.testing.assert_array_equal(early, late)


def test_sequential_charges_penalises_advances_and_pays_when_all_is_done():
    task = make_task("multi-particle/sequential-easy")
    start = Progress(jnp.array([3, 7, 0, 1, 2, 4, 5, 6, 8, 9]), jnp.int32(0), jnp.int32(40))
    away = [0.9] * 10
    busy, reward = task.score(start, particles([*away[:3], 0.1, *away[4:]]), NO)
    assert int(busy.charge) == 41
    np.testing.assert_array_equal(reward, np.zeros(11))
    # The wrong agent is at its station, and the right one is not.
    idle, reward = task.score(start, particles([0.1, *away[1:]]), NO)
    assert int(idle.charge) == 40
    np.testing.assert_allclose(reward, [-0.1, 0, 0, -0.1, 0, 0, 0, 0, 0, 0, 0], atol=1e-7)
    after = task.resample(busy, None)
    assert int(after.done) == 1 and int(after.charge) == 0
    assert int(task.resample(idle, None).done) == 0  # forty steps are not more than forty
    np.testing.assert_array_equal(task.observe_variables(after), np.eye(10)[7])
    np.testing.assert_array_equal(task.expert_skill(after, None), np.where(np.eye(10)[7], 0, 4))
    done = start._replace(done=jnp.int32(2))
    _, reward = task.score(done, particles([0.1] * 10), NO)
    np.testing.assert_array_equal(reward, [*[0] * 10, 10])
    np.testing.assert_array_equal(task.observe_variables(done), np.zeros(10))


@pytest.mark.parametrize("limited", [False, True])
def test_a_shot_scores_at_the_end_of_a_window_from_near_at_a_target_that_is_up(limited):
    task = make_task("gunner-2d/limited" if limited else "gunner-2d/unlimited")
    up = jnp.array([True, False, False, True])

    def score(position, aim, ammo=1.0, window_ends=YES):
        world = GunnerState(*map(jnp.float32, (position, (0, 0), ammo, aim)))
        _, reward = task.score(up, world, window_ends)
        return float(reward[0]), float(task.update_world(world, window_ends).ammo)

    down_left = -3 * np.pi / 4
    assert score((1.0, 1.0), down_left) == (1.0, pytest.approx(1 - SHOT if limited else 1.0))
    assert score((1.0, 1.0), down_left, window_ends=NO) == (0.0, 1.0)
    assert score((1.0, 1.0), 0.0)[0] == 0.0  # aims past it
    assert score((3.0, 3.0), down_left)[0] == 0.0  # too far
    assert score((4.0, 1.0), -np.pi / 4)[0] == 0.0  # that target is not up
    empty = score((1.0, 1.0), down_left, ammo=0.1)
    assert empty == (0.0 if limited else 1.0, pytest.approx(0.1))


def test_the_gunner_expert_goes_to_the_nearest_target_that_is_up():
    task = make_task("gunner-2d/unlimited")
    world = GunnerState(*map(jnp.float32, ((4.0, 1.5), (0, 0), 0.0, 0.0)))
    for up, target in (([0, 1, 0, 1], 1), ([1, 0, 0, 1], 3), ([1, 0, 1, 0], 0)):
        skill = task.expert_skill(jnp.array(up, bool), world)
        np.testing.assert_array_equal(skill, [target, 3 - target, target])


@pytest.mark.parametrize("limited", [False, True])
def test_a_shot_at_a_target_anywhere_scores_from_within_its_range(limited):
    task = make_task(f"gunner-2d/{'limited' if limited else 'unlimited'}-anywhere")
    target = jnp.array([3.0, 2.0])

    def score(position, aim, ammo=1.0, window_ends=YES):
        world = GunnerState(*map(jnp.float32, (position, (0, 0), ammo, aim)))
        _, reward = task.score(target, world, window_ends)
        return float(reward[0]), float(task.update_world(world, window_ends).ammo)

    # From (1, 2) the target is at bearing 0 in a distance of 2.
    assert score((1.0, 2.0), 0.3) == (1.0, pytest.approx(1 - SHOT if limited else 1.0))
    assert score((1.0, 2.0), 0.3, window_ends=NO) == (0.0, 1.0)
    assert score((1.0, 2.0), 0.32)[0] == 0.0  # beyond pi / 10 = 0.314
    assert score((0.01, 2.0), -0.3)[0] == 1.0  # 2.99 away
    assert score((3.0, 5.01), -1.57)[0] == 0.0  # 3.01 away
    assert score((5.0, 2.0), -3.1)[0] == 1.0  # the bearing is pi: near, the other way round
    empty = score((1.0, 2.0), 0.0, ammo=0.19)
    assert empty == (0.0 if limited else 1.0, pytest.approx(0.19))
    np.testing.assert_array_equal(task.observe_variables(target), [3, 2])


def test_a_target_appears_anywhere_in_the_plane():
    task = make_task("gunner-2d/limited-anywhere")
    places = jax.vmap(task.draw_targets)(jax.random.split(jax.random.PRNGKey(0), 4_000))
    # Uniform in [0, 5]: the mean is 2.5 and the deviation 5 / sqrt(12).
    np.testing.assert_allclose(places.mean(0), 2.5, atol=0.1)
    np.testing.assert_allclose(places.std(0), 1.443, atol=0.05)
    assert 0 <= places.min() < 0.05 and 4.95 < places.max() <= 5


def test_a_task_by_name_is_set_in_the_world_of_the_run():
    spec = MultiParticle(12).spec
    assert as_task("multi-particle/food-poison-easy", spec).world.spec == spec
    assert as_task("gunner-2d/limited", spec).world.spec.name == "gunner-2d"
    assert make_task("multi-particle/food-poison-easy").world.agents == 10


def test_each_task_says_what_it_asks_for_and_no_two_say_the_same():
    texts = {name: make_task(name).about for name in TASKS}
    assert len(set(texts.values())) == len(TASKS)
    assert all(text.endswith(".") for text in texts.values())
    for level, count in (("easy", 2), ("medium", 5), ("hard", 8)):
        assert texts[f"multi-particle/food-poison-{level}"].startswith(f"{count} of 10 stations")
        assert texts[f"multi-particle/sequential-{level}"].startswith(f"{count} of 10 agents")
    assert "5 of 12 stations" in make_task("multi-particle/food-poison-medium", agents=12).about


def test_impossible_tasks_are_refused():
    with pytest.raises(UsageError, match=r"station 9, but there are 4; try agents=10"):
        make_task("multi-particle/food-poison-medium", agents=4)
    with pytest.raises(UsageError, match="instructs 8 agents, but there are 7"):
        make_task("multi-particle/sequential-hard", agents=7)
    with pytest.raises(UsageError, match="did you mean gunner-2d/limited"):
        dusdi.make_task("gunner-2d/limitted")
    with pytest.raises(UsageError, match="does not take these options"):
        dusdi.make_task("gunner-2d/limited", agents=3)
