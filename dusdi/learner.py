"""Algorithm 1 of the paper as pure functions over one explicit train state.

`act`, `update` and `record` are the same for every world and method. For worlds in JAX they and the world are compiled into
one loop (`GraphTrainer`); for worlds on the host they are compiled one by one and the host steps in between, while the update
runs (`HostTrainer`). Several seeds are one vmap over everything but the iteration counter.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from dusdi import normalise, replay
from dusdi.agents.sac import SAC, SACState
from dusdi.config import Config
from dusdi.envs.base import EnvState, HostWorld, JaxWorld, World
from dusdi.normalise import Normaliser
from dusdi.objectives import make_objective
from dusdi.rollout import GraphStepper, HostStepper, Step
from dusdi.types import Metrics, Transition, WorldSpec, mean_metrics


class TrainState(struct.PyTreeNode):
    """All that a run is; saving it and loading it goes on bit for bit. With S seeds, all but `iteration` lead with [S].

    Attributes:
      iteration: [] int32, steps of all n environments so far.
      key: the random state.
      world: state of the worlds in JAX; empty for worlds on the host.
      observation: [n, D]; `skill`: [n, C] or [n, C, M]; `skill_age`: [n], steps the skill has been in force.
      earned: [n], reward of the task since the episode began; stays 0 where skills are discovered.
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


#: What vmap maps over when there are several seeds: everything but the clock.
SEED_AXES = TrainState(None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None)  # type: ignore[arg-type]


class Learner:
    """The pure functions of skill learning for a world's spec and a config."""

    def __init__(self, spec: WorldSpec, config: Config):
        self.spec, self.config = spec, config
        self.objective = make_objective(spec, config)
        self.agent = SAC(
            observation_size=spec.observation_size,
            action_size=spec.action_size,
            skill_space=self.objective.skill_space,
            channel_components=self.objective.channel_components,
            config=config,
        )
        self.traces: collections.Counter[str] = collections.Counter()

    def init(self, key: jax.Array, world: EnvState, observation: jax.Array) -> TrainState:
        """The state before the first step; learning begins with the next key of the stream."""
        count = self.config.num_envs
        key, skill_key, age_key, objective_key, agent_key = jax.random.split(key, 5)
        skill = self.objective.skill_space.sample(skill_key, count)
        skill_age = jax.random.randint(age_key, (count,), 0, self.config.skill_length)
        action = jnp.zeros((count, self.spec.action_size))
        reward = jnp.zeros((count, len(self.spec.channels)))
        example = Transition(
            observation, action, reward, observation, jnp.zeros(count, bool), skill, skill_age
        )
        state = TrainState(
            iteration=jnp.int32(0),
            key=key,
            world=world,
            observation=observation,
            skill=skill,
            skill_age=skill_age,
            earned=jnp.zeros(count),
            normaliser=normalise.init(self.spec.observation_size),
            replay=replay.init(example, self.config.replay_capacity),
            objective=self.objective.init(objective_key),
            agent=self.agent.init(agent_key),
            metrics={},
            updates=jnp.int32(0),
        )
        shapes = jax.eval_shape(self._update_once, state, key)[1]
        metrics = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        if self.objective.is_task:
            metrics |= {"return": jnp.float32(0), "episodes": jnp.float32(0)}
        return state.replace(metrics=metrics)

    def normalised(self, normaliser: Normaliser, observation: jax.Array) -> jax.Array:
        """Observations as the networks see them."""
        return (
            normalise.apply(normaliser, observation)
            if self.config.normalise_observations
            else observation
        )

    def act(self, state: TrainState, random: bool) -> tuple[TrainState, jax.Array]:
        """Actions [n, A] for the current observations and skills; uniform ones while `random`."""
        key, action_key = jax.random.split(state.key)
        if random:
            shape = (self.config.num_envs, self.spec.action_size)
            action = jax.random.uniform(action_key, shape, minval=-1.0, maxval=1.0)
        else:
            observation = self.normalised(state.normaliser, state.observation)
            action = self.agent.sample_action(state.agent, action_key, observation, state.skill)
        return state.replace(key=key), action

    def update(self, state: TrainState) -> TrainState:
        """The gradient updates due after each step of the environments."""
        self.traces["update"] += 1
        for _ in range(self.config.updates_per_iteration):
            key, update_key = jax.random.split(state.key)
            state, metrics = self._update_once(state.replace(key=key), update_key)
            sums = {name: state.metrics[name] + value for name, value in metrics.items()}
            state = state.replace(metrics=state.metrics | sums, updates=state.updates + 1)
        return state

    def _update_once(self, state: TrainState, key: jax.Array) -> tuple[TrainState, Metrics]:
        sample_key, agent_key, objective_key = jax.random.split(key, 3)
        steps = state.iteration * self.config.num_envs
        batch = replay.sample(state.replay, sample_key, self.config.batch_size, steps)
        batch = batch._replace(
            observation=self.normalised(state.normaliser, batch.observation),
            next_observation=self.normalised(state.normaliser, batch.next_observation),
            terminated=batch.terminated.astype(jnp.float32),
        )
        objective, objective_metrics = self.objective.update(
            state.objective, objective_key, batch, steps
        )
        reward = self.objective.reward(objective, batch, steps)
        agent, agent_metrics = self.agent.update(
            state.agent, key=agent_key, batch=batch, reward=reward
        )
        rewards = {
            f"reward/{name}": x
            for name, x in zip(self.objective.channels, reward.mean(0), strict=True)
        }
        metrics = objective_metrics | rewards | agent_metrics
        return state.replace(objective=objective, agent=agent), metrics

    def record(self, state: TrainState, action: jax.Array, step: Step) -> TrainState:
        """Remembers a step and moves on: new skills where the old are used up or the episode is over."""
        key, skill_key = jax.random.split(state.key)
        age = state.skill_age + 1
        batch = Transition(
            state.observation,
            action,
            step.reward,
            step.successor,
            step.terminated,
            state.skill,
            age,
        )
        redraw = step.over | (age >= self.config.skill_length)
        fresh = self.objective.skill_space.sample(skill_key, self.config.num_envs)
        keep = redraw.reshape(redraw.shape + (1,) * (fresh.ndim - 1))
        if self.objective.is_task:
            state = self._count_returns(state, step)
        return state.replace(
            iteration=state.iteration + 1,
            key=key,
            observation=step.observation,
            skill=jnp.where(keep, fresh, state.skill),
            skill_age=jnp.where(redraw, 0, age),
            normaliser=normalise.update(state.normaliser, step.successor),
            replay=replay.add(state.replay, batch, state.iteration * self.config.num_envs),
        )

    def _count_returns(self, state: TrainState, step: Step) -> TrainState:
        earned = state.earned + step.reward.sum(-1)
        finished = {
            "return": jnp.sum(earned * step.over),
            "episodes": jnp.sum(step.over, dtype=jnp.float32),
        }
        sums = {name: state.metrics[name] + value for name, value in finished.items()}
        return state.replace(earned=jnp.where(step.over, 0.0, earned), metrics=state.metrics | sums)

    def narrow(self, state: TrainState) -> TrainState:
        """The state with networks that see fewer inputs; `widen` gives them their shape back."""
        return state.replace(agent=self.agent.narrow(state.agent))

    def widen(self, state: TrainState) -> TrainState:
        return state.replace(agent=self.agent.widen(state.agent))

    def over_seeds(self, function, *, extra_axes: tuple[Any, ...] = (), out_axes: Any = SEED_AXES):
        """vmaps a function of a train state over the seeds, if there are several."""
        if self.config.seeds == 1:
            return function
        return jax.vmap(function, in_axes=(SEED_AXES, *extra_axes), out_axes=out_axes)


class SkillTrainer:
    """What both trainers tell the loop.

    Attributes:
      learner: what learns.
      narrow_from: the iteration from which networks see fewer inputs.
    """

    def __init__(self, spec: WorldSpec, config: Config):
        self.learner = Learner(spec, config)
        never = np.iinfo(np.int32).max
        self.narrow_from = (
            math.ceil(config.input_limit_from / config.num_envs) if config.input_limit else never
        )

    @property
    def spec(self) -> WorldSpec:
        return self.learner.spec

    @property
    def steps_per_iteration(self) -> int:
        return self.learner.config.num_envs

    @property
    def random_iterations(self) -> int:
        config = self.learner.config
        return math.ceil(max(config.random_steps, config.batch_size) / config.num_envs)

    def first_state(self, seed: Any) -> TrainState:
        """The state of one seed before the first step."""
        raise NotImplementedError

    def init(self) -> TrainState:
        """The first state of all seeds; compiled without optimisation, since it runs once."""
        compiled = jax.jit(
            self._first_states, compiler_options={"xla_backend_optimization_level": 0}
        )
        return compiled(self._seeds)

    def shapes(self) -> TrainState:
        """The shapes of the first state, for which no memory is needed."""
        return jax.eval_shape(self._first_states, self._seeds)

    @property
    def _seeds(self) -> Any:
        config = self.learner.config
        return config.seed if config.seeds == 1 else jnp.arange(config.seeds) + config.seed

    def _first_states(self, seeds: Any) -> TrainState:
        several = self.learner.config.seeds > 1
        return (
            jax.vmap(self.first_state, out_axes=SEED_AXES)(seeds)
            if several
            else self.first_state(seeds)
        )

    def learned(self, state: TrainState) -> Any:
        return {"objective": state.objective, "agent": state.agent}

    def summarise(self, sums: Mapping[str, float], updates: int) -> dict[str, float]:
        """A log row, led by the return or the discriminators' mean accuracy (or error)."""
        row = mean_metrics(sums, updates)
        if "return" in row:
            return {"return": row.pop("return"), **row}
        for kind in ("accuracy", "squared_error"):
            own = [x for name, x in row.items() if name.startswith(f"{kind}/")]
            if own:
                return {kind: sum(own) / len(own), **row}
        return row


class GraphTrainer(SkillTrainer):
    """Trains in a world written in JAX: acting, learning and the world are one compiled, donated loop."""

    def __init__(self, world: JaxWorld, config: Config):
        super().__init__(world.spec, config)
        self._config = config
        length = config.episode_length or world.spec.episode_length
        self._stepper = GraphStepper(
            world, config.num_envs, length, stagger=not self.learner.objective.is_task
        )
        self._loops = {
            "random": jax.jit(partial(self._loop, random=True, narrow=False), donate_argnums=0),
            "wide": jax.jit(partial(self._loop, random=False, narrow=False), donate_argnums=0),
            "narrow": jax.jit(partial(self._loop, random=False, narrow=True), donate_argnums=0),
        }

    def first_state(self, seed: Any) -> TrainState:
        world_key, learner_key = jax.random.split(jax.random.PRNGKey(seed))
        return self.learner.init(learner_key, *self._stepper.init(world_key))

    def restart(self, state: TrainState) -> TrainState:
        """Nothing to do: the train state holds the worlds."""
        return state

    def advance(self, state: TrainState, iterations: int, random: bool) -> TrainState:
        if random:
            return self._loops["random"](state, jnp.int32(iterations))
        wide = min(max(self.narrow_from - int(state.iteration), 0), iterations)
        for kind, count in (("wide", wide), ("narrow", iterations - wide)):
            state = self._loops[kind](state, jnp.int32(count)) if count else state
        return state

    def _loop(
        self, state: TrainState, iterations: jax.Array, *, random: bool, narrow: bool
    ) -> TrainState:
        learner = self.learner
        body = learner.over_seeds(partial(self._iterate, random))
        state = learner.over_seeds(learner.narrow)(state) if narrow else state
        state = jax.lax.fori_loop(0, iterations, lambda _, s: body(s), state)
        return learner.over_seeds(learner.widen)(state) if narrow else state

    def _iterate(self, random: bool, state: TrainState) -> TrainState:
        state, action = self.learner.act(state, random)
        key, world_key = jax.random.split(state.key)
        world, step = self._stepper.step(state.world, world_key, action)
        # Write to the replay, then read: the other way round, XLA copies all of it in every iteration.
        state = self.learner.record(state.replace(key=key, world=world), action, step)
        return state if random else self.learner.update(state)

    def close(self) -> None:
        pass


class HostTrainer(SkillTrainer):
    """Trains in a world on the host: it steps while the update, dispatched before, runs.

    Such a world can't be saved, so its episodes start anew at every checkpoint, in the run that goes on and in the one that is
    resumed from there alike.
    """

    def __init__(self, world: HostWorld, config: Config):
        super().__init__(world.spec, config)
        self._config = config
        length = config.episode_length or world.spec.episode_length
        rewarded = self.learner.objective.is_task
        self._stepper = HostStepper(
            world, config.num_envs * config.seeds, length, rewarded=rewarded
        )
        learner, over_seeds, jit = (
            self.learner,
            self.learner.over_seeds,
            partial(jax.jit, donate_argnums=0),
        )
        self._act = jit(over_seeds(partial(learner.act, random=False), out_axes=(SEED_AXES, 0)))
        self._act_randomly = jit(
            over_seeds(partial(learner.act, random=True), out_axes=(SEED_AXES, 0))
        )
        self._update = jit(over_seeds(learner.update))
        self._update_narrow = jit(
            over_seeds(lambda state: learner.widen(learner.update(learner.narrow(state))))
        )
        self._record = jit(over_seeds(learner.record, extra_axes=(0, 0)))
        self._begin = jit(over_seeds(self._begin_episodes, extra_axes=(0,)))

    def first_state(self, seed: Any) -> TrainState:
        observation = jnp.zeros((self._config.num_envs, self.learner.spec.observation_size))
        return self.learner.init(jax.random.PRNGKey(seed), (), observation)

    def restart(self, state: TrainState) -> TrainState:
        """New episodes everywhere, determined by the run's seed and the iteration."""
        sequence = np.random.SeedSequence([self._config.seed, int(state.iteration)])
        seed = int(sequence.generate_state(1)[0] // 2)
        observation = self._stepper.restart(seed, stagger=not self.learner.objective.is_task)
        return self._begin(state, self._split(observation))

    def _begin_episodes(self, state: TrainState, observation: jax.Array) -> TrainState:
        key, skill_key = jax.random.split(state.key)
        skill = self.learner.objective.skill_space.sample(skill_key, self._config.num_envs)
        age, earned = jnp.zeros_like(state.skill_age), jnp.zeros_like(state.earned)
        return state.replace(
            key=key, observation=observation, skill=skill, skill_age=age, earned=earned
        )

    def advance(self, state: TrainState, iterations: int, random: bool) -> TrainState:
        start = int(state.iteration)
        for iteration in range(start, start + iterations):
            state, action = (self._act_randomly if random else self._act)(state)
            actions = np.asarray(action)
            if not random:
                state = (self._update if iteration < self.narrow_from else self._update_narrow)(
                    state
                )
            state = self._record(state, action, self.simulate(actions))
        return state

    def simulate(self, actions: np.ndarray) -> Step:
        """A step of all copies of the world, by actions [n, A] or [S, n, A]."""
        return Step(*map(self._split, self._stepper.step(actions.reshape(-1, actions.shape[-1]))))

    def _split(self, rows: np.ndarray) -> np.ndarray:
        """Rows of all environments [S * n, ...] to seeds [S, n, ...]."""
        if self._config.seeds == 1:
            return rows
        return rows.reshape(self._config.seeds, self._config.num_envs, *rows.shape[1:])

    def close(self) -> None:
        self._stepper.close()


def make_trainer(world: World, config: Config) -> GraphTrainer | HostTrainer:
    """The trainer for a world's kind."""
    if isinstance(world, JaxWorld):
        return GraphTrainer(world, config)
    assert isinstance(world, HostWorld)
    return HostTrainer(world, config)
