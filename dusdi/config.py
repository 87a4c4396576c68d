"""Every setting of skill learning and of task learning, documented beside its default; presets are data.

The defaults are the paper's (its tables of hyperparameters); what the paper leaves open comes from its first public release
and is marked "release". A preset changes some fields, a world may change some more (`World.presets`), and the user has the
last word.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from dusdi.errors import CheckpointError, UsageError, unknown_name

#: The largest whole number of a setting: steps are counted in 32 bits.
LARGEST = 2**31 - 1
LARGEST_REAL = 1e9  # far from what 32 bits can't hold
POSITIVE = 1e-12  # the smallest positive number of a setting
BELOW_ONE = 1 - 1e-9


def setting(default: Any, doc: str, low: float = 0, high: float = math.inf) -> Any:
    """A config field with its explanation, which the command line shows as help, and the range its values must be in.

    Numbers are at most `LARGEST_REAL` in any case, whole ones at most `LARGEST`. The range of a tuple is that of its entries.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


class BaseConfig:
    """What all configs can do; each is a frozen dataclass with `presets` and a `check`."""

    presets: ClassVar[dict[str, dict[str, Any]]]

    @classmethod
    def fields(cls) -> dict[str, dataclasses.Field]:
        return {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def types(cls) -> dict[str, Any]:
        hints = typing.get_type_hints(cls)
        return {name: hints[name] for name in cls.fields()}

    def __post_init__(self):
        for name, annotation in self.types().items():
            field = self.fields()[name]
            object.__setattr__(
                self, name, _checked(name, getattr(self, name), annotation, field.metadata)
            )
        self.check()

    def check(self) -> None:
        """Raises a `UsageError` for values that can't work together, before any compute is spent."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]


@dataclasses.dataclass(frozen=True)
class Config(BaseConfig):
    """The settings of one run of skill discovery, or of soft actor-critic on a task's reward (method `extrinsic`)."""

    method: str = setting("dusdi", "skill-discovery objective")
    preset: str = setting("paper", "preset the fields started from")

    # --- how much, and how often ---
    steps: int = setting(4_000_000, "environment steps per seed (paper: 4 M)", low=1)
    seed: int = setting(0, "random seed; with several seeds, the first of them")
    seeds: int = setting(1, "how many seeds to train at once, by vmap", low=1)
    num_envs: int = setting(4, "copies of the world stepped together (paper: 4)", low=1)
    steps_per_update: int = setting(2, "environment steps per gradient update (paper: 2)", low=1)
    random_steps: int = setting(
        24_000, "environment steps of random actions before learning (release: 24,000)"
    )
    episode_length: int = setting(
        0, "steps between resets while training; 0: the world's own episode length"
    )
    log_every: int = setting(20_000, "environment steps between two log rows", low=1)
    checkpoint_every: int = setting(400_000, "environment steps between two checkpoints", low=1)

    # --- skills ---
    skill_kind: Literal["discrete", "continuous"] = setting(
        "discrete", "kind of every skill component"
    )
    skill_values: int = setting(
        5, "k, values of a discrete component (paper: 5)", low=1, high=1_000_000
    )
    skill_dim: int = setting(1, "m, dimensions of a continuous component", low=1)
    skill_length: int = setting(
        50, "L, steps a skill stays in force (paper: 50)", low=1, high=100_000
    )
    max_skills: int = setting(
        4096, "most skills DIAYN's single component may have (paper: 4096)", low=1
    )

    # --- intrinsic reward ---
    penalty_weight: float = setting(0.1, "lambda, weight of the entanglement penalty (paper: 0.1)")
    penalty: Literal["paper", "club"] = setting(
        "paper", "estimate of I(S^-i; Z^i): paper's lower bound or CLUB's upper"
    )
    penalty_start: int = setting(
        0, "environment steps before the penalty counts (release: 1,000,000)"
    )
    mask_steps: int = setting(
        10, "steps after a skill switch without discriminator loss and reward (release: 10)"
    )
    discriminator_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each q_phi (paper)", low=1, high=16_384
    )
    discriminator_bumps: int = setting(
        0, "Gaussian bumps through which each q_phi sees an entry; 0: the plain entry", high=10_000
    )
    bumps_on: Literal["all", "codes"] = setting(
        "all", "entries seen through bumps: all, or those that only name things"
    )
    discriminator_lr: float = setting(1e-4, "learning rate of each q_phi (paper)", low=POSITIVE)
    discriminator_decay: float = setting(
        0.0, "weight of q_phi's squared parameters in its loss, divided by k"
    )
    elsewhere_weight: float = setting(
        0.0, "weight of q_phi's further answer, that a state is nobody's place (discrete skills)"
    )
    elsewhere_steps: int = setting(
        1, "environment steps in which that weight grows, with their square", low=1
    )
    reward_floor: float = setting(
        0.0,
        "share of the prior mixed into q_phi for the reward, which bounds it below",
        high=BELOW_ONE,
    )
    penalty_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each q_psi (paper)", low=1, high=16_384
    )
    penalty_lr: float = setting(1e-4, "learning rate of each q_psi (paper)", low=POSITIVE)

    # --- soft actor-critic ---
    actor_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of the actor (paper)", low=1, high=16_384
    )
    critic_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each critic (paper)", low=1, high=16_384
    )
    skill_input: Literal["concat", "gate"] = setting(
        "concat", "skill joins the state, or also scales the first layer"
    )
    actor_parts: Literal["whole", "additive"] = setting(
        "whole", "one actor network, or the sum of one per skill component"
    )
    input_gain: float = setting(
        0.0, "start of learned gains on the inputs of actor and critics; 0: none"
    )
    input_limit: int = setting(
        0, "inputs that networks of a single component keep, those with the largest gains; 0: all"
    )
    input_limit_from: int = setting(0, "environment steps before the other inputs are dropped")
    free_std: bool = setting(
        False, "actor's deviations are parameters of their own instead of outputs (paper)"
    )
    half_precision: bool = setting(
        False, "shared products read bfloat16 numbers, where the processor knows them"
    )
    critic_skill: Literal["all", "own"] = setting(
        "all", "critic of component i sees all of z, or only z^i"
    )
    actor_lr: float = setting(1e-4, "learning rate of the actor (paper)", low=POSITIVE)
    critic_lr: float = setting(1e-4, "learning rate of the critics (paper)", low=POSITIVE)
    batch_size: int = setting(1024, "transitions per update (paper: 1024)", low=1)
    replay_capacity: int = setting(1_000_000, "transitions kept for replay (release)", low=1)
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
        -1.0, "target entropy per action dimension, if the temperature is learned", low=-math.inf
    )
    log_std_min: float = setting(
        -10.0, "lower bound of the actor's log standard deviation (paper)", low=-50, high=50
    )
    log_std_max: float = setting(
        2.0, "upper bound of the actor's log standard deviation (paper)", low=-50, high=50
    )
    normalise_observations: bool = setting(
        False, "networks see observations with running mean 0 and deviation 1"
    )

    @property
    def updates_per_iteration(self) -> int:
        """Gradient updates after each step of all environments."""
        return self.num_envs // self.steps_per_update

    def check(self) -> None:
        _check_seed(self.seed, self.seeds)
        random = max(self.random_steps, self.batch_size)
        if math.ceil(self.steps / self.num_envs) <= math.ceil(random / self.num_envs):
            raise UsageError(
                f"nothing would be learned in {self.steps:,} steps: the first {random:,} are random (random_steps, or batch_size "
                "if that is more); make steps larger or those smaller"
            )
        if self.batch_size > self.replay_capacity:
            raise UsageError(
                f"batch_size ({self.batch_size}) must not be more than replay_capacity ({self.replay_capacity})"
            )
        if self.log_std_min >= self.log_std_max:
            raise UsageError(
                f"log_std_min ({self.log_std_min}) must be less than log_std_max ({self.log_std_max})"
            )
        if self.learn_alpha and self.target_entropy >= math.log(2):
            raise UsageError(
                f"target_entropy must be below log 2 = 0.693 per action entry, not {self.target_entropy}"
            )
        if self.discriminator_bumps and not self.normalise_observations:
            raise UsageError(
                "discriminator_bumps need normalise_observations: the bumps lie where normalised entries do"
            )
        for name in ("actor_hidden", "critic_hidden"):
            _check_layers(name, getattr(self, name))
        if self.input_limit and not self.input_gain:
            raise UsageError(
                "input_limit needs input_gain: inputs are kept by the size of their gains"
            )
        if self.discriminator_bumps == 1:
            raise UsageError("discriminator_bumps must be 0 (plain entries) or at least 2")
        if self.num_envs % self.steps_per_update:
            raise UsageError(
                f"num_envs ({self.num_envs}) must be a multiple of steps_per_update ({self.steps_per_update}); "
                f"set both, for instance steps_per_update to {math.gcd(self.num_envs, self.steps_per_update)} or {self.num_envs}"
            )
        if self.replay_capacity % self.num_envs:
            nearest = max(1, round(self.replay_capacity / self.num_envs)) * self.num_envs
            raise UsageError(
                f"replay_capacity ({self.replay_capacity}) must be a multiple of num_envs ({self.num_envs}), "
                f"for instance {nearest}"
            )
        if self.skill_kind == "discrete" and self.skill_values < 2:
            raise UsageError(
                "skill_values must be at least 2: a component with one value can't express anything"
            )
        if self.mask_steps >= self.skill_length:
            raise UsageError(
                f"mask_steps ({self.mask_steps}) must be smaller than skill_length ({self.skill_length}), "
                "or no step is left to learn from"
            )


@dataclasses.dataclass(frozen=True)
class PPOConfig(BaseConfig):
    """The settings of one downstream run: PPO over skills, plain or with the causal policy gradient."""

    agent: Literal["ppo", "cpg"] = setting("ppo", "PPO, or PPO with the causal policy gradient")
    preset: str = setting("paper", "preset the fields started from")

    # --- how much, and how often ---
    steps: int = setting(4_000_000, "environment (low-level) steps per seed", low=1)
    seed: int = setting(0, "random seed; with several seeds, the first of them")
    seeds: int = setting(1, "how many seeds to train at once, by vmap", low=1)
    num_envs: int = setting(4, "copies of the task stepped together (paper: 4)", low=1)
    rollout_length: int = setting(
        20, "high-level steps of each copy between two updates (paper: 20)", low=1
    )
    log_every: int = setting(20_000, "environment steps between two log rows", low=1)
    checkpoint_every: int = setting(400_000, "environment steps between two checkpoints", low=1)

    # --- proximal policy optimisation; what the paper does not say is as in Stable-Baselines3 ---
    hidden: tuple[int, ...] = setting(
        (128, 128),
        "hidden layers of policy and value network, with tanh (paper)",
        low=1,
        high=16_384,
    )
    learning_rate: float = setting(1e-4, "learning rate (paper)", low=POSITIVE)
    batch_size: int = setting(32, "high-level steps per gradient step (paper)", low=1)
    epochs: int = setting(10, "how often each high-level step is learned from", low=1, high=100_000)
    clip: float = setting(0.1, "how far a probability ratio counts (paper)", low=POSITIVE)
    discount: float = setting(0.99, "gamma, per high-level step", high=BELOW_ONE)
    gae_lambda: float = setting(0.98, "lambda of generalised advantage estimation (paper)", high=1)
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

    def check(self) -> None:
        _check_seed(self.seed, self.seeds)
        _check_layers("hidden", self.hidden)
        if self.num_envs * self.rollout_length % self.batch_size:
            raise UsageError(
                f"batch_size ({self.batch_size}) must divide the {self.num_envs * self.rollout_length} high-level steps "
                f"between two updates (num_envs x rollout_length = {self.num_envs} x {self.rollout_length})"
            )


def _check_seed(seed: int, seeds: int) -> None:
    if not 0 <= seed < 2**31 - seeds:
        raise UsageError(f"seed must be from 0 to {2**31 - seeds - 1}, not {seed}")


def _check_layers(name: str, layers: tuple[int, ...]) -> None:
    if not layers or min(layers) < 1:
        raise UsageError(f"{name} needs at least one layer of at least one unit, not {layers}")


def _checked(name: str, value: Any, annotation: Any, bounds: Mapping[str, float]) -> Any:
    """A setting's value in its type, or a `UsageError` that says what it should be."""
    if typing.get_origin(annotation) is Literal:
        if value not in typing.get_args(annotation):
            raise unknown_name(name, str(value), typing.get_args(annotation))
        return value
    if typing.get_origin(annotation) is tuple:
        entries = [value] if isinstance(value, int | float) else value
        if isinstance(entries, str) or not isinstance(entries, Iterable):
            raise UsageError(f"{name} is a list of whole numbers, not {value!r}")
        return tuple(_checked(f"each entry of {name}", entry, int, bounds) for entry in entries)
    if annotation is str:
        if not isinstance(value, str):
            raise UsageError(f"{name} is a word, not {value!r}")
        return value
    if annotation is bool:
        if not isinstance(value, bool | np.bool_):
            raise UsageError(f"{name} is true or false, not {value!r}")
        return bool(value)
    return _checked_number(name, value, annotation, bounds["low"], bounds["high"])


def _checked_number(name: str, value: Any, kind: type, low: float, high: float) -> Any:
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
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
        low, high = max(low, -LARGEST_REAL), min(high, LARGEST_REAL)
    if not low <= value <= high:
        raise UsageError(f"{name} must be {_bound(value, kind, low, high)}, not {value}")
    return kind(value)


def _bound(value: Any, kind: type, low: float, high: float) -> str:
    """What a value that is out of range must be, in words."""
    if value > high:
        return (
            "less than 1"
            if high == BELOW_ONE
            else f"at most {high:,}"
            if kind is int
            else f"at most {high:g}"
        )
    positive = low == POSITIVE or (kind is int and low == 1)
    return "positive" if positive else f"at least {low:g}"


#: Fields in which a preset differs from the defaults. Where those of `fast` come from is said beside them; "measured" is
#: docs/experiments.md, and `results/` holds what the preset reaches.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "fast": dict(
        # One update for each step of many copies: compiled loops like big steps, and discriminators need many skills at once.
        steps=1_024_000,  # 4,000 updates; accuracy levels off at about 3,000 in the smallest world
        num_envs=256,
        steps_per_update=256,
        batch_size=256,  # measured: 512 is no better
        replay_capacity=204_800,  # measured: four times as much is worse, being older
        random_steps=10_240,
        episode_length=200,  # more starts than with the worlds' 1,000
        log_every=25_600,
        checkpoint_every=512_000,
        # Rewards: measured in the world of three factors
        mask_steps=0,  # the critics can't see a skill's age
        discriminator_hidden=(),  # linear: gathers each skill in one place
        discriminator_bumps=16,  # but tells places on a line apart
        discriminator_lr=2e-3,
        penalty_hidden=(),  # enough where factors are independent, and learns nothing by heart
        penalty_lr=2e-3,
        # Networks: measured in the world of ten factors
        actor_hidden=(64, 64),  # as good as (128, 128)
        critic_hidden=(64, 64),
        skill_input="gate",  # without it, chance for thousands of updates
        actor_parts="additive",  # a component's part is not disturbed by the others' noise
        input_gain=0.1,  # a soft choice among many inputs
        free_std=True,  # measured: steadier, and half the outputs
        half_precision=True,  # measured: no worse; 13 % faster with many factors
        critic_skill="own",
        # Soft actor-critic
        actor_lr=3e-3,  # measured: 1e-3 is slower and no steadier
        critic_lr=3e-3,
        discount=0.9,  # the next ten steps count, a skill lasts fifty
        tau=0.05,
        alpha=0.1,
        twin_critics=False,  # measured: no better, twice the work
        entropy_backup="none",  # measured: "split" is worse
        normalise_observations=True,  # for bumps and gains
    ),
}
PRESETS["debug"] = PRESETS["fast"] | dict(
    steps=2_560,
    num_envs=16,
    steps_per_update=16,
    random_steps=320,
    log_every=320,
    checkpoint_every=640,
    batch_size=32,
    replay_capacity=2_048,
    actor_hidden=(16, 16),
    critic_hidden=(16, 16),
)

Config.presets = PRESETS

PPO_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},  # its "target steps 250" has no counterpart here
    "fast": dict(
        steps=4_096_000,
        num_envs=64,
        log_every=64_000,
        checkpoint_every=2_048_000,
        learning_rate=1e-3,
        batch_size=128,
        clip=0.2,
        discount=0.95,
        gae_lambda=0.95,
        entropy_weight=0.001,
        normalise_observations=True,
        normalise_returns=True,
    ),
}
PPO_PRESETS["debug"] = PPO_PRESETS["fast"] | dict(
    steps=32_000,
    num_envs=4,
    rollout_length=20,
    log_every=4_000,
    checkpoint_every=8_000,
    batch_size=16,
    hidden=(16,),
    epochs=2,
)
PPOConfig.presets = PPO_PRESETS

AnyConfig = Config | PPOConfig
AGENTS = ("ppo", "cpg", "sac")  # that learn tasks: two with `PPOConfig`, the last with `Config`


def configure(
    preset: str,
    world_presets: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, Any],
    kind: type[BaseConfig] = Config,
) -> Any:
    """The config of a run: the preset, then the world's wishes for it, then the user's."""
    if preset not in kind.presets:
        raise unknown_name("preset", preset, kind.presets)
    for name in overrides:
        if name not in kind.fields():
            raise unknown_name("config field", name, kind.fields())
    return kind(
        **{**kind.presets[preset], **world_presets.get(preset, {}), **overrides, "preset": preset}
    )


def from_json(data: Any, kind: type[BaseConfig] = Config) -> Any:
    """The config that `to_json` wrote, with all its fields and no others; else a `CheckpointError`."""
    if not isinstance(data, Mapping):
        raise CheckpointError(
            f"the settings of this run should be a table of names and values, not {type(data).__name__}"
        )
    for name in data:
        if name not in kind.fields():
            raise CheckpointError(
                f"this run has a setting {name!r} that this version of dusdi does not know"
            )
    for name in kind.fields():
        if name not in data:
            raise CheckpointError(
                f"this run lacks the setting {name!r}; it was edited, or made by another version of dusdi"
            )
    try:
        return kind(**data)
    except UsageError as error:
        raise CheckpointError(f"the settings of this run can't be: {error}") from error
