"""Every setting of skill learning and of task learning, documented beside its default; presets are data.

The defaults are the paper's (its tables of hyperparameters); what the paper leaves open comes from its first public release
and is marked "release". A preset changes some fields, a world may change some more (`World.presets`), and the user has the
last word.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from dusdi.errors import CheckpointError, UsageError, unknown_name


def setting(default: Any, doc: str) -> Any:
    """A config field with its explanation, which the command line shows as help."""
    return dataclasses.field(default=default, metadata={"doc": doc})


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
            value = getattr(self, name)
            if typing.get_origin(annotation) is tuple:
                object.__setattr__(self, name, tuple(value))
            if typing.get_origin(annotation) is Literal and value not in typing.get_args(annotation):
                raise unknown_name(name, str(value), typing.get_args(annotation))
        self.check()

    def check(self) -> None:
        """Raises a `UsageError` for a value that can't work, before any compute is spent."""

    def _check_signs(self, positive: str, not_negative: str) -> None:
        for name in positive.split():
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be positive, not {getattr(self, name)}")
        for name in not_negative.split():
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} must not be negative, but is {getattr(self, name)}")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]


@dataclasses.dataclass(frozen=True)
class Config(BaseConfig):
    """The settings of one run of skill discovery, or of soft actor-critic on a task's reward (method `extrinsic`)."""

    method: str = setting("dusdi", "skill-discovery objective")
    preset: str = setting("paper", "preset the fields started from")

    # --- how much, and how often ---
    steps: int = setting(4_000_000, "environment steps per seed (paper: 4 M)")
    seed: int = setting(0, "random seed; with several seeds, the first of them")
    seeds: int = setting(1, "how many seeds to train at once, by vmap")
    num_envs: int = setting(4, "copies of the world stepped together (paper: 4)")
    steps_per_update: int = setting(2, "environment steps per gradient update (paper: 2)")
    random_steps: int = setting(24_000, "environment steps of random actions before learning (release: 24,000)")
    episode_length: int = setting(0, "steps between resets while training; 0: the world's own episode length")
    log_every: int = setting(20_000, "environment steps between two log rows")
    checkpoint_every: int = setting(400_000, "environment steps between two checkpoints")

    # --- skills ---
    skill_kind: Literal["discrete", "continuous"] = setting("discrete", "kind of every skill component")
    skill_values: int = setting(5, "k, values of a discrete component (paper: 5)")
    skill_dim: int = setting(1, "m, dimensions of a continuous component")
    skill_length: int = setting(50, "L, steps a skill stays in force (paper: 50)")
    max_skills: int = setting(4096, "most skills DIAYN's single component may have (paper: 4096)")

    # --- intrinsic reward ---
    penalty_weight: float = setting(0.1, "lambda, weight of the entanglement penalty (paper: 0.1)")
    penalty: Literal["paper", "club"] = setting("paper", "estimate of I(S^-i; Z^i): paper's lower bound or CLUB's upper")
    penalty_start: int = setting(0, "environment steps before the penalty counts (release: 1,000,000)")
    mask_steps: int = setting(10, "steps after a skill switch without discriminator loss and reward (release: 10)")
    discriminator_hidden: tuple[int, ...] = setting((1024, 1024), "hidden layers of each q_phi (paper)")
    discriminator_bumps: int = setting(0, "Gaussian bumps through which each q_phi sees an entry; 0: the plain entry")
    bumps_on: Literal["all", "codes"] = setting("all", "entries seen through bumps: all, or those that only name things")
    discriminator_lr: float = setting(1e-4, "learning rate of each q_phi (paper)")
    discriminator_decay: float = setting(0.0, "weight of q_phi's squared parameters in its loss, divided by k")
    elsewhere_weight: float = setting(0.0, "weight of q_phi's further answer, that a state is nobody's place (discrete skills)")
    elsewhere_steps: int = setting(1, "environment steps in which that weight grows, with their square")
    reward_floor: float = setting(0.0, "share of the prior mixed into q_phi for the reward, which bounds it below")
    penalty_hidden: tuple[int, ...] = setting((1024, 1024), "hidden layers of each q_psi (paper)")
    penalty_lr: float = setting(1e-4, "learning rate of each q_psi (paper)")

    # --- soft actor-critic ---
    actor_hidden: tuple[int, ...] = setting((1024, 1024), "hidden layers of the actor (paper)")
    critic_hidden: tuple[int, ...] = setting((1024, 1024), "hidden layers of each critic (paper)")
    skill_input: Literal["concat", "gate"] = setting("concat", "skill joins the state, or also scales the first layer")
    actor_parts: Literal["whole", "additive"] = setting("whole", "one actor network, or the sum of one per skill component")
    input_gain: float = setting(0.0, "start of learned gains on the inputs of actor and critics; 0: none")
    input_limit: int = setting(0, "inputs that networks of a single component keep, those with the largest gains; 0: all")
    input_limit_from: int = setting(0, "environment steps before the other inputs are dropped")
    free_std: bool = setting(False, "actor's deviations are parameters of their own instead of outputs (paper)")
    half_precision: bool = setting(False, "shared products read bfloat16 numbers, where the processor knows them")
    critic_skill: Literal["all", "own"] = setting("all", "critic of component i sees all of z, or only z^i")
    actor_lr: float = setting(1e-4, "learning rate of the actor (paper)")
    critic_lr: float = setting(1e-4, "learning rate of the critics (paper)")
    batch_size: int = setting(1024, "transitions per update (paper: 1024)")
    replay_capacity: int = setting(1_000_000, "transitions kept for replay (release)")
    discount: float = setting(0.95, "gamma (release: 0.95)")
    tau: float = setting(0.01, "step of the target critics towards the critics (paper: 0.01)")
    decompose_q: bool = setting(True, "one Q function per skill component (paper) or one for their sum (ablation)")
    twin_critics: bool = setting(True, "two critics per channel, the smaller one counts")
    entropy_backup: Literal["channel", "split", "none"] = setting(
        "channel", "future entropy: a Q channel of its own (release), spread over the channels, or left out"
    )
    alpha: float = setting(0.02, "temperature (paper: 0.02), or its start if it is learned")
    learn_alpha: bool = setting(False, "adapt the temperature to the target entropy")
    target_entropy: float = setting(-1.0, "target entropy per action dimension, if the temperature is learned")
    log_std_min: float = setting(-10.0, "lower bound of the actor's log standard deviation (paper)")
    log_std_max: float = setting(2.0, "upper bound of the actor's log standard deviation (paper)")
    normalise_observations: bool = setting(False, "networks see observations with running mean 0 and deviation 1")

    @property
    def updates_per_iteration(self) -> int:
        """Gradient updates after each step of all environments."""
        return self.num_envs // self.steps_per_update

    def check(self) -> None:
        self._check_signs(
            "steps seeds num_envs steps_per_update log_every checkpoint_every skill_values skill_dim skill_length "
            "max_skills elsewhere_steps batch_size replay_capacity discriminator_lr penalty_lr actor_lr critic_lr alpha",
            "random_steps episode_length penalty_weight penalty_start mask_steps discriminator_bumps discriminator_decay "
            "elsewhere_weight input_limit input_limit_from",
        )
        _check_seed(self.seed, self.seeds)
        _check_share("discount", self.discount)
        _check_share("reward_floor", self.reward_floor)
        if self.learn_alpha and self.target_entropy >= math.log(2):
            raise UsageError(f"target_entropy must be below log 2 = 0.693 per action entry, not {self.target_entropy}")
        if self.discriminator_bumps and not self.normalise_observations:
            raise UsageError("discriminator_bumps need normalise_observations: the bumps lie where normalised entries do")
        for name in ("discriminator_hidden", "penalty_hidden"):
            if min(getattr(self, name), default=1) < 1:
                raise UsageError(f"{name} needs layers of at least one unit, not {getattr(self, name)}")
        for name in ("actor_hidden", "critic_hidden"):
            _check_layers(name, getattr(self, name))
        if self.input_limit and not self.input_gain:
            raise UsageError("input_limit needs input_gain: inputs are kept by the size of their gains")
        if self.discriminator_bumps == 1:
            raise UsageError("discriminator_bumps must be 0 (plain entries) or at least 2")
        if self.num_envs % self.steps_per_update:
            raise UsageError(f"num_envs ({self.num_envs}) must be a multiple of steps_per_update ({self.steps_per_update})")
        if self.replay_capacity % self.num_envs:
            raise UsageError(f"replay_capacity ({self.replay_capacity}) must be a multiple of num_envs ({self.num_envs})")
        if self.skill_kind == "discrete" and self.skill_values < 2:
            raise UsageError("skill_values must be at least 2: a component with one value can't express anything")
        if self.mask_steps >= self.skill_length:
            raise UsageError(
                f"mask_steps ({self.mask_steps}) must be smaller than skill_length ({self.skill_length}), "
                "or no step is left to learn from"
            )
        if not 0 < self.tau <= 1:
            raise UsageError(f"tau must be in (0, 1], not {self.tau}")


@dataclasses.dataclass(frozen=True)
class PPOConfig(BaseConfig):
    """The settings of one downstream run: PPO over skills, plain or with the causal policy gradient."""

    agent: Literal["ppo", "cpg"] = setting("ppo", "PPO, or PPO with the causal policy gradient")
    preset: str = setting("paper", "preset the fields started from")

    # --- how much, and how often ---
    steps: int = setting(4_000_000, "environment (low-level) steps per seed")
    seed: int = setting(0, "random seed; with several seeds, the first of them")
    seeds: int = setting(1, "how many seeds to train at once, by vmap")
    num_envs: int = setting(4, "copies of the task stepped together (paper: 4)")
    rollout_length: int = setting(20, "high-level steps of each copy between two updates (paper: 20)")
    log_every: int = setting(20_000, "environment steps between two log rows")
    checkpoint_every: int = setting(400_000, "environment steps between two checkpoints")

    # --- proximal policy optimisation; what the paper does not say is as in Stable-Baselines3 ---
    hidden: tuple[int, ...] = setting((128, 128), "hidden layers of policy and value network, with tanh (paper)")
    learning_rate: float = setting(1e-4, "learning rate (paper)")
    batch_size: int = setting(32, "high-level steps per gradient step (paper)")
    epochs: int = setting(10, "how often each high-level step is learned from")
    clip: float = setting(0.1, "how far a probability ratio counts (paper)")
    discount: float = setting(0.99, "gamma, per high-level step")
    gae_lambda: float = setting(0.98, "lambda of generalised advantage estimation (paper)")
    value_weight: float = setting(0.5, "weight of the value loss")
    entropy_weight: float = setting(0.0, "weight of the policy's entropy")
    max_gradient: float = setting(0.5, "largest norm of a gradient")
    target_kl: float = setting(0.0, "stop an update once the policy has moved so far, summed over components; 0: never")
    normalise_observations: bool = setting(False, "networks see observations with running mean 0 and deviation 1")
    normalise_returns: bool = setting(False, "the value network predicts returns with running mean 0 and deviation 1")

    def check(self) -> None:
        self._check_signs(
            "steps seeds num_envs rollout_length log_every checkpoint_every learning_rate batch_size epochs clip max_gradient",
            "value_weight entropy_weight target_kl",
        )
        _check_seed(self.seed, self.seeds)
        _check_layers("hidden", self.hidden)
        _check_share("discount", self.discount)
        if not 0 <= self.gae_lambda <= 1:
            raise UsageError(f"gae_lambda must be in [0, 1], not {self.gae_lambda}")
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


def _check_share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise UsageError(f"{name} must be in [0, 1), not {value}")


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
    steps=32_000, num_envs=4, rollout_length=20, log_every=4_000, checkpoint_every=8_000, batch_size=16, hidden=(16,), epochs=2
)
PPOConfig.presets = PPO_PRESETS

AnyConfig = Config | PPOConfig
AGENTS = ("ppo", "cpg", "sac")  # that learn tasks: two with `PPOConfig`, the last with `Config`


def configure(
    preset: str, world_presets: Mapping[str, Mapping[str, Any]], overrides: Mapping[str, Any], kind: type[BaseConfig] = Config
) -> Any:
    """The config of a run: the preset, then the world's wishes for it, then the user's."""
    if preset not in kind.presets:
        raise unknown_name("preset", preset, kind.presets)
    for name in overrides:
        if name not in kind.fields():
            raise unknown_name("config field", name, kind.fields())
    return kind(**{**kind.presets[preset], **world_presets.get(preset, {}), **overrides, "preset": preset})


def from_json(data: Mapping[str, Any], kind: type[BaseConfig] = Config) -> Any:
    """The config that `to_json` wrote."""
    for name in data:
        if name not in kind.fields():
            raise CheckpointError(f"this run has a config field {name!r} that this version of dusdi does not know")
    return kind(**data)
