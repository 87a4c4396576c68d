"""Algorithm 1 of the paper as pure functions over one explicit train state.

`act`, `update` and `record` are the same for every world and method; `dusdi.trainers` runs them,
together with a world, as one compiled loop or in between the steps of a world on the host.
"""

from __future__ import annotations

import collections
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from dusdi import normalise, replay
from dusdi.agents.sac import SAC, SACState
from dusdi.envs.base import EnvState
from dusdi.methods import checks, find_method
from dusdi.normalise import Normaliser
from dusdi.resolve import PretrainSettings
from dusdi.stepping import Step
from dusdi.types import Batch, Metrics, Transition, WorldSpec


class TrainState(struct.PyTreeNode):
    """All that a run is; saving it and loading it goes on bit for bit.

    With S seeds, all but `iteration` and `updates` lead with [S].

    Attributes:
      iteration: [] int32, steps of all n environments so far.
      key: the random state.
      world: state of the worlds in JAX; empty for worlds on the host.
      observation: [n, D].
      skill: [n, W].
      skill_age: [n], steps the skill has been in force.
      earned: [n], reward of the task since the episode began; not a number if that was before the
        run. Not used in skill discovery.
      normaliser, replay, objective, agent: what is learned, and from what.
      metrics: sums over the updates since the last log row.
      updates: [] int32, how many updates those are.
    """

    iteration: jax.Array
    key: jax.Array
    world: EnvState
    observation: jax.Array
    skill: jax.Array
    skill_age: jax.Array
    earned: jax.Array
    normaliser: Normaliser
    replay: Transition
    objective: Any
    agent: SACState
    metrics: Metrics
    updates: jax.Array


class Learner:
    """The pure functions of skill learning for a world's spec and settings."""

    def __init__(self, spec: WorldSpec, settings: PretrainSettings):
        self.spec = spec
        self.settings = settings
        self.method = find_method(settings.method)(spec, settings.objective)
        checks.check_made(self.method)
        self.agent = SAC(
            observation_size=spec.observation_size,
            action_size=spec.action_size,
            skill_space=self.method.skill_space,
            channels=len(self.method.channels),
            networks=settings.networks,
            settings=settings.sac,
        )
        self.traces: collections.Counter[str] = collections.Counter()  # compilations, for tests

    def init(self, key: jax.Array, world: EnvState, observation: jax.Array) -> TrainState:
        """The state before the first step; learning begins with the next key of the stream."""
        count = self.settings.run.num_envs
        key, episode_key, method_key, agent_key = jax.random.split(key, 4)
        skill, skill_age = self.first_skills(episode_key)
        action = jnp.zeros((count, self.spec.action_size))
        reward = jnp.zeros((count, len(self.spec.channels)))
        terminated = jnp.zeros(count, bool)
        example = Transition(observation, action, reward, observation, terminated, skill, skill_age)
        objective = self.method.init(method_key)
        checks.check_init(self.method, objective)
        state = TrainState(
            iteration=jnp.int32(0),
            key=key,
            world=world,
            observation=observation,
            skill=skill,
            skill_age=skill_age,
            earned=jnp.zeros(count),
            normaliser=normalise.init(self.spec.observation_size),
            replay=replay.init(example, self.settings.sac.replay_capacity),
            objective=objective,
            agent=self.agent.init(agent_key),
            metrics={},
            updates=jnp.int32(0),
        )
        return state.replace(metrics=self._no_metrics(state))

    def _no_metrics(self, state: TrainState) -> Metrics:
        shapes = jax.eval_shape(self._update_once, state, state.key)[1]
        metrics = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        if self.method.learns_task:
            metrics |= {"return": jnp.float32(0), "episodes": jnp.float32(0)}
        return metrics

    def first_skills(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Skills that environments start with, and ages that spread their ends over time."""
        count = self.settings.run.num_envs
        skill_key, age_key = jax.random.split(key)
        age = jax.random.randint(age_key, (count,), 0, self.settings.run.skill_length)
        return self.method.skill_space.sample(skill_key, count), age

    def normalised(self, normaliser: Normaliser, observation: jax.Array) -> jax.Array:
        """Observations as the networks see them."""
        used = self.settings.networks.normalise_observations
        return normalise.apply(normaliser, observation, used=used)

    def act(self, state: TrainState, random: bool) -> tuple[TrainState, jax.Array]:
        """Actions [n, A] for the current observations and skills.

        While `random`, before anything is learned, they are uniform; a policy that is fine-tuned,
        which has no random steps, acts itself.
        """
        key, action_key = jax.random.split(state.key)
        if random and self.settings.sac.random_steps:
            shape = (self.settings.run.num_envs, self.spec.action_size)
            action = jax.random.uniform(action_key, shape, minval=-1.0, maxval=1.0)
        else:
            observation = self.normalised(state.normaliser, state.observation)
            action = self.agent.sample_action(
                state.agent.actor, action_key, observation, state.skill
            )
        return state.replace(key=key), action

    def update(self, state: TrainState) -> TrainState:
        """The gradient updates due after each step of the environments."""
        self.traces["update"] += 1
        count = self.settings.updates_per_iteration
        keys = jax.random.split(state.key, count + 1)
        state = state.replace(key=keys[0], updates=state.updates + count)
        if count == 1:
            learned, metrics = self._update_once(state, keys[1])
        else:
            learned, metrics = self._update_often(state, keys[1:])
        sums = {name: state.metrics[name] + value for name, value in metrics.items()}
        return state.replace(**learned, metrics=state.metrics | sums)

    def _update_often(self, state: TrainState, keys: jax.Array) -> tuple[dict[str, Any], Metrics]:
        """Several updates as one loop, which compiles as fast as one; metrics are summed."""

        def step(learned, key):
            return self._update_once(state.replace(**learned), key)

        learned = {"objective": state.objective, "agent": state.agent}
        learned, metrics = jax.lax.scan(step, learned, keys)
        return learned, jax.tree.map(lambda x: x.sum(0), metrics)

    def _update_once(self, state: TrainState, key: jax.Array) -> tuple[dict[str, Any], Metrics]:
        """What changes in a state by one update, and its metrics."""
        sample_key, agent_key, method_key, reward_key = jax.random.split(key, 4)
        steps = state.iteration * self.settings.run.num_envs
        batch = self._sample(state, sample_key, steps)
        updated = self.method.update(state.objective, method_key, batch, steps)
        checks.check_update(self.method, state.objective, updated)
        objective, method_metrics = updated
        reward = self.method.reward(objective, reward_key, batch, steps)
        checks.check_reward(self.method, reward, self.settings.sac.batch_size)
        agent, agent_metrics = self.agent.update(
            state.agent, key=agent_key, batch=batch, reward=reward, step=steps
        )
        named = zip(self.method.channels, reward.mean(0), strict=True)
        rewards = {f"reward/{name}": value for name, value in named}
        return {"objective": objective, "agent": agent}, method_metrics | rewards | agent_metrics

    def _sample(self, state: TrainState, key: jax.Array, steps: jax.Array) -> Batch:
        raw = replay.sample(state.replay, key, self.settings.sac.batch_size, steps)
        return Batch(
            observation=self.normalised(state.normaliser, raw.observation),
            action=raw.action,
            reward=raw.reward,
            next_observation=self.normalised(state.normaliser, raw.next_observation),
            terminated=raw.terminated.astype(jnp.float32),
            skill=raw.skill,
            skill_age=raw.skill_age,
            raw=raw,
        )

    def record(self, state: TrainState, action: jax.Array, step: Step) -> TrainState:
        """Remembers a step and moves on: new skills where the old ones or the episode ended."""
        key, skill_key = jax.random.split(state.key)
        age = state.skill_age + 1
        batch = Transition(
            observation=state.observation,
            action=action,
            reward=step.reward,
            next_observation=step.next_observation,
            terminated=step.terminated,
            skill=state.skill,
            skill_age=age,
        )
        redraw = step.done | (age >= self.settings.run.skill_length)
        fresh = self.method.skill_space.sample(skill_key, self.settings.run.num_envs)
        if self.method.learns_task:
            state = self._count_returns(state, step)
        added = state.iteration * self.settings.run.num_envs
        return state.replace(
            iteration=state.iteration + 1,
            key=key,
            observation=step.observation,
            skill=jnp.where(redraw[:, None], fresh, state.skill),
            skill_age=jnp.where(redraw, 0, age),
            normaliser=normalise.update(state.normaliser, step.next_observation),
            replay=replay.add(state.replay, batch, added),
        )

    def _count_returns(self, state: TrainState, step: Step) -> TrainState:
        """Sums up the returns of episodes; those that began before the run don't count."""
        earned = state.earned + step.reward.sum(-1)
        whole = step.done & ~jnp.isnan(earned)
        finished = {
            "return": jnp.sum(jnp.where(whole, earned, 0.0)),
            "episodes": jnp.sum(whole, dtype=jnp.float32),
        }
        sums = {name: state.metrics[name] + value for name, value in finished.items()}
        earned = jnp.where(step.done, 0.0, earned)
        return state.replace(earned=earned, metrics=state.metrics | sums)
