"""Learning to choose skills: PPO over frozen skills as pure functions, and what runs them.

For tasks in JAX a whole iteration (rollout, skills acting, learning) is one compiled program. For
tasks on the host the same functions run in between the host's steps.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from dusdi import normalise
from dusdi.agents.ppo import PPO, HighLevelSteps, PPOState
from dusdi.envs.base import EnvState, JaxWorld, World
from dusdi.errors import UsageError, WorldError
from dusdi.hierarchy import CompiledHierarchy, HostHierarchy, check_fit
from dusdi.normalise import Normaliser
from dusdi.policy import Policy, fold_mlp
from dusdi.resolve import DownstreamSettings
from dusdi.skills import Skills
from dusdi.stepping import Step, derived_seed, first_ages
from dusdi.trainers import Trainer, seed_axes
from dusdi.types import Metrics

METRICS = ("return", "episodes", "loss/policy", "loss/value", "entropy", "kl", "clipped")


class DownstreamState(struct.PyTreeNode):
    """All that a run over skills is.

    With S seeds, all but `iteration`, `skills` and `updates` lead with [S].

    Attributes:
      iteration: [] int32, rollouts so far.
      key: the random state.
      world: state of the tasks in JAX; empty for tasks on the host.
      observation: [n, D].
      earned: [n, K], reward since the episode began.
      counted: [n], whether the episode was seen from its beginning, so that its return counts.
      normaliser: moments of the observations.
      agent: what is learned.
      skills: the frozen skill policy, so that a run needs nothing else.
      metrics: sums over the iterations since the last log row.
      updates: [] int32, how many iterations those are.
    """

    iteration: jax.Array
    key: jax.Array
    world: EnvState
    observation: jax.Array
    earned: jax.Array
    counted: jax.Array
    normaliser: Normaliser
    agent: PPOState
    skills: Policy
    metrics: Metrics
    updates: jax.Array


class HighLevelTrainer(Trainer):
    """The pure functions of learning to choose skills, and what the training loop asks for."""

    axes = seed_axes(DownstreamState, ("iteration", "skills", "updates"))
    kind = "hierarchy"

    def __init__(self, task: World, skills: Skills, settings: DownstreamSettings):
        check_fit(skills, task)
        self.settings = settings
        self.spec = task.spec
        self.skills = skills
        self.agent = PPO(
            task.spec.observation_size,
            skills.space,
            causal_matrix(task, skills, settings.agent),
            settings.agent,
            settings.ppo,
        )
        run = settings.run
        self.decision_length = run.decision_length or skills.skill_length
        self.steps_per_iteration = run.num_envs * run.rollout_length * self.decision_length
        # Episodes start at staggered ages; those that start at age 0 are whole.
        ages = first_ages(run.num_envs, task.spec.episode_length, self.decision_length)
        self._whole = ages == 0

    def learned(self, state):
        return {"agent": state.agent}

    def summarise(self, row):
        first = {name: row[name] for name in ("return", "episodes")}
        return {**first, **{name: value for name, value in row.items() if name not in first}}

    def policies(self, state):
        used = self.settings.ppo.normalise_observations
        parts = self.per_seed((state.agent.params["policy"], state.normaliser))
        skills = {f"skills/{name}": np.asarray(array) for name, array in state.skills.items()}
        return [fold_mlp(policy, moments, used) | skills for policy, moments in parts]

    def begin(self, key: jax.Array, world: EnvState, observation: jax.Array) -> DownstreamState:
        """The state before the first step."""
        key, agent_key = jax.random.split(key)
        channels = self.spec.channels
        returns = [f"return/{name}" for name in channels] if len(channels) > 1 else []
        count = self.settings.run.num_envs
        return DownstreamState(
            iteration=jnp.int32(0),
            key=key,
            world=world,
            observation=observation,
            earned=jnp.zeros((count, len(channels))),
            counted=jnp.array(self._whole),
            normaliser=normalise.init(self.spec.observation_size),
            agent=self.agent.init(agent_key),
            skills=self.skills.params,
            metrics={name: jnp.float32(0) for name in (*METRICS, *returns)},
            updates=jnp.int32(0),
        )

    def normalised(self, normaliser: Normaliser, observation: jax.Array) -> jax.Array:
        """Observations as the networks see them."""
        used = self.settings.ppo.normalise_observations
        return normalise.apply(normaliser, observation, used=used)

    def choose(self, state: DownstreamState) -> tuple[DownstreamState, jax.Array, jax.Array]:
        """Choices for the current observations, and the skills that they stand for."""
        key, skill_key = jax.random.split(state.key)
        observation = self.normalised(state.normaliser, state.observation)
        choice = self.agent.sample(state.agent.params, skill_key, observation)
        return state.replace(key=key), choice, self.agent.bounded(choice)

    def record(
        self, state: DownstreamState, choice: jax.Array, step: Step
    ) -> tuple[DownstreamState, HighLevelSteps]:
        """Remembers a high-level step and moves on."""
        observation = self.normalised(state.normaliser, state.observation)
        following = self.normalised(state.normaliser, step.next_observation)
        log_prob, _ = self.agent.log_prob(state.agent.params, observation, choice)
        causal = self.settings.agent == "cpg"
        row = HighLevelSteps(
            observation=observation,
            skill=choice,
            log_prob=log_prob,
            value=self.agent.value(state.agent, observation),
            next_value=self.agent.value(state.agent, following),
            reward=step.reward if causal else step.reward.sum(-1, keepdims=True),
            terminated=step.terminated,
            done=step.done,
        )
        return self._count_returns(state, step).replace(observation=step.observation), row

    def _count_returns(self, state: DownstreamState, step: Step) -> DownstreamState:
        """Sums up the returns of episodes; those that began in the middle don't count."""
        earned = state.earned + step.reward * self.decision_length
        done = step.done[:, None]
        finished = jnp.sum(earned * done * state.counted[:, None], axis=0)
        episodes = jnp.sum(step.done & state.counted, dtype=jnp.float32)
        sums = {"return": finished.sum(), "episodes": episodes}
        if len(self.spec.channels) > 1:
            named = zip(self.spec.channels, finished, strict=True)
            sums |= {f"return/{name}": value for name, value in named}
        return state.replace(
            earned=jnp.where(done, 0.0, earned),
            counted=state.counted | step.done,
            metrics=state.metrics | {name: state.metrics[name] + x for name, x in sums.items()},
        )

    def learn(
        self, state: DownstreamState, rollout: HighLevelSteps, raw: jax.Array
    ) -> DownstreamState:
        """An update on a rollout [T, n]; `raw` are its observations [T, n, D] before scaling."""
        key, update_key = jax.random.split(state.key)
        agent, metrics = self.agent.update(state.agent, update_key, rollout)
        sums = {name: state.metrics[name] + value for name, value in metrics.items()}
        rows = raw.reshape(-1, raw.shape[-1])
        return state.replace(
            iteration=state.iteration + 1,
            key=key,
            agent=agent,
            normaliser=normalise.update(state.normaliser, rows),
            metrics=state.metrics | sums,
            updates=state.updates + 1,
        )


class CompiledHighLevelTrainer(HighLevelTrainer):
    """Learns in a task written in JAX: rollouts and updates are one compiled, donated program."""

    def __init__(self, task: JaxWorld, skills: Skills, settings: DownstreamSettings):
        super().__init__(task, skills, settings)
        count = settings.run.num_envs
        self._hierarchy = CompiledHierarchy(
            task, skills, count, decision_length=self.decision_length, stagger=True
        )
        self._loop = jax.jit(self._iterate_often, donate_argnums=0)

    def first_state(self, seed):
        world_key, learner_key = jax.random.split(jax.random.PRNGKey(seed))
        return self.begin(learner_key, *self._hierarchy.init(world_key))

    def advance(self, state, iterations, random):
        del random
        return self._loop(state, jnp.int32(iterations))

    def _iterate_often(self, state: DownstreamState, iterations: jax.Array) -> DownstreamState:
        body = self.over_seeds(self._iterate)
        return jax.lax.fori_loop(0, iterations, lambda _, s: body(s), state)

    def _iterate(self, state: DownstreamState) -> DownstreamState:
        def high_level(state, _):
            raw = state.observation
            state, choice, skill = self.choose(state)
            key, world_key = jax.random.split(state.key)
            world, step = self._hierarchy.step(state.skills, state.world, world_key, skill)
            state, row = self.record(state.replace(key=key, world=world), choice, step)
            return state, (row, raw)

        length = self.settings.run.rollout_length
        state, (rollout, raw) = jax.lax.scan(high_level, state, length=length)
        return self.learn(state, rollout, raw)


class HostHighLevelTrainer(HighLevelTrainer):
    """Learns in a task on the host, whose episodes start anew at every checkpoint."""

    def __init__(self, task: World, skills: Skills, settings: DownstreamSettings):
        super().__init__(task, skills, settings)
        count = settings.run.num_envs
        options: Any = {"decision_length": self.decision_length, "stagger": True}
        self._hierarchies = [HostHierarchy(task, skills, count, **options) for _ in self.seeds]
        jit = partial(jax.jit, donate_argnums=0)
        axes = self.axes
        self._choose = jit(self.over_seeds(self.choose, out_axes=(axes, 0, 0)))
        self._record = jit(self.over_seeds(self.record, extra_axes=(0, 0), out_axes=(axes, 0)))
        self._learn = jit(self.over_seeds(self.learn, extra_axes=(0, 0)))

    def first_state(self, seed):
        shape = (self.settings.run.num_envs, self.spec.observation_size)
        return self.begin(jax.random.PRNGKey(seed), (), jnp.zeros(shape))

    def restart(self, state):
        """New episodes everywhere, determined by each seed and the iteration."""
        iteration = int(state.iteration)
        observations = [
            hierarchy.reset(derived_seed(seed, iteration))
            for hierarchy, seed in zip(self._hierarchies, self.seeds, strict=True)
        ]
        return state.replace(
            observation=jnp.asarray(self.stack(observations)),
            earned=jnp.zeros_like(state.earned),
            counted=jnp.array(np.broadcast_to(self._whole, state.counted.shape)),
        )

    def advance(self, state, iterations, random):
        del random
        time_axis = 0 if len(self.seeds) == 1 else 1
        for _ in range(iterations):
            rows = []
            for _ in range(self.settings.run.rollout_length):
                raw = np.asarray(state.observation)
                state, choice, skill = self._choose(state)
                state, row = self._record(state, choice, self._simulate(np.asarray(skill)))
                rows.append((row, raw))
            rollout, raw = jax.tree.map(lambda *x: jnp.stack(x, time_axis), *rows)
            state = self._learn(state, rollout, raw)
        return state

    def _simulate(self, skills: np.ndarray) -> Step:
        """A high-level step of all environments, by skills [n, W] or [S, n, W]."""
        rows = skills if len(self.seeds) > 1 else skills[None]
        pairs = zip(self._hierarchies, rows, strict=True)
        return self.stack([hierarchy.step(row) for hierarchy, row in pairs])

    def close(self):
        for hierarchy in self._hierarchies:
            hierarchy.close()


def make_high_level_trainer(
    task: World, skills: Skills, settings: DownstreamSettings
) -> HighLevelTrainer:
    """The trainer for a task's kind."""
    if isinstance(task, JaxWorld):
        return CompiledHighLevelTrainer(task, skills, settings)
    return HostHighLevelTrainer(task, skills, settings)


def check_agent(task: World, agent: str) -> None:
    """Raises a `UsageError` if an agent can't learn a task, whatever the skills."""
    if agent == "cpg" and len(task.spec.channels) < 2:
        raise UsageError(
            "the causal policy gradient needs a task with several reward channels; "
            f"{task.spec.name!r} has one"
        )
    if agent == "cpg" and task.causal is None:
        raise UsageError(
            f"the causal policy gradient needs the causal matrix of {task.spec.name!r}: set its "
            "`causal`"
        )


def causal_matrix(task: World, skills: Skills, agent: str) -> np.ndarray:
    """Which reward channel can depend on which skill component, bool [K, C].

    For plain PPO it is a single channel that depends on all components.
    """
    components = len(skills.space)
    if agent == "ppo":
        return np.ones((1, components), bool)
    check_agent(task, agent)
    name = task.spec.name
    channels = len(task.spec.channels)
    causal = np.asarray(task.causal, np.bool_)
    if causal.ndim != 2 or causal.shape[0] != channels:
        raise WorldError(
            f"the causal matrix of {name!r} is {list(causal.shape)}; it needs a row for each of "
            f"{channels} channels"
        )
    if causal.shape[1] != components:
        raise UsageError(
            f"the causal matrix of {name!r} is about {causal.shape[1]} skill components; these "
            f"skills have {components}"
        )
    return causal
