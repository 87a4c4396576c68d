"""A new run that starts from another run's flat policy, whose task may show it more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from dusdi import checkpoint, normalise
from dusdi.checkpoint import Checkpoint
from dusdi.errors import CheckpointError, UsageError
from dusdi.learner import Learner, TrainState
from dusdi.resolve import Layer, PretrainSettings
from dusdi.resume import read_settings
from dusdi.settings import NetworkSettings
from dusdi.skills import Skills

STARTING_COUNT = 10_000.0  # observations that the moments of a policy that is taken over count for

#: Settings that say how an actor is built and what it sees; a policy that is fine-tuned keeps them.
ACTOR_FIELDS = (
    "actor_hidden",
    "additive_actor",
    "skill_input",
    "input_gain",
    "state_independent_std",
    "log_std_min",
    "log_std_max",
    "normalise_observations",
)


def actor_settings(settings: Mapping[str, Any]) -> Layer:
    """What a run that starts from a policy takes over from the settings of the policy's run."""
    networks = NetworkSettings.from_json(settings["networks"])
    kept = {name: getattr(networks, name) for name in ACTOR_FIELDS}
    # Random actions would throw away the first steps of a policy that is there already, and critics
    # that know nothing yet would lead it astray.
    wait = settings["sac"]["random_steps"]
    return Layer("the policy it starts from", {**kept, "random_steps": 0, "actor_start": wait})


def trained_actor(policy: Skills) -> tuple[Any, Any]:
    """The actor that a new run starts from, and the moments of the observations that it saw.

    They are read from the checkpoint of the policy's run, in which they are as they were trained.
    """
    if policy.folder is None:
        raise UsageError("that policy can't be fine-tuned: its run kept no files (out=...)")
    found = checkpoint.load_newest(policy.folder / "checkpoints")
    if found is None:
        raise CheckpointError(f"{policy.folder} has no checkpoint to start from")
    if found.description.get("id") != policy.description.get("id"):
        raise CheckpointError(
            f"{found.path} is of another run than the policy beside it; name the folder of the "
            "run that learned the policy"
        )
    step = found.description.get("step")
    if step != policy.step:
        raise CheckpointError(
            f"{found.path} is of step {step}, but the policy beside it of step {policy.step}; "
            "resume that run with --resume to have both written again"
        )
    return _trained(found, policy)


def _trained(found: Checkpoint, policy: Skills) -> tuple[Any, Any]:
    """The actor and the moments of observations in a checkpoint, of the policy's seed."""
    settings, spec = read_settings(found, PretrainSettings)
    seeds = settings.run.seeds

    def one(key):
        actor = Learner(spec, settings).agent.init(key).actor
        return {"agent": {"actor": actor}, "normaliser": normalise.init(spec.observation_size)}

    keys = jax.random.split(jax.random.PRNGKey(0), seeds)
    shapes = jax.eval_shape(lambda: one(keys[0]) if seeds == 1 else jax.vmap(one)(keys))
    learned = checkpoint.read(found, shapes)
    if seeds > 1:
        index = policy.seed - settings.run.seed
        learned = jax.tree.map(lambda x: x[index], learned)
    return learned["agent"]["actor"], learned["normaliser"]


def started(state: TrainState, settings: PretrainSettings, actor: Any, moments: Any) -> TrainState:
    """A first state with another run's actor.

    Observation entries that the actor has not seen come last and count nothing yet.
    """
    several = settings.run.seeds > 1
    built: Any = jax.tree.structure(state.agent.actor)
    if built != jax.tree.structure(actor):
        raise UsageError("can't start from that policy: its networks are built otherwise")

    def widened(path, fresh, old):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        shape = fresh.shape[several:]
        if shape[1:] != old.shape[1:] or shape[0] < old.shape[0]:
            raise UsageError(
                f"can't start from that policy: its {name} is {list(old.shape)}, not {list(shape)}"
            )
        # Gains on the inputs stay: a gain and a weight of zero would never move.
        rest = fresh if name.endswith("gain") else jnp.zeros_like(fresh)
        axis = int(several)
        new = jax.lax.slice_in_dim(rest, old.shape[0], shape[0], axis=axis)
        old = jnp.broadcast_to(old, (*fresh.shape[:several], *old.shape))
        return jnp.concatenate([old, new], axis=axis)

    widened_actor = jax.tree_util.tree_map_with_path(widened, state.agent.actor, actor)
    size = moments.mean.shape[0]
    normaliser = state.normaliser
    count = jnp.minimum(moments.count, STARTING_COUNT)
    normaliser = normaliser.replace(
        count=jnp.broadcast_to(count, normaliser.count.shape),
        mean=normaliser.mean.at[..., :size].set(moments.mean),
        variance=normaliser.variance.at[..., :size].set(moments.variance),
    )
    return state.replace(agent=state.agent.replace(actor=widened_actor), normaliser=normaliser)
