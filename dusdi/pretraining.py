"""Soft actor-critic from a world to a policy: the composition root of skill discovery, and of flat policies on tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dusdi import policy
from dusdi.config import Config, configure
from dusdi.envs import as_world
from dusdi.envs.base import World
from dusdi.errors import UsageError
from dusdi.learner import TrainState, make_trainer
from dusdi.loop import conduct
from dusdi.policy import SkillParams, Skills
from dusdi.types import idle_components

STARTING_COUNT = (
    10_000.0  # so many observations the moments of a policy that is taken over count for
)


def pretrain(
    env: World | str,
    *,
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **fields: Any,
) -> Skills:
    """Discovers skills in a world, without reward.

    Args:
      env: a world, or the name of one.
      preset: "fast" (default), "paper" or "debug"; see `dusdi.config`.
      out: folder for checkpoints, CSV and TensorBoard events; nothing is written without one.
      resume: go on with the run in `out`, if there is one.
      progress: show a progress bar (or log lines, if the output is not a terminal).
      **fields: any field of `dusdi.Config`, for instance `method="diayn-mc"`, `seed=1`, `steps=500_000`.

    Returns:
      The skills (of the first seed, if there are several; `dusdi.load` gives the others).
    """
    world = as_world(env)
    asked = fields if preset is None else {"preset": preset, **fields}

    def new_config() -> Config:
        return configure("fast" if preset is None else preset, world.presets, fields)

    return run_sac(world, asked, new_config, out=out, resume=resume, progress=progress)


def run_sac(
    world: World,
    asked: Mapping[str, Any],
    new_config: Callable[[], Config],
    *,
    out: str | Path | None,
    resume: bool,
    progress: bool,
    start: SkillParams | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Skills:
    """Trains a policy by soft actor-critic, with a new config or from where the run in `out` is.

    `asked` holds the config fields the user named, which must not contradict a run that is resumed. A new run may `start` from
    the policy of another, of which `origin` tells.
    """
    folder = Path(out) if out is not None else None
    config, state, rows = conduct(
        world.spec, asked, Config, new_config, lambda config: make_trainer(world, config),
        title=lambda config: f"{config.method} in {world.spec.name}", folder=folder, resume=resume, progress=progress,
        origin=origin, begin=lambda state, config: state if start is None else start_from(start, state, config),
    )  # fmt: skip
    skills = policy.from_state(world.spec, config, state, folder=folder)
    if idle := idle_components(rows, 1 / max(skills.space.component_size, 1)):
        listed = ", ".join(f"{name!r} ({why})" for name, why in idle.items())
        warnings.warn(
            f"what these skill components do can't be seen in the state: {listed}; docs/chance.md helps",
            stacklevel=3,
        )
    return skills


def start_from(params: SkillParams, state: TrainState, config: Config) -> TrainState:
    """A new train state with another run's actor. Entries that the actor has not seen come last and count nothing yet."""

    several = config.seeds > 1

    def widen(path, fresh, old):
        name, shape = jax.tree_util.keystr(path, simple=True, separator="/"), fresh.shape[several:]
        if shape[1:] != old.shape[1:] or shape[0] < old.shape[0]:
            raise UsageError(
                f"can't start from that policy: its {name} is {list(old.shape)}, not {list(shape)}"
            )
        # Where there are gains on the inputs, they stay: a gain and a weight of zero would never move.
        rest = fresh if name.endswith("gain") else jnp.zeros_like(fresh)
        new = jax.lax.slice_in_dim(rest, old.shape[0], shape[0], axis=int(several))
        return jnp.concatenate(
            [jnp.broadcast_to(old, (*fresh.shape[:several], *old.shape)), new], axis=int(several)
        )

    built: Any = jax.tree.structure(state.agent.actor)
    if built != jax.tree.structure(params.actor):
        raise UsageError("can't start from that policy: its networks are built otherwise")
    actor = jax.tree_util.tree_map_with_path(widen, state.agent.actor, params.actor)
    moments, fresh = params.normaliser, state.normaliser
    lead = (config.seeds,) if several else ()
    size = moments.mean.shape[0]
    normaliser = fresh.replace(
        count=jnp.broadcast_to(jnp.minimum(moments.count, STARTING_COUNT), (*lead,)),
        mean=fresh.mean.at[..., :size].set(moments.mean),
        variance=fresh.variance.at[..., :size].set(moments.variance),
    )
    return state.replace(agent=state.agent.replace(actor=actor), normaliser=normaliser)
