"""Settings: small nested frozen dataclasses, each field documented beside its default.

The defaults are the paper's (its tables of hyperparameters); what the paper leaves open comes from
its first public release and is marked "release". Users name fields without their group
(`pretrain(env, batch_size=512)`, `--batch-size 512`), so names are unique within a run.

This file holds what is common to all methods and the machinery; each method adds a group of its
own (`dusdi.methods`), and `dusdi.resolve` puts defaults, presets and the user's words together.
"""

from __future__ import annotations

import dataclasses
import math
import typing
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import numpy as np

from dusdi.errors import CheckpointError, UsageError, unknown_name

#: The largest whole number of a setting: steps are counted in 32 bits.
LARGEST = 2**31 - 1
LARGEST_REAL = 1e9  # far from what 32 bits can't hold
POSITIVE = 1e-12  # the smallest positive number of a setting
BELOW_ONE = 1 - 1e-9
WIDEST = 16_384  # units of a layer
ESSENTIAL = {"steps", "seed", "seeds"}  # for which a run's description has no default


def setting(default: Any, doc: str, low: float = 0, high: float = math.inf) -> Any:
    """A field with its explanation, which is the command line's help, and the range of its values.

    Numbers are at most `LARGEST_REAL` in any case, whole ones at most `LARGEST`. The range of a
    tuple is that of its entries.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


class Group:
    """What all groups of settings can do; each is a frozen dataclass."""

    @classmethod
    def fields(cls) -> dict[str, dataclasses.Field]:
        return {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def types(cls) -> dict[str, Any]:
        hints = typing.get_type_hints(cls)
        return {name: hints[name] for name in cls.fields()}

    def __post_init__(self):
        for name, annotation in self.types().items():
            bounds = self.fields()[name].metadata
            value = checked(name, getattr(self, name), annotation, bounds)
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Raises a `UsageError` for values that can't work together."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The group that `to_json` wrote; else a `CheckpointError`.

        Fields that it lacks take their defaults, which leave runs as they were before there was
        such a field; but every run says its steps and seeds.
        """
        if not isinstance(data, Mapping):
            raise CheckpointError(
                f"settings should be a table of names and values, not {type(data).__name__}"
            )
        for name in data:
            if name not in cls.fields():
                raise CheckpointError(
                    f"this run has a setting {name!r} that this version of dusdi does not know"
                )
        for name, field in cls.fields().items():
            if name in data:
                continue
            if name in ESSENTIAL:
                raise CheckpointError(f"this run lacks the setting {name!r}; it was edited")
            warnings.warn(
                f"this run lacks the setting {name!r}, as if made before there was one; it goes on "
                f"with the default, {field.default}",
                stacklevel=2,
            )
        try:
            return cls(**data)
        except UsageError as error:
            raise CheckpointError(f"the settings of this run can't be: {error}") from error


def without_groups(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables of settings as one table; names are unique among the groups."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return flat


@dataclasses.dataclass(frozen=True)
class RunSettings(Group):
    """How long a run of skill discovery is, and how it is played and kept."""

    steps: int = setting(4_000_000, "environment steps per seed (paper: 4 M)", low=1)
    seed: int = setting(0, "random seed; with several seeds, the first of them")
    seeds: int = setting(1, "how many seeds to train at once, by vmap", low=1)
    num_envs: int = setting(4, "environments stepped together (paper: 4)", low=1)
    episode_length: int = setting(
        0, "steps between resets while training; 0: the world's own episode length"
    )
    skill_length: int = setting(
        50, "L, steps a skill stays in force (paper: 50)", low=1, high=100_000
    )
    log_every: int = setting(20_000, "environment steps between two log rows", low=1)
    checkpoint_every: int = setting(400_000, "environment steps between two checkpoints", low=1)

    def check(self):
        check_seed(self.seed, self.seeds)


@dataclasses.dataclass(frozen=True)
class NetworkSettings(Group):
    """How actor and critics are built."""

    actor_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of the actor (paper: 1024,1024)", low=1, high=WIDEST
    )
    critic_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each critic (paper: 1024,1024)", low=1, high=WIDEST
    )
    skill_input: Literal["concat", "film"] = setting(
        "concat", "the skill joins the state, or also scales the first layer (FiLM)"
    )
    additive_actor: bool = setting(
        False, "the actor is a sum of networks, one per skill component, instead of one network"
    )
    input_gain: float = setting(
        0.0, "start of learned gains on the inputs of actor and critics; 0: none"
    )
    state_independent_std: bool = setting(
        False, "the actor's deviations are free parameters instead of outputs (paper: outputs)"
    )
    log_std_min: float = setting(
        -10.0, "lower bound of the actor's log standard deviation (paper: -10)", low=-50, high=50
    )
    log_std_max: float = setting(
        2.0, "upper bound of the actor's log standard deviation (paper: 2)", low=-50, high=50
    )
    normalise_observations: bool = setting(
        False, "networks see observations with running mean 0 and deviation 1"
    )

    def check(self):
        if self.log_std_min >= self.log_std_max:
            raise UsageError(
                f"log_std_min ({self.log_std_min}) must be less than log_std_max "
                f"({self.log_std_max})"
            )
        check_layers("actor_hidden", self.actor_hidden)
        check_layers("critic_hidden", self.critic_hidden)


@dataclasses.dataclass(frozen=True)
class SACSettings(Group):
    """Soft actor-critic with one Q function per reward channel."""

    steps_per_update: int = setting(2, "environment steps per gradient update (paper: 2)", low=1)
    random_steps: int = setting(
        24_000, "environment steps of random actions before learning (release: 24,000)"
    )
    actor_start: int = setting(
        0, "environment steps before the actor learns; until then only the critics do"
    )
    batch_size: int = setting(1024, "transitions per update (paper: 1024)", low=1)
    replay_capacity: int = setting(1_000_000, "transitions kept for replay (release: 1 M)", low=1)
    actor_lr: float = setting(1e-4, "learning rate of the actor (paper: 1e-4)", low=POSITIVE)
    critic_lr: float = setting(1e-4, "learning rate of the critics (paper: 1e-4)", low=POSITIVE)
    discount: float = setting(0.95, "gamma (release: 0.95)", high=BELOW_ONE)
    tau: float = setting(
        0.01, "step of the target critics towards the critics (paper: 0.01)", low=POSITIVE, high=1
    )
    decompose_q: bool = setting(
        True, "one Q function per skill component (paper) or one for their sum (ablation)"
    )
    twin_critics: bool = setting(True, "two critics per channel, the smaller one counts")
    entropy_backup: Literal["channel", "split", "none"] = setting(
        "channel",
        "future entropy: a Q channel of its own (release), spread over the channels, or left out",
    )
    alpha: float = setting(
        0.02, "temperature (paper: 0.02), or its start if it is learned", low=POSITIVE
    )
    learn_alpha: bool = setting(False, "adapt the temperature to the target entropy")
    target_entropy: float = setting(
        -1.0, "target entropy per action entry, if the temperature is learned", low=-math.inf
    )

    def check(self):
        if self.batch_size > self.replay_capacity:
            raise UsageError(
                f"batch_size ({self.batch_size}) must not be more than replay_capacity "
                f"({self.replay_capacity})"
            )
        if self.learn_alpha and self.target_entropy >= math.log(2):
            raise UsageError(
                "target_entropy must be below log 2 = 0.693 per action entry, "
                f"not {self.target_entropy}"
            )


@dataclasses.dataclass(frozen=True)
class TaskRunSettings(Group):
    """How long a run over skills is, and how it is played and kept."""

    steps: int = setting(4_000_000, "environment (low-level) steps per seed", low=1)
    seed: int = setting(0, "random seed; with several seeds, the first of them")
    seeds: int = setting(1, "how many seeds to train at once, by vmap", low=1)
    num_envs: int = setting(4, "environments stepped together (paper: 4)", low=1)
    rollout_length: int = setting(
        20, "high-level steps of each environment between two updates (paper: 20)", low=1
    )
    decision_length: int = setting(
        0,
        "environment steps of a high-level step; 0: as many as the skills were learned with",
        high=100_000,
    )
    log_every: int = setting(20_000, "environment steps between two log rows", low=1)
    checkpoint_every: int = setting(400_000, "environment steps between two checkpoints", low=1)

    def check(self):
        check_seed(self.seed, self.seeds)


@dataclasses.dataclass(frozen=True)
class PPOSettings(Group):
    """Proximal policy optimisation; what the paper leaves open is as in Stable-Baselines3."""

    hidden: tuple[int, ...] = setting(
        (128, 128),
        "hidden layers of policy and value, with tanh (paper: 128,128)",
        low=1,
        high=WIDEST,
    )
    learning_rate: float = setting(1e-4, "learning rate (paper: 1e-4)", low=POSITIVE)
    batch_size: int = setting(32, "high-level steps per gradient step (paper: 32)", low=1)
    epochs: int = setting(10, "how often each high-level step is learned from", low=1, high=100_000)
    clip: float = setting(0.1, "how far a probability ratio counts (paper: 0.1)", low=POSITIVE)
    discount: float = setting(0.99, "gamma, per high-level step", high=BELOW_ONE)
    gae_lambda: float = setting(
        0.98, "lambda of generalised advantage estimation (paper: 0.98)", high=1
    )
    value_weight: float = setting(0.5, "weight of the value loss")
    entropy_weight: float = setting(0.0, "weight of the policy's entropy")
    max_gradient: float = setting(0.5, "largest norm of a gradient", low=POSITIVE)
    target_kl: float = setting(
        0.0, "stop an update once the policy has moved so far, summed over components; 0: never"
    )
    normalise_observations: bool = setting(
        False, "networks see observations with running mean 0 and deviation 1"
    )
    normalise_returns: bool = setting(
        False, "the value network predicts returns with running mean 0 and deviation 1"
    )

    def check(self):
        check_layers("hidden", self.hidden)


def check_seed(seed: int, seeds: int) -> None:
    if not 0 <= seed < 2**31 - seeds:
        raise UsageError(f"seed must be from 0 to {2**31 - seeds - 1}, not {seed}")


def check_layers(name: str, layers: tuple[int, ...]) -> None:
    if not layers or min(layers) < 1:
        raise UsageError(f"{name} needs at least one layer of at least one unit, not {layers}")


# --- values in their types and ranges ---


def checked(name: str, value: Any, annotation: Any, bounds: Mapping[str, float]) -> Any:
    """A setting's value in its type, or a `UsageError` that says what it should be."""
    if typing.get_origin(annotation) is Literal:
        if value not in typing.get_args(annotation):
            raise unknown_name(name, str(value), typing.get_args(annotation))
        return value
    if typing.get_origin(annotation) is tuple:
        return _checked_tuple(name, value, typing.get_args(annotation)[0], bounds)
    if annotation is str:
        if not isinstance(value, str):
            raise UsageError(f"{name} is a word, not {value!r}")
        return value
    if annotation is bool:
        if not isinstance(value, bool | np.bool_):
            raise UsageError(f"{name} is true or false, not {value!r}")
        return bool(value)
    return _checked_number(name, value, annotation, bounds["low"], bounds["high"])


def _checked_tuple(name: str, value: Any, kind: type, bounds: Mapping[str, float]) -> tuple:
    single = isinstance(value, str) if kind is str else isinstance(value, int | float)
    entries = [value] if single else value
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        what = "words" if kind is str else "whole numbers"
        raise UsageError(f"{name} is a list of {what}, not {value!r}")
    return tuple(checked(f"each entry of {name}", entry, kind, bounds) for entry in entries)


def _checked_number(name: str, value: Any, kind: type, low: float, high: float) -> Any:
    number = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool | np.bool_) or not number:
        raise UsageError(f"{name} is a number, not {value!r}")
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        raise UsageError(f"{name} must be a finite number, not {value}")
    if isinstance(value, int) and abs(value) > 10**300:  # more than a float can hold
        raise UsageError(f"{name} is far too large")
    if kind is int:
        if value != int(value):
            raise UsageError(f"{name} is a whole number, not {value}")
        high = min(high, LARGEST)
    else:
        low = max(low, -LARGEST_REAL)
        high = min(high, LARGEST_REAL)
    if not low <= value <= high:
        raise UsageError(f"{name} must be {_bound(value, kind, low, high)}, not {value}")
    return kind(value)


def _bound(value: Any, kind: type, low: float, high: float) -> str:
    """What a value that is out of range must be, in words."""
    if value > high:
        if high == BELOW_ONE:
            return "less than 1"
        return f"at most {high:,}" if kind is int else f"at most {high:g}"
    positive = low == POSITIVE or (kind is int and low == 1)
    return "positive" if positive else f"at least {low:g}"
