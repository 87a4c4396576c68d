"""Trainers run a learner together with a world: compiled into one loop, or around the host's steps.

Several seeds are one vmap over everything but the clock, and draw the very random numbers that
they would draw alone: in JAX each has its own key, on the host its own environments.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import HostWorld, JaxWorld, World
from dusdi.errors import UsageError
from dusdi.learner import Learner, TrainState
from dusdi.policy import Policy, fold_actor
from dusdi.resolve import PretrainSettings
from dusdi.stepping import CompiledStepper, HostStepper, Step, derived_seed
from dusdi.types import WorldSpec, mean_metrics


def seed_axes(kind: Any, shared: Sequence[str]) -> Any:
    """What vmap maps over in a state when there are several seeds: all fields but the shared."""
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: None if name in shared else 0 for name in names})


class Trainer(abc.ABC):
    """What the training loop drives. A state has `iteration`, `normaliser`, `metrics`, `updates`.

    Attributes:
      settings: of the run.
      spec: the world or task.
      axes: what vmap maps over in a state when there are several seeds.
      steps_per_iteration: environment steps per seed in each iteration.
      random_iterations: how many of them to start with are random.
      kind: of its runs: "skills", "flat" or "hierarchy".
      about: what the description of a run says besides, as JSON.
    """

    kind: str
    about: Mapping[str, Any] = {}
    settings: Any
    spec: WorldSpec
    axes: Any
    steps_per_iteration: int
    random_iterations = 0

    @abc.abstractmethod
    def first_state(self, seed: Any) -> Any:
        """The state of one seed before the first step."""

    @abc.abstractmethod
    def advance(self, state: Any, iterations: int, random: bool) -> Any:
        """The state after so many iterations."""

    @abc.abstractmethod
    def learned(self, state: Any) -> Any:
        """The part of the state that must stay finite."""

    @abc.abstractmethod
    def summarise(self, row: Mapping[str, float]) -> dict[str, float]:
        """A log row of mean metrics, led by what sums it up."""

    @abc.abstractmethod
    def policies(self, state: Any) -> list[Policy]:
        """What was learned, ready to act, one for each seed."""

    def restart(self, state: Any) -> Any:
        """The state after a checkpoint, the same whether the run goes on or is resumed there."""
        return state

    def close(self) -> None:  # noqa: B027
        """Lets go of what the trainer holds."""

    @property
    def seeds(self) -> list[int]:
        run = self.settings.run
        return list(range(run.seed, run.seed + run.seeds))

    def init(self) -> Any:
        """The first state of all seeds; compiled without optimisation, since it runs once."""
        options = {"xla_backend_optimization_level": 0}
        return jax.jit(self._first_states, compiler_options=options)(self._seed_array)

    def shapes(self) -> Any:
        """The shapes of the first state, for which no memory is needed."""
        return jax.eval_shape(self._first_states, self._seed_array)

    @property
    def _seed_array(self) -> Any:
        return jnp.array(self.seeds if len(self.seeds) > 1 else self.seeds[0])

    def _first_states(self, seeds: Any) -> Any:
        if len(self.seeds) == 1:
            return self.first_state(seeds)
        return jax.vmap(self.first_state, out_axes=self.axes)(seeds)

    def over_seeds(self, function: Any, *, extra_axes: tuple = (), out_axes: Any = None) -> Any:
        """vmaps a function of a state over the seeds, if there are several."""
        if len(self.seeds) == 1:
            return function
        out = self.axes if out_axes is None else out_axes
        return jax.vmap(function, in_axes=(self.axes, *extra_axes), out_axes=out)

    def per_seed(self, tree: Any) -> list[Any]:
        """The parts of a tree that lead with [S], one for each seed, as NumPy arrays."""
        tree = jax.tree.map(np.asarray, tree)
        if len(self.seeds) == 1:
            return [tree]
        return [jax.tree.map(lambda x: x[i], tree) for i in range(len(self.seeds))]  # noqa: B023

    def stack(self, parts: Sequence[Any]) -> Any:
        """The inverse of `per_seed`, for NumPy arrays."""
        if len(self.seeds) == 1:
            return parts[0]
        return jax.tree.map(lambda *x: np.stack(x), *parts)

    def mean_row(self, sums: Mapping[str, float], updates: int) -> dict[str, float]:
        """A log row of sums over updates."""
        return self.summarise(mean_metrics(sums, updates))


class SkillTrainer(Trainer):
    """What both trainers of skills share."""

    axes = seed_axes(TrainState, ("iteration", "updates"))

    def __init__(self, spec: WorldSpec, settings: PretrainSettings):
        self.learner = Learner(spec, settings)
        self.settings = settings
        self.spec = spec
        method = self.learner.method
        self.kind = "flat" if method.learns_task else "skills"
        self.about = {"skill_space": method.skill_space.to_json()}
        run = settings.run
        self.steps_per_iteration = run.num_envs
        random_steps = max(settings.sac.random_steps, settings.sac.batch_size)
        self.random_iterations = math.ceil(random_steps / run.num_envs)
        self.episode_length = run.episode_length or spec.episode_length

    def learned(self, state):
        return {"objective": state.objective, "agent": state.agent}

    def summarise(self, row):
        headline = self.learner.method.headline(row)
        if not isinstance(headline, Mapping):
            raise UsageError(
                f"headline of the method {self.learner.method.name!r} must return a dict with one "
                f"metric, not {headline!r}"
            )
        return {**headline, **row}

    def policies(self, state):
        parts = self.per_seed((state.agent.actor, state.normaliser))
        return [fold_actor(self.learner.agent, *part) for part in parts]


class CompiledSkillTrainer(SkillTrainer):
    """Trains in a world written in JAX: acting, learning and the world are one donated loop."""

    def __init__(self, world: JaxWorld, settings: PretrainSettings):
        super().__init__(world.spec, settings)
        self._stepper = CompiledStepper(
            world, settings.run.num_envs, self.episode_length, stagger=1
        )
        self._loops = {
            random: jax.jit(partial(self._loop, random=random), donate_argnums=0)
            for random in (True, False)
        }

    def first_state(self, seed):
        world_key, learner_key = jax.random.split(jax.random.PRNGKey(seed))
        episodes, observation = self._stepper.init(world_key)
        state = self.learner.init(learner_key, episodes, observation)
        return state.replace(earned=jnp.where(episodes.age > 0, jnp.nan, 0.0))

    def advance(self, state, iterations, random):
        return self._loops[random](state, jnp.int32(iterations))

    def _loop(self, state: TrainState, iterations: jax.Array, *, random: bool) -> TrainState:
        body = self.over_seeds(partial(self._iterate, random))
        return jax.lax.fori_loop(0, iterations, lambda _, s: body(s), state)

    def _iterate(self, random: bool, state: TrainState) -> TrainState:
        state, action = self.learner.act(state, random)
        key, world_key = jax.random.split(state.key)
        world, step = self._stepper.step(state.world, world_key, action)
        # Write to the replay, then read: the other way round, XLA copies it in every iteration.
        state = self.learner.record(state.replace(key=key, world=world), action, step)
        return state if random else self.learner.update(state)


class HostSkillTrainer(SkillTrainer):
    """Trains in a world on the host: it steps while the update, dispatched before, runs.

    Such a world can't be saved, so its episodes start anew at every checkpoint, in the run that
    goes on and in the one that is resumed from there alike.
    """

    def __init__(self, world: HostWorld, settings: PretrainSettings):
        super().__init__(world.spec, settings)
        learner = self.learner
        self._steppers = [
            HostStepper(
                world,
                settings.run.num_envs,
                self.episode_length,
                # Episodes start anew at every checkpoint. Returns of a task are logged, and few
                # episodes would be whole if they started in the middle each time.
                stagger=0 if learner.method.learns_task else 1,
                rewarded=learner.method.learns_task,
            )
            for _ in self.seeds
        ]
        jit = partial(jax.jit, donate_argnums=0)
        with_action = (self.axes, 0)
        self._act = {
            random: jit(self.over_seeds(partial(learner.act, random=random), out_axes=with_action))
            for random in (True, False)
        }
        self._update = jit(self.over_seeds(learner.update))
        self._record = jit(self.over_seeds(learner.record, extra_axes=(0, 0)))
        self._begin = jit(self.over_seeds(self._begin_episodes, extra_axes=(0,)))

    def first_state(self, seed):
        shape = (self.settings.run.num_envs, self.spec.observation_size)
        return self.learner.init(jax.random.PRNGKey(seed), (), jnp.zeros(shape))

    def restart(self, state):
        """New episodes everywhere, determined by each seed and the iteration."""
        iteration = int(state.iteration)
        observations = [
            stepper.reset(derived_seed(seed, iteration))
            for stepper, seed in zip(self._steppers, self.seeds, strict=True)
        ]
        return self._begin(state, self.stack(observations))

    def _begin_episodes(self, state: TrainState, observation: jax.Array) -> TrainState:
        key, episode_key = jax.random.split(state.key)
        skill, age = self.learner.first_skills(episode_key)
        return state.replace(
            key=key,
            observation=observation,
            skill=skill,
            skill_age=age,
            earned=jnp.zeros_like(state.earned),
        )

    def advance(self, state, iterations, random):
        for _ in range(iterations):
            state, action = self._act[random](state)
            actions = np.asarray(action)
            if not random:
                state = self._update(state)
            state = self._record(state, action, self.simulate(actions))
        return state

    def simulate(self, actions: np.ndarray) -> Step:
        """A step of all environments, by actions [n, A] or [S, n, A]."""
        rows = actions if len(self.seeds) > 1 else actions[None]
        steps = [stepper.step(row) for stepper, row in zip(self._steppers, rows, strict=True)]
        return self.stack(steps)

    def close(self):
        for stepper in self._steppers:
            stepper.close()


def make_trainer(world: World, settings: PretrainSettings) -> SkillTrainer:
    """The trainer for a world's kind."""
    if isinstance(world, JaxWorld):
        return CompiledSkillTrainer(world, settings)
    assert isinstance(world, HostWorld)
    return HostSkillTrainer(world, settings)
