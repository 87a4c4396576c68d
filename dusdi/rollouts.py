"""Rollouts of frozen policies for evaluation: steps under random skills, and whole episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from dusdi.envs.base import JaxWorld, World
from dusdi.errors import UsageError
from dusdi.skill_space import SkillSpace
from dusdi.skills import Skills
from dusdi.stepping import HostStepper, derived_seed

#: A rollout has at least so many episodes, shorter than the world's if need be.
MIN_EPISODES = 10
#: The most environments that are made at once; those with physics take 10 MB each.
MAX_ENVS = 100


class Rollout(NamedTuple):
    """Steps of a skill policy, one row a step.

    Attributes:
      observation: the observation after the step, [n, D].
      skill: the skill in force, [n, W].
      episode: the number of the episode that the row comes from, [n].
      truth: what the world would show that is seen through an encoder, [n, D]; else None.
    """

    observation: np.ndarray
    skill: np.ndarray
    episode: np.ndarray
    truth: np.ndarray | None = None


#: Actions [n, A] for observations [n, D], skills [n, W], and a function that gives the state of
#: the world, which scripted experts read.
ActFunction = Callable[[np.ndarray, np.ndarray, Callable[[], Any]], np.ndarray]


def skill_actor(skills: Skills) -> ActFunction:
    """Frozen skills as an actor."""
    size = skills.spec.observation_size
    return lambda observation, skill, state: skills.act(observation[:, :size], skill)


def expert_actor(world: World) -> ActFunction:
    """The scripted expert of a world as an actor."""
    expert = world.expert
    if expert is None:
        raise UsageError(f"there is no scripted expert for {world.spec.name!r}")
    act = jax.jit(jax.vmap(expert)) if isinstance(world, JaxWorld) else expert
    return lambda observation, skill, state: np.asarray(act(state(), skill), np.float32)


def collect(
    world: World,
    actor: ActFunction,
    space: SkillSpace,
    *,
    steps: int,
    skill_length: int,
    seed: int,
    advance: Callable[[int], None] = lambda done: None,
) -> Rollout:
    """About `steps` steps under skills that are redrawn every `skill_length` steps and at resets.

    They are played by at most `MAX_ENVS` environments, which begin a new episode whenever one is
    done. `advance` is told how many steps are done.
    """
    length = min(world.spec.episode_length, max(skill_length, steps // MIN_EPISODES))
    episodes = max(1, steps // length)
    count = min(MAX_ENVS, episodes)
    key, skill_key = jax.random.split(jax.random.PRNGKey(seed))
    skill = np.array(space.sample(skill_key, count))
    age = np.zeros(count, int)
    episode = np.arange(count)
    begun = count
    rows = []
    stepper = HostStepper(world, count, length, autoreset=False)
    try:
        observation = stepper.reset(derived_seed(seed, 0))
        for t in range(episodes * length // count):
            step = stepper.step(actor(observation, skill, stepper.state))
            truth = None if world.shows_truth else world.true_observations(stepper.state())
            rows.append(Rollout(step.next_observation, skill.copy(), episode.copy(), truth))
            observation = step.next_observation
            if step.done.any():
                observation = stepper.reset_where(step.done)
            age += 1
            redraw = (age >= skill_length) | step.done
            if redraw.any():
                key, skill_key = jax.random.split(key)
                skill[redraw] = np.asarray(space.sample(skill_key, count))[redraw]
                age[redraw] = 0
            fresh = int(np.count_nonzero(step.done))
            episode[step.done] = begun + np.arange(fresh)
            begun += fresh
            advance((t + 1) * count)
    finally:
        stepper.close()
    columns: Any = zip(*rows, strict=True)
    joined: Any = (None if column[0] is None else np.concatenate(column) for column in columns)
    return Rollout(*joined)


def play_episodes(
    task: World,
    decide: Callable[[np.ndarray], np.ndarray],
    actor: ActFunction,
    *,
    interval: int,
    episodes: int,
    seed: int,
    weights: np.ndarray | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """The return of each of so many episodes in each channel, [episodes, K].

    There is a decision every `interval` steps, by which the actor acts. At most `MAX_ENVS`
    episodes are played at a time. `advance` is told how many steps are done.

    With weights [M, length] of an episode's steps, M weighted sums of rewards [M, episodes, K].
    """
    length = task.spec.episode_length
    counts = np.ones((1, length)) if weights is None else weights
    earned = np.zeros((len(counts), episodes, len(task.spec.channels)))
    for start in range(0, episodes, MAX_ENVS):
        ours = earned[:, start : start + MAX_ENVS]
        count = ours.shape[1]
        going = np.ones(count, bool)
        stepper = HostStepper(task, count, rewarded=True)
        try:
            observation = stepper.reset(derived_seed(seed, start))
            for t in range(length):
                if t % interval == 0:
                    decision = decide(observation)
                step = stepper.step(actor(observation, decision, stepper.state))
                ours[:, going] += counts[:, t, None, None] * step.reward[going]
                going &= ~step.done
                observation = step.observation
                advance(start * length + (t + 1) * count)
                if not going.any():
                    break
        finally:
            stepper.close()
    return earned[0] if weights is None else earned
