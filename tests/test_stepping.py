"""The stepping core: true next observations, ends of all kinds, ages, and host and JAX alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import HostTrack, Noise, Track

from dusdi.errors import NonFiniteError, WorldError
from dusdi.stepping import CompiledStepper, Episodes, HostStepper, first_ages

KEY = jax.random.PRNGKey(0)
FORWARD = [1.0, 0.0]
STAY = [0.0, 0.0]
UP = [0.0, 1.0]


class Compiled:
    """A `CompiledStepper` that is driven like a `HostStepper`."""

    def __init__(self, world, num_envs, episode_length=None, **options):
        length = episode_length or world.spec.episode_length
        self._stepper = CompiledStepper(world, num_envs, length, **options)
        self._step = jax.jit(self._stepper.step)

    def reset(self, seed):
        self._key = jax.random.PRNGKey(seed)
        self._episodes, observation = self._stepper.init(self._key)
        return observation

    def step(self, action):
        self._key, key = jax.random.split(self._key)
        self._episodes, step = self._step(self._episodes, key, jnp.asarray(action, jnp.float32))
        return step

    def reset_where(self, mask):
        self._episodes = self._stepper.reset_where(self._episodes, KEY, jnp.asarray(mask))
        return self._stepper.observe(self._episodes)


STEPPERS = {
    "compiled": lambda *args, **options: Compiled(Track(), *args, **options),
    "JAX on the host": lambda *args, **options: HostStepper(Track(), *args, **options),
    "host": lambda *args, **options: HostStepper(HostTrack(), *args, **options),
}
each_stepper = pytest.mark.parametrize("make", STEPPERS.values(), ids=STEPPERS)


def test_first_ages_by_hand():
    np.testing.assert_array_equal(first_ages(4, 10, 0), [0, 0, 0, 0])
    np.testing.assert_array_equal(first_ages(4, 10, 1), [0, 2, 5, 7])
    np.testing.assert_array_equal(first_ages(4, 10, 5), [0, 0, 5, 5])
    np.testing.assert_array_equal(first_ages(1, 10, 1), [0])
    assert first_ages(1000, 200, 1).max() == 199


@each_stepper
def test_termination_gives_the_true_next_observation_and_a_new_episode(make):
    stepper = make(2)
    stepper.reset(0)
    for place in (1, 2):
        step = stepper.step(np.array([FORWARD, STAY]))
        assert not step.done.any()
        np.testing.assert_array_equal(step.next_observation, [[place, 0], [0, 0]])
        np.testing.assert_array_equal(step.observation, step.next_observation)
    step = stepper.step(np.array([FORWARD, UP]))
    np.testing.assert_array_equal(step.next_observation, [[3, 0], [0, 1]])
    np.testing.assert_array_equal(step.reward, [[3, 0], [0, 1]])
    np.testing.assert_array_equal(step.terminated, [True, False])
    np.testing.assert_array_equal(step.done, [True, False])
    np.testing.assert_array_equal(step.observation, [[0, 0], [0, 1]])
    step = stepper.step(np.array([FORWARD, UP]))
    np.testing.assert_array_equal(step.next_observation, [[1, 0], [0, 2]])


@each_stepper
def test_truncation_is_done_but_not_terminated_and_ages_start_anew(make):
    stepper = make(2)
    stepper.reset(0)
    ends = []
    for t in range(1, 24):
        # The first environment terminates in step 3, so that its age is 3 less than the other's.
        step = stepper.step(np.array([FORWARD if t <= 3 else STAY, STAY]))
        ends += [(t, env, bool(step.terminated[env])) for env in np.flatnonzero(step.done)]
    assert ends == [(3, 0, True), (10, 1, False), (13, 0, False), (20, 1, False), (23, 0, False)]


@each_stepper
def test_episodes_may_have_another_length_than_the_worlds(make):
    for length in (4, 25):
        stepper = make(1, length)
        stepper.reset(0)
        done = [bool(stepper.step(np.array([STAY])).done[0]) for _ in range(length + 1)]
        assert done == [False] * (length - 1) + [True, False]


@each_stepper
def test_staggered_episodes_end_one_after_the_other(make):
    stepper = make(4, stagger=1)  # ages 0, 2, 5 and 7 of 10
    stepper.reset(0)
    ends = [np.flatnonzero(stepper.step(np.zeros((4, 2))).done).tolist() for _ in range(13)]
    expected = {3: [3], 5: [2], 8: [1], 10: [0], 13: [3]}
    assert ends == [expected.get(t, []) for t in range(1, 14)]


@each_stepper
def test_without_autoreset_episodes_stay_where_they_are(make):
    stepper = make(2, autoreset=False)
    stepper.reset(0)
    for _ in range(3):
        step = stepper.step(np.array([FORWARD, STAY]))
    assert step.done[0]
    np.testing.assert_array_equal(step.observation, [[3, 0], [0, 0]])
    step = stepper.step(np.array([FORWARD, UP]))
    np.testing.assert_array_equal(step.next_observation, [[4, 0], [0, 1]])
    assert step.done[0]
    observation = stepper.reset_where(np.array([True, False]))
    np.testing.assert_array_equal(observation, [[0, 0], [0, 1]])
    step = stepper.step(np.array([FORWARD, UP]))
    np.testing.assert_array_equal(step.done, [False, False])
    np.testing.assert_array_equal(step.observation, [[1, 0], [0, 2]])


def test_host_and_compiled_agree_step_by_step():
    actions = np.random.default_rng(0).uniform(-0.4, 0.9, (30, 5, 2)).astype(np.float32)
    actions[..., 1] *= 0.5  # so that the world on the host truncates nothing
    steppers = [make(5, stagger=1) for make in STEPPERS.values()]
    first = [np.asarray(stepper.reset(3)) for stepper in steppers]
    for other in first[1:]:
        np.testing.assert_array_equal(other, first[0])
    terminated = 0
    truncated = 0
    for action in actions:
        steps = [stepper.step(action) for stepper in steppers]
        for other in steps[1:]:
            for name, ours, theirs in zip(other._fields, other, steps[0], strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6, err_msg=name)
        terminated += int(np.sum(steps[0].terminated))
        truncated += int(np.sum(steps[0].done & ~steps[0].terminated))
    assert terminated > 5
    assert truncated > 2


def test_what_a_world_on_the_host_truncates_is_done_too():
    stepper = HostStepper(HostTrack(), 1)
    stepper.reset(0)
    steps = [stepper.step(np.array([UP])) for _ in range(6)]
    assert [bool(step.done[0]) for step in steps] == [False] * 5 + [True]
    assert not steps[-1].terminated[0]
    np.testing.assert_array_equal(steps[-1].next_observation, [[0, 6]])
    np.testing.assert_array_equal(steps[-1].observation, [[0, 0]])


def test_what_was_observed_stays_as_it_was():
    """Callers keep arrays of earlier steps, for instance in rollouts."""
    for world in (Track(), HostTrack()):
        stepper = HostStepper(world, 2)
        first = stepper.reset(0)
        kept = first.copy()
        step = stepper.step(np.array([FORWARD, UP]))
        copies = [np.array(part) for part in step]
        for _ in range(4):
            stepper.step(np.array([FORWARD, UP]))
        np.testing.assert_array_equal(first, kept)
        for part, copy in zip(step, copies, strict=True):
            np.testing.assert_array_equal(part, copy)


def test_the_same_seed_gives_the_same_episodes():
    stepper = HostStepper(Noise(), 3)

    def play(seed):
        first = stepper.reset(seed)
        return np.stack([first, *(stepper.step(np.zeros((3, 2))).observation for _ in range(25))])

    np.testing.assert_array_equal(play(1), play(1))
    assert (play(1) != play(2)).any()


def test_environments_of_a_compiled_stepper_differ():
    stepper = CompiledStepper(Noise(), 3, 20)
    episodes, observation = stepper.init(KEY)
    assert isinstance(episodes, Episodes)
    assert len(np.unique(observation[:, 0])) == 3
    episodes, step = jax.jit(stepper.step)(episodes, KEY, jnp.zeros((3, 2)))
    assert len(np.unique(step.observation[:, 0] - observation[:, 0])) == 3


# --- numbers that are not finite ---


class Broken(HostTrack):
    """A world that gives some number that is not one after two steps."""

    def __init__(self, observation=0.0, reward=0.0):
        super().__init__()
        self._added = (observation, reward)

    def vector(self, num_envs):
        vector = super().vector(num_envs)
        step = vector.step
        rewards = vector.rewards
        vector.taken = 0

        def broken_step(actions):
            vector.taken += 1
            observation, *ends = step(actions)
            if vector.taken == 2:
                observation[1, 1] += self._added[0]
            return observation, *ends

        def broken_rewards():
            reward = rewards()
            if vector.taken == 2:
                reward[1, 1] += self._added[1]
            return reward

        vector.step = broken_step
        vector.rewards = broken_rewards
        return vector


@pytest.mark.parametrize(("value", "what"), [(np.nan, "a non-finite"), (1e20, "too large an")])
def test_observations_that_are_not_finite_are_refused_with_their_place(value, what):
    stepper = HostStepper(Broken(observation=value), 2)
    stepper.reset(0)
    stepper.step(np.zeros((2, 2)))
    place = r"environment 1 after 2 steps, observation entry 1; entries concerned: second\[0\]"
    with pytest.raises(WorldError, match=rf"'track' gave {what} observation .* in {place}"):
        stepper.step(np.zeros((2, 2)))


def test_rewards_that_are_not_finite_are_refused_where_they_count():
    stepper = HostStepper(Broken(reward=np.inf), 2, rewarded=True)
    stepper.reset(0)
    stepper.step(np.zeros((2, 2)))
    with pytest.raises(WorldError, match=r"environment 1 after 2 steps, channel 'second'"):
        stepper.step(np.zeros((2, 2)))
    stepper = HostStepper(Broken(reward=np.inf), 2)
    stepper.reset(0)
    stepper.step(np.zeros((2, 2)))
    assert np.isinf(stepper.step(np.zeros((2, 2))).reward[1, 1])


def test_actions_that_are_not_finite_are_the_policys_fault():
    stepper = HostStepper(HostTrack(), 2)
    stepper.reset(0)
    with pytest.raises(NonFiniteError, match=r"environment 1 of world 'track', action entry 0"):
        stepper.step(np.array([STAY, [np.nan, 0.0]]))
