"""Presets: fields in which a run differs from the defaults, the same for all methods.

`paper` is the paper's setting. `fast` takes minutes on two cores; docs/ablation.md shows what each
of its decisions is worth. `debug` is `fast` made tiny. A method, a world or a task may change some
fields more (`Method.presets`, `World.presets`, `World.task_presets`).
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "fast": dict(
        # Many environments, and one update for each of their steps: compiled loops like big steps.
        steps=1_024_000,
        num_envs=256,
        steps_per_update=256,
        batch_size=256,
        replay_capacity=204_800,
        random_steps=10_240,
        episode_length=200,  # more starts than with the worlds' 1,000
        log_every=25_600,
        checkpoint_every=512_000,
        # Small networks: FiLM lets the skill choose, the additive actor keeps components apart.
        actor_hidden=(64, 64),
        critic_hidden=(64, 64),
        skill_input="film",
        additive_actor=True,
        input_gain=0.1,
        state_independent_std=True,
        normalise_observations=True,  # for radial basis functions and gains
        # Big steps of soft actor-critic; only the next ten or so steps of a skill count.
        actor_lr=3e-3,
        critic_lr=3e-3,
        discount=0.9,
        tau=0.05,
        alpha=0.1,
        twin_critics=False,
        entropy_backup="none",
    ),
    "debug": dict(
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
    ),
}

#: Soft actor-critic as its authors have it, for as few updates as in `fast`: twin critics, entropy
#: in the targets, deviations that depend on the state, a learned temperature. Methods whose reward
#: is not made for the short horizon of `fast` start from it.
PLAIN_SAC: dict[str, Any] = dict(
    additive_actor=False,
    input_gain=0.0,
    actor_hidden=(128, 128),
    critic_hidden=(128, 128),
    state_independent_std=False,
    log_std_min=-5.0,  # with -10 to 2, deviations would start at exp(-4)
    actor_lr=1e-3,
    critic_lr=1e-3,
    discount=0.99,
    tau=0.01,
    decompose_q=False,
    twin_critics=True,
    entropy_backup="split",
    alpha=0.1,
    learn_alpha=True,
    target_entropy=-0.5,
)

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
    "debug": dict(
        steps=32_000,
        num_envs=4,
        rollout_length=20,
        log_every=4_000,
        checkpoint_every=8_000,
        batch_size=16,
        hidden=(16,),
        epochs=2,
    ),
}


def inherited(preset: str) -> tuple[str, ...]:
    """The presets that one is made of, those that count more last."""
    return ("fast", "debug") if preset == "debug" else (preset,)
