"""Tasks solved with skills: PPO chooses one skill after the other, or soft actor-critic does without; the composition root.

For tasks in JAX a whole iteration (rollout, skills acting, learning) is one compiled program. For tasks on the host the same
agent runs in between the host's steps. Either way a run is saved, resumed and logged like a run of skill discovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from dusdi import normalise
from dusdi.agents.ppo import PPO, PPOState, Rollout
from dusdi.config import AGENTS, PPOConfig, configure
from dusdi.controller import Controller, FlatController, SkillController
from dusdi.envs.base import EnvState, JaxWorld, World
from dusdi.errors import UsageError, unknown_name
from dusdi.hierarchy import GraphHierarchy, Hierarchy, check_fit, check_setting
from dusdi.loop import conduct
from dusdi.normalise import Normaliser
from dusdi.policy import SkillParams, Skills, load
from dusdi.pretraining import run_sac
from dusdi.rollout import Step
from dusdi.tasks import as_task
from dusdi.types import Metrics, mean_metrics

#: Config fields that say how an actor is built and what it sees; a policy that is fine-tuned keeps them.
ACTOR_FIELDS = (
    "actor_hidden", "actor_parts", "skill_input", "input_gain", "free_std", "half_precision", "log_std_min", "log_std_max",
    "normalise_observations",
)  # fmt: skip

#: What soft actor-critic on a task's reward wants different from skill discovery, by preset.
FLAT: dict[str, dict[str, Any]] = {
    "paper": {},
    "fast": dict(
        steps=4_096_000,
        log_every=128_000,
        checkpoint_every=2_048_000,
        episode_length=0,
        actor_parts="whole",
        input_gain=0.0,
        decompose_q=False,
        half_precision=False,
        actor_hidden=(256, 256),
        critic_hidden=(256, 256),
        actor_lr=1e-3,
        critic_lr=1e-3,
        discount=0.99,
        tau=0.01,
        twin_critics=True,
        learn_alpha=True,
        target_entropy=-0.5,
    ),
    "debug": dict(episode_length=0, steps=6_400, log_every=3_200, checkpoint_every=3_200),
}


class HighState(struct.PyTreeNode):
    """All that a downstream run is. With S seeds, all but `iteration` and `skills` lead with [S].

    Attributes:
      iteration: [] int32, rollouts so far.
      key: the random state.
      world: state of the tasks in JAX; empty for tasks on the host.
      observation: [n, D].
      earned: [n, K], reward since the episode began.
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
    normaliser: Normaliser
    agent: PPOState
    skills: SkillParams
    metrics: Metrics
    updates: jax.Array


#: What vmap maps over when there are several seeds: everything but the clock and the skills.
SEED_AXES = HighState(None, 0, 0, 0, 0, 0, 0, None, 0, None)  # type: ignore[arg-type]


class HighLearner:
    """The pure functions of learning to choose skills, and what the loop wants to know."""

    def __init__(self, task: World, skills: Skills, config: PPOConfig):
        check_fit(skills, task)
        self.spec, self.config, self._skills = task.spec, config, skills
        self.agent = PPO(
            task.spec.observation_size, skills.space, causal_matrix(task, skills, config), config
        )
        self.random_iterations = 0

    @property
    def steps_per_iteration(self) -> int:
        return self.config.num_envs * self.config.rollout_length * self._skills.config.skill_length

    def learned(self, state: HighState) -> Any:
        return {"agent": state.agent}

    def summarise(self, sums: Mapping[str, float], updates: int) -> dict[str, float]:
        row = mean_metrics(sums, updates)
        return {"return": row.pop("return"), "episodes": row.pop("episodes"), **row}

    def begin(self, key: jax.Array, world: EnvState, observation: jax.Array) -> HighState:
        key, agent_key = jax.random.split(key)
        names = ("return", "episodes", "loss/policy", "loss/value", "entropy", "kl", "clipped")
        returns = (
            [f"return/{name}" for name in self.spec.channels] if len(self.spec.channels) > 1 else []
        )
        return HighState(
            iteration=jnp.int32(0),
            key=key,
            world=world,
            observation=observation,
            earned=jnp.zeros((self.config.num_envs, len(self.spec.channels))),
            normaliser=normalise.init(self.spec.observation_size),
            agent=self.agent.init(agent_key),
            skills=self._skills.params,
            metrics={name: jnp.float32(0) for name in (*names, *returns)},
            updates=jnp.int32(0),
        )

    def seen(self, normaliser: Normaliser, observation: jax.Array) -> jax.Array:
        """Observations as the networks see them."""
        return (
            normalise.apply(normaliser, observation)
            if self.config.normalise_observations
            else observation
        )

    def choose(self, state: HighState) -> tuple[HighState, jax.Array]:
        """Skills for the current observations."""
        key, skill_key = jax.random.split(state.key)
        seen = self.seen(state.normaliser, state.observation)
        return state.replace(key=key), self.agent.sample(state.agent.params, skill_key, seen)

    def record(self, state: HighState, skill: jax.Array, step: Step) -> tuple[HighState, Rollout]:
        """Remembers a high-level step and moves on."""
        seen, successor = (
            self.seen(state.normaliser, x) for x in (state.observation, step.successor)
        )
        log_prob, _ = self.agent.log_prob(state.agent.params, seen, skill)
        reward = step.reward if self.config.agent == "cpg" else step.reward.sum(-1, keepdims=True)
        value, next_value = (
            self.agent.value(state.agent, seen),
            self.agent.value(state.agent, successor),
        )
        row = Rollout(seen, skill, log_prob, value, next_value, reward, step.terminated, step.over)
        earned = state.earned + step.reward * self._skills.config.skill_length
        over = step.over[:, None]
        finished = jnp.sum(earned * over, axis=0)
        sums = {"return": finished.sum(), "episodes": jnp.sum(over, dtype=jnp.float32)}
        if len(self.spec.channels) > 1:
            sums |= {
                f"return/{name}": x for name, x in zip(self.spec.channels, finished, strict=True)
            }
        state = state.replace(
            observation=step.observation,
            earned=jnp.where(over, 0.0, earned),
            metrics=state.metrics | {name: state.metrics[name] + x for name, x in sums.items()},
        )
        return state, row

    def learn(self, state: HighState, rollout: Rollout, raw: jax.Array) -> HighState:
        """An update on a rollout [T, n]; `raw` are its observations [T, n, D] before scaling."""
        key, update_key = jax.random.split(state.key)
        agent, metrics = self.agent.update(state.agent, update_key, rollout)
        sums = {name: state.metrics[name] + value for name, value in metrics.items()}
        return state.replace(
            iteration=state.iteration + 1,
            key=key,
            agent=agent,
            normaliser=normalise.update(state.normaliser, raw.reshape(-1, raw.shape[-1])),
            metrics=state.metrics | sums,
            updates=state.updates + 1,
        )

    def over_seeds(self, function, *, extra_axes: tuple[Any, ...] = (), out_axes: Any = SEED_AXES):
        """vmaps a function of a state over the seeds, if there are several."""
        if self.config.seeds == 1:
            return function
        return jax.vmap(function, in_axes=(SEED_AXES, *extra_axes), out_axes=out_axes)

    def first_state(self, seed: Any) -> HighState:
        """The state of one seed before the first step."""
        raise NotImplementedError

    def init(self) -> HighState:
        """The first state of all seeds."""
        return jax.jit(self._first_states)(self._seeds)

    def shapes(self) -> HighState:
        """The shapes of the first state, for which no memory is needed."""
        return jax.eval_shape(self._first_states, self._seeds)

    @property
    def _seeds(self) -> Any:
        return (
            self.config.seed
            if self.config.seeds == 1
            else jnp.arange(self.config.seeds) + self.config.seed
        )

    def _first_states(self, seeds: Any) -> HighState:
        several = self.config.seeds > 1
        return (
            jax.vmap(self.first_state, out_axes=SEED_AXES)(seeds)
            if several
            else self.first_state(seeds)
        )


class GraphHighTrainer(HighLearner):
    """Learns in a task written in JAX: rollouts and updates are one compiled, donated program."""

    def __init__(self, task: JaxWorld, skills: Skills, config: PPOConfig):
        super().__init__(task, skills, config)
        self._hierarchy = GraphHierarchy(task, skills, config.num_envs)
        self._loop = jax.jit(self._iterate_often, donate_argnums=0)

    def first_state(self, seed: Any) -> HighState:
        world_key, learner_key = jax.random.split(jax.random.PRNGKey(seed))
        return self.begin(learner_key, *self._hierarchy.init(world_key))

    def restart(self, state: HighState) -> HighState:
        """Nothing to do: the state holds the tasks."""
        return state

    def advance(self, state: HighState, iterations: int, random: bool) -> HighState:
        return self._loop(state, jnp.int32(iterations))

    def _iterate_often(self, state: HighState, iterations: jax.Array) -> HighState:
        body = self.over_seeds(self._iterate)
        return jax.lax.fori_loop(0, iterations, lambda _, s: body(s), state)

    def _iterate(self, state: HighState) -> HighState:
        def high_level(state, _):
            raw = state.observation
            state, skill = self.choose(state)
            key, world_key = jax.random.split(state.key)
            world, step = self._hierarchy.step(
                state.skills, state.world, world_key, self.agent.bounded(skill)
            )
            state, row = self.record(state.replace(key=key, world=world), skill, step)
            return state, (row, raw)

        state, (rollout, raw) = jax.lax.scan(high_level, state, length=self.config.rollout_length)
        return self.learn(state, rollout, raw)

    def close(self) -> None:
        pass


class HostHighTrainer(HighLearner):
    """Learns in a task on the host. Its episodes start anew at every checkpoint, since it can't be saved."""

    def __init__(self, task: World, skills: Skills, config: PPOConfig):
        super().__init__(task, skills, config)
        self._hierarchy = Hierarchy(task, skills, config.num_envs * config.seeds)
        self._choose = jax.jit(
            self.over_seeds(self.choose, out_axes=(SEED_AXES, 0)), donate_argnums=0
        )
        self._record = jax.jit(
            self.over_seeds(self.record, extra_axes=(0, 0), out_axes=(SEED_AXES, 0)),
            donate_argnums=0,
        )
        self._learn = jax.jit(self.over_seeds(self.learn, extra_axes=(0, 0)), donate_argnums=0)

    def first_state(self, seed: Any) -> HighState:
        observation = jnp.zeros((self.config.num_envs, self.spec.observation_size))
        return self.begin(jax.random.PRNGKey(seed), (), observation)

    def restart(self, state: HighState) -> HighState:
        """New episodes everywhere, determined by the run's seed and the iteration."""
        sequence = np.random.SeedSequence([self.config.seed, int(state.iteration)])
        observation = self._hierarchy.restart(int(sequence.generate_state(1)[0] // 2))
        return state.replace(
            observation=jnp.asarray(self._split(observation)), earned=jnp.zeros_like(state.earned)
        )

    def advance(self, state: HighState, iterations: int, random: bool) -> HighState:
        for _ in range(iterations):
            rows, raw = [], []
            for _ in range(self.config.rollout_length):
                raw.append(np.asarray(state.observation))
                state, skill = self._choose(state)
                step = self._hierarchy.step(
                    np.asarray(self.agent.bounded(skill)).reshape(-1, *self._skills.skill_shape)
                )
                state, row = self._record(state, skill, Step(*map(self._split, step)))
                rows.append(row)
            rollout, seen = jax.tree.map(
                lambda *x: jnp.stack(x, self._time_axis), *zip(rows, raw, strict=True)
            )
            state = self._learn(state, rollout, seen)
        return state

    @property
    def _time_axis(self) -> int:
        return 0 if self.config.seeds == 1 else 1

    def _split(self, rows: np.ndarray) -> np.ndarray:
        """Rows of all copies [S * n, ...] to seeds [S, n, ...]."""
        if self.config.seeds == 1:
            return rows
        return rows.reshape(self.config.seeds, self.config.num_envs, *rows.shape[1:])

    def close(self) -> None:
        self._hierarchy.close()


def causal_matrix(task: World, skills: Skills, config: PPOConfig) -> np.ndarray:
    """Which reward channel can depend on which skill component, bool [K, C]; one channel that depends on all for plain PPO."""
    components = skills.space.components
    if config.agent == "ppo":
        return np.ones((1, components), bool)
    channels = len(task.spec.channels)
    if channels < 2:
        raise UsageError(
            f"the causal policy gradient needs a task with several reward channels; {task.spec.name!r} has one"
        )
    if task.causal is None:
        raise UsageError(
            f"the causal policy gradient needs the causal matrix of {task.spec.name!r}: set its `causal`"
        )
    causal = np.asarray(task.causal, np.bool_)
    if causal.ndim != 2 or causal.shape[0] != channels:
        raise UsageError(
            f"the causal matrix of {task.spec.name!r} is {list(causal.shape)}; it needs a row for each of {channels} channels"
        )
    if causal.shape[1] != components:
        raise UsageError(
            f"the causal matrix of {task.spec.name!r} is about {causal.shape[1]} skill components; these skills have {components}"
        )
    return causal


def downstream(
    skills: Skills | str | Path | None,
    task: World | str,
    *,
    agent: str | None = None,
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **fields: Any,
) -> Controller:
    """Learns a task with frozen skills, or (agent "sac") without.

    Args:
      skills: the skills or their run's folder; None for soft actor-critic from scratch.
      task: a task, or the name of one (`dusdi envs` lists them).
      agent: "ppo" (default with skills), "cpg" (PPO with the causal policy gradient) or "sac" (flat).
      preset: "fast" (default), "paper" or "debug".
      out: folder for checkpoints, CSV and TensorBoard events; nothing is written without one.
      resume: go on with the run in `out`, if there is one.
      progress: show a progress bar (or log lines, if the output is not a terminal).
      **fields: any field of `dusdi.PPOConfig` (or of `dusdi.Config` for "sac").

    Returns:
      What was learned, of the first seed; `dusdi.load_controller` gives the others.
    """
    named, usual = agent, "sac" if skills is None else "ppo"
    agent = usual if agent is None else agent
    if agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    skills = load(skills) if isinstance(skills, str | Path) else skills
    task = as_task(task, None if skills is None else skills.spec)
    if agent == "sac":
        return _flat(skills, task, preset, fields, out=out, resume=resume, progress=progress)
    if skills is None:
        raise UsageError(f"agent {agent} chooses skills: name the run that learned them")
    check_fit(skills, task)
    asked = {**fields} | {
        name: value for name, value in (("agent", named), ("preset", preset)) if value is not None
    }
    folder = Path(out) if out is not None else None
    origin = {"skills": describe_skills(skills)}
    trainer = GraphHighTrainer if isinstance(task, JaxWorld) else HostHighTrainer
    config, state, _ = conduct(
        task.spec, asked, PPOConfig, lambda: agent_config(task, agent, "fast" if preset is None else preset, fields),
        lambda config: trainer(task, skills, config),  # type: ignore[arg-type]
        title=lambda config: f"{config.agent} on {task.spec.name}",
        folder=folder, resume=resume, progress=progress, origin=origin,
    )  # fmt: skip
    params, normaliser = jax.tree.map(
        lambda x: x if config.seeds == 1 else x[0], (state.agent.params, state.normaliser)
    )
    step = (
        int(state.iteration) * config.num_envs * config.rollout_length * skills.config.skill_length
    )
    return SkillController(
        task.spec, config, skills, params, normaliser, seed=config.seed, step=step, folder=folder
    )


def agent_config(task: World, agent: str, preset: str, fields: Mapping[str, Any]) -> Any:
    """The config of a downstream run: the preset, then the task's wishes for it, then the user's."""
    wishes = task.agent_presets.get(preset, {})
    if agent != "sac":
        return configure(
            preset, {preset: wishes.get("ppo", {})}, {"agent": agent, **fields}, PPOConfig
        )
    flat = {**FLAT.get(preset, {}), **wishes.get("sac", {}), "method": "extrinsic"}
    return configure(preset, {preset: flat}, fields)


def describe_skills(skills: Skills) -> dict[str, Any]:
    """All that a downstream run must know to rebuild the skills around their parameters, which it keeps too."""
    return {
        "world": skills.spec.to_json(),
        "config": skills.config.to_json(),
        "seed": skills.seed,
        "step": skills.step,
    }


def _flat(
    skills: Skills | None,
    task: World,
    preset: str | None,
    fields: Mapping[str, Any],
    **options: Any,
) -> Controller:
    """Soft actor-critic on the task's reward, from scratch or from a flat policy."""
    if skills is not None:
        if skills.space.components:
            raise UsageError(
                "agent sac fine-tunes flat policies, but this run holds skills; choose among them with ppo or cpg"
            )
        check_setting(skills, task)
    asked = {**fields, "method": "extrinsic"} | ({} if preset is None else {"preset": preset})
    inherited: dict[str, Any] = {}
    if skills is not None:
        inherited = {name: getattr(skills.config, name) for name in ACTOR_FIELDS}
        options |= {"start": skills.params, "origin": {"start": describe_skills(skills)}}
    policy = run_sac(
        task,
        asked,
        lambda: agent_config(
            task, "sac", "fast" if preset is None else preset, {**inherited, **fields}
        ),
        **options,
    )
    return FlatController(policy)
