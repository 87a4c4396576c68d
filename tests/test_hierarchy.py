"""Skills as actions: L steps at a time, ends in the middle of a skill, stagger, and returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import HostTrack, Track, linear_skills, make_space

from dusdi.hierarchy import CompiledHierarchy, HostHierarchy, SkillStepper
from dusdi.high_level import make_high_level_trainer
from dusdi.resolve import resolve_downstream
from dusdi.skill_env import SkillEnv, SkillVectorEnv
from dusdi.spaces import Categorical
from dusdi.stepping import Step
from dusdi.training import take_metrics

KEY = jax.random.PRNGKey(0)
# Each component moves its own point: value 0 back, value 1 not at all, value 2 forwards.
SPACE = make_space(first=Categorical(3), second=Categorical(3))
MATRIX = 20.0 * np.array([[-1, 0], [0, 0], [1, 0], [0, -1], [0, 0], [0, 1]])
BACK, STAY, GO = 0, 1, 2


def make_skills(length=5):
    return linear_skills(Track.spec, SPACE, MATRIX, length)


class Compiled:
    """A `CompiledHierarchy` that is driven like a `HostHierarchy`."""

    def __init__(self, task, skills, num_envs, **options):
        self._hierarchy = CompiledHierarchy(task, skills, num_envs, **options)
        self._params = skills.params
        self._step = jax.jit(self._hierarchy.step)

    def reset(self, seed):
        self._episodes, observation = self._hierarchy.init(jax.random.PRNGKey(seed))
        return np.asarray(observation)

    def step(self, skill):
        self._episodes, step = self._step(self._params, self._episodes, KEY, jnp.asarray(skill))
        return step


HIERARCHIES = {
    "compiled": lambda *args, **options: Compiled(Track(), *args, **options),
    "host": lambda *args, **options: HostHierarchy(HostTrack(), *args, **options),
    "JAX on the host": lambda *args, **options: HostHierarchy(Track(), *args, **options),
}
each_hierarchy = pytest.mark.parametrize("make", HIERARCHIES.values(), ids=HIERARCHIES)


@each_hierarchy
def test_a_skill_acts_for_L_steps_and_earns_their_mean(make):
    hierarchy = make(make_skills(5), 2)
    np.testing.assert_array_equal(hierarchy.reset(0), np.zeros((2, 2)))
    step = hierarchy.step(np.array([[BACK, GO], [STAY, BACK]]))
    np.testing.assert_allclose(step.next_observation, [[-5, 5], [0, -5]])
    np.testing.assert_allclose(step.reward, [[-3, 3], [0, -3]])  # (1 + 2 + 3 + 4 + 5) / 5
    assert not step.done.any()
    np.testing.assert_array_equal(step.observation, step.next_observation)


@each_hierarchy
def test_a_decision_may_be_shorter_than_skills_were_learned_with(make):
    hierarchy = make(make_skills(50), 2, decision_length=5)
    hierarchy.reset(0)
    step = hierarchy.step(np.array([[BACK, GO], [STAY, BACK]]))
    np.testing.assert_allclose(step.next_observation, [[-5, 5], [0, -5]])
    np.testing.assert_allclose(step.reward, [[-3, 3], [0, -3]])  # (1 + 2 + 3 + 4 + 5) / 5


def test_the_program_does_not_grow_with_the_length_of_skills():
    sizes = []
    for length in (5, 100):
        skills = make_skills(length)
        hierarchy = CompiledHierarchy(Track(), skills, 2)
        episodes, _ = hierarchy.init(KEY)
        skill = jnp.ones((2, 2), jnp.int32)
        program = jax.make_jaxpr(hierarchy.step)(skills.params, episodes, KEY, skill)
        sizes.append(len(program.eqns))
    assert sizes[0] == sizes[1]


@each_hierarchy
def test_termination_in_the_middle_of_a_skill(make):
    """The first point reaches the edge in step 3 of 5: nothing is earned after that."""
    hierarchy = make(make_skills(5), 3)
    hierarchy.reset(0)
    step = hierarchy.step(np.array([[GO, GO], [STAY, STAY], [GO, BACK]]))
    np.testing.assert_allclose(step.next_observation, [[3, 3], [0, 0], [3, -3]])
    np.testing.assert_allclose(step.reward, [[6 / 5, 6 / 5], [0, 0], [6 / 5, -6 / 5]])
    np.testing.assert_array_equal(step.terminated, [True, False, True])
    np.testing.assert_array_equal(step.done, [True, False, True])
    np.testing.assert_allclose(step.observation, np.zeros((3, 2)))
    # The new episodes are as old as they look: they last ten steps, the other one five more.
    step = hierarchy.step(np.array([[STAY, GO], [STAY, GO], [BACK, STAY]]))
    np.testing.assert_array_equal(step.done, [False, True, False])
    np.testing.assert_array_equal(step.terminated, [False, False, False])
    np.testing.assert_allclose(step.next_observation, [[0, 5], [0, 5], [-5, 0]])
    np.testing.assert_allclose(step.observation, [[0, 5], [0, 0], [-5, 0]])
    step = hierarchy.step(np.array([[STAY, STAY]] * 3))
    np.testing.assert_array_equal(step.done, [True, False, True])


@each_hierarchy
def test_the_end_of_an_episode_cuts_a_skill_short(make):
    hierarchy = make(make_skills(4), 2)  # episodes of ten steps
    hierarchy.reset(0)
    steps = [hierarchy.step(np.array([[BACK, STAY]] * 2)) for _ in range(3)]
    assert [bool(step.done.all()) for step in steps] == [False, False, True]
    np.testing.assert_allclose(steps[-1].next_observation[0], [-10, 0])
    np.testing.assert_allclose(steps[-1].reward[0], [-19 / 4, 0])  # -(9 + 10) / 4
    assert not steps[-1].terminated.any()
    np.testing.assert_array_equal(steps[-1].observation, np.zeros((2, 2)))


def test_all_hierarchies_give_equal_numbers():
    skills = np.random.default_rng(0).integers(0, 3, (12, 6, 2))
    skills[..., 1] = np.minimum(skills[..., 1], STAY)  # the world on the host truncates otherwise
    hierarchies = [make(make_skills(4), 6, stagger=True) for make in HIERARCHIES.values()]
    stepper = SkillStepper(Track(), make_skills(4), 6)
    for hierarchy in hierarchies:
        hierarchy.reset(1)
    stepper.reset(1)
    ends = 0
    for skill in skills:
        steps = [hierarchy.step(skill) for hierarchy in hierarchies]
        for other in steps[1:]:
            for name, ours, theirs in zip(other._fields, other, steps[0], strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, err_msg=name)
        ends += int(np.sum(steps[0].terminated))
    assert ends > 5


@each_hierarchy
def test_episodes_are_staggered_in_multiples_of_L(make):
    hierarchy = make(make_skills(5), 4, stagger=True)  # ages 0, 0, 5 and 5
    hierarchy.reset(0)
    stay = np.full((4, 2), STAY)
    ends = [np.asarray(hierarchy.step(stay).done).tolist() for _ in range(3)]
    assert ends == [[False, False, True, True], [True, True, False, False], ends[0]]


@pytest.mark.parametrize("task", [Track(), HostTrack()], ids=["compiled", "host"])
def test_without_autoreset_the_last_observation_stays(task):
    stepper = SkillStepper(task, make_skills(5), 1, autoreset=False)
    stepper.reset(0)
    step = stepper.step(np.array([[GO, STAY]]))
    assert step.done[0]
    np.testing.assert_allclose(step.observation, [[3, 0]])
    np.testing.assert_allclose(stepper.reset(0), [[0, 0]])
    assert not stepper.step(np.array([[STAY, STAY]])).done[0]


# --- Gymnasium ---


@pytest.mark.parametrize("task", [Track(), HostTrack()], ids=["compiled", "host"])
def test_skills_of_one_category_are_discrete_actions(task):
    space = make_space(skill=Categorical(3))
    skills = linear_skills(Track.spec, space, MATRIX[:3], 5)
    env = SkillEnv(task, skills)
    env.reset(seed=0)
    observation, reward, terminated, truncated, _ = env.step(GO)
    np.testing.assert_allclose(observation, [3, 0])
    assert reward == pytest.approx(6 / 5)
    assert (terminated, truncated) == (True, False)
    for num_envs in (1, 2):
        several = SkillVectorEnv(task, skills, num_envs)
        several.reset(seed=0)
        _, reward, *_ = several.step(np.full(num_envs, BACK))
        np.testing.assert_allclose(reward, [-3.0] * num_envs)


# --- returns ---


class Steady(Track):
    """Pays 1 and 2 for every step, so that an episode of ten steps returns 10 and 20."""

    def reward(self, state):
        return jnp.array([1.0, 2.0])


def make_trainer(task, **fields):
    defaults = dict(num_envs=4, rollout_length=2, batch_size=8, epochs=1)
    settings = resolve_downstream(task, "cpg", "debug", {**defaults, **fields}).settings
    return make_high_level_trainer(task, make_skills(5), settings)


def test_returns_are_those_of_whole_episodes():
    """Two of the four episodes begin in the middle, and would return 5 and 10."""
    trainer = make_trainer(Steady(edge=99))
    state = trainer.init()
    rows = []
    for _ in range(4):  # each two high-level steps, as long as an episode
        state = trainer.advance(state, 1, False)
        state, (row,) = take_metrics(trainer, state)
        rows.append(row)
    for row in rows[1:]:
        assert row["episodes"] == 4
        assert row["return"] == pytest.approx(30)
        assert row["return/first"] == pytest.approx(10)
        assert row["return/second"] == pytest.approx(20)
    # In the first iteration, only those count that began in it.
    assert rows[0]["episodes"] == 2
    assert rows[0]["return"] == pytest.approx(30)


def test_on_the_host_returns_are_counted_from_every_restart_on():
    """At a checkpoint, episodes begin anew at staggered ages."""
    trainer = make_trainer(HostTrack(edge=99))
    state = trainer.init()
    for _ in range(2):
        state = trainer.restart(state)
        np.testing.assert_array_equal(state.counted, [True, True, False, False])
        state = trainer.advance(state, 1, False)
        state, (row,) = take_metrics(trainer, state)
        assert row["episodes"] == 2
    trainer.close()


def test_returns_by_hand():
    trainer = make_trainer(Track())
    state = trainer.init()
    state = state.replace(counted=jnp.array([False, True, True, False]))
    zeros = jnp.zeros((4, 2))

    def step(reward, done):
        return Step(zeros, jnp.asarray(reward), jnp.array(done), jnp.array(done), zeros)

    first = step([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [0.0, 0.0]], [True, False, True, False])
    second = step([[4.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [True, True, False, True])
    state = trainer._count_returns(state, first)
    # The mean over L = 5 steps of 3 makes 15; the first environment's episode does not count.
    assert (state.metrics["return"], state.metrics["episodes"]) == (15, 1)
    state = trainer._count_returns(state, second)
    # 4 and 2 + 1 + 1 in the mean; the last environment's episode does not count either.
    assert (state.metrics["return"], state.metrics["episodes"]) == (15 + 20 + 20, 3)
    assert (state.metrics["return/first"], state.metrics["return/second"]) == (50, 5)
    np.testing.assert_array_equal(state.earned, [[0, 0], [0, 0], [0, 5], [0, 0]])
    np.testing.assert_array_equal(state.counted, [True] * 4)


def test_time_limits_are_bootstrapped_and_terminations_are_not():
    """What PPO learns from: a rollout says which ends were for good."""
    trainer = make_trainer(Track())
    state = trainer.init()
    zeros = jnp.zeros((4, 2))
    ends = jnp.array([True, False, True, False])
    done = jnp.array([True, True, True, False])
    step = Step(zeros + 1, jnp.ones((4, 2)), ends, done, zeros)
    choice = jnp.zeros((4, 2), jnp.int32)
    state, row = trainer.record(state, choice, step)
    np.testing.assert_array_equal(row.terminated, ends)
    np.testing.assert_array_equal(row.done, done)
    value = trainer.agent.value(state.agent, zeros + 1)
    np.testing.assert_allclose(row.next_value, value, rtol=1e-5)
    np.testing.assert_array_equal(state.observation, zeros)
