"""Soft actor-critic with one Q function per reward channel (Haarnoja et al. 2018; the paper, Section 3.2).

Rewards come as [B, C]. Each channel has its own (twin) critic, trained only on its own reward; the actor maximises
their sum. With a single channel this is ordinary SAC.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi.config import Config
from dusdi.nets import Actor, EnsembleMLP, largest_gains, narrow, squashed_gaussian, widen
from dusdi.skills import SkillSpace
from dusdi.types import Array, Metrics, Transition


class Seen(NamedTuple):
    """The inputs that each network of actor and critics still sees, [E, n] each; None: all of them."""

    actor: jax.Array | None = None
    critic: jax.Array | None = None


class SACState(struct.PyTreeNode):
    """Parameters and optimisers. `log_alpha` is a scalar, fixed unless the temperature is learned."""

    actor: Any
    critic: Any
    target_critic: Any
    log_alpha: jax.Array
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    alpha_optimiser: optax.OptState
    seen: Seen = Seen()


@dataclasses.dataclass(frozen=True)
class SAC:
    """The learner for one world, skill space and config.

    Attributes:
      channel_components: for each reward channel, the skill component it is about (None: all of them).
    """

    observation_size: int
    action_size: int
    skill_space: SkillSpace
    channel_components: tuple[int | None, ...]
    config: Config

    # --- networks ---

    @property
    def _actor(self) -> Actor:
        config = self.config
        return Actor(
            members=len(self._actor_components),
            hidden=config.actor_hidden,
            actions=self.action_size,
            gate=config.skill_input == "gate",
            input_gain=config.input_gain,
            half=config.half_precision,
            free_std=config.free_std,
        )

    @property
    def _critic(self) -> EnsembleMLP:
        config = self.config
        return EnsembleMLP(
            members=self._twins * len(self._critic_components),
            hidden=config.critic_hidden,
            outputs=1,
            gate=config.skill_input == "gate",
            input_gain=config.input_gain,
            half=config.half_precision,
        )

    @property
    def _twins(self) -> int:
        return 2 if self.config.twin_critics else 1

    @property
    def _entropy_channel(self) -> bool:
        return self.config.decompose_q and self.config.entropy_backup == "channel"

    @property
    def _critic_components(self) -> tuple[int | None, ...]:
        """The skill component that each Q function is about; the last may be about entropy, hence all of them."""
        components = self.channel_components if self.config.decompose_q else (None,)
        return components + (None,) * self._entropy_channel

    @property
    def _critic_skill_mask(self) -> np.ndarray | None:
        """The entries of the encoded skill each critic sees, bool [members, Z]."""
        if self.config.critic_skill == "all":
            return None
        return np.tile(self._skill_mask(self._critic_components), (self._twins, 1))

    @property
    def _actor_components(self) -> tuple[int | None, ...]:
        """The skill component that each part of the actor sees."""
        if self.config.actor_parts == "whole" or not self.skill_space.components:
            return (None,)
        return tuple(range(self.skill_space.components))

    @property
    def _actor_skill_mask(self) -> np.ndarray | None:
        return (
            None if self._actor_components == (None,) else self._skill_mask(self._actor_components)
        )

    def _skill_mask(self, components: Iterable[int | None]) -> np.ndarray:
        """The entries of the encoded skill that belong to each component (None: all of them), bool [n, Z]."""
        space = self.skill_space
        owner = np.repeat(np.arange(space.components), space.component_size)
        return np.stack([owner == c if c is not None else owner >= 0 for c in components])

    def distribution(
        self, actor: Any, observation: Array, skill: Array, seen: Any = None
    ) -> tuple[jax.Array, jax.Array]:
        """Mean and log standard deviation before squashing, each [B, A]."""
        z = self.skill_space.encode(skill)
        out: Any = self._actor.apply(
            actor, observation, skill=z, skill_mask=self._actor_skill_mask, seen=seen
        )
        mean, log_std = out
        low, high = self.config.log_std_min, self.config.log_std_max
        return mean, low + 0.5 * (high - low) * (jnp.tanh(log_std) + 1)

    def q_values(
        self, critic: Any, observation: Array, action: Array, skill: Array, seen: Any = None
    ) -> jax.Array:
        """The smaller twin of each Q function, [channels, B]; see `_all_q` for both."""
        return self._all_q(critic, observation, action, skill, seen).min(0)

    def _all_q(self, critic: Any, observation, action, skill, seen) -> jax.Array:
        """Q functions [twins, channels, B]."""
        z = self.skill_space.encode(skill)
        q: Any = self._critic.apply(
            critic, observation, action, skill=z, skill_mask=self._critic_skill_mask, seen=seen
        )
        return q[..., 0].reshape(self._twins, len(self._critic_components), -1)

    # --- acting ---

    def sample_action(
        self, state: SACState, key: jax.Array, observation: Array, skill: Array
    ) -> jax.Array:
        """An action of the stochastic policy, [B, A]."""
        return squashed_gaussian(
            key, *self.distribution(state.actor, observation, skill, state.seen.actor)
        )[0]

    def mean_action(self, actor: Any, observation: Array, skill: Array) -> jax.Array:
        """The policy's deterministic action, [B, A]."""
        return jnp.tanh(self.distribution(actor, observation, skill)[0])

    # --- learning ---

    def init(self, key: jax.Array) -> SACState:
        actor_key, critic_key, skill_key = jax.random.split(key, 3)
        skill = self.skill_space.encode(self.skill_space.sample(skill_key, 1))
        observation = jnp.zeros((1, self.observation_size))
        action = jnp.zeros((1, self.action_size))
        actor = self._actor.init(
            actor_key, observation, skill=skill, skill_mask=self._actor_skill_mask
        )
        critic = self._critic.init(
            critic_key, observation, action, skill=skill, skill_mask=self._critic_skill_mask
        )
        log_alpha = jnp.log(jnp.float32(self.config.alpha))
        return SACState(
            actor=actor,
            critic=critic,
            target_critic=jax.tree.map(jnp.copy, critic),
            log_alpha=log_alpha,
            actor_optimiser=optax.adam(self.config.actor_lr).init(actor),
            critic_optimiser=optax.adam(self.config.critic_lr).init(critic),
            alpha_optimiser=optax.adam(self.config.actor_lr).init(log_alpha),
        )

    def update(
        self, state: SACState, key: jax.Array, batch: Transition, reward: jax.Array
    ) -> tuple[SACState, Metrics]:
        """One step of critics, actor and (if learned) temperature on a batch with rewards [B, C]."""
        target_key, actor_key = jax.random.split(key)
        targets = self._targets(state, target_key, batch, reward)
        state, critic_metrics = self._update_critic(state, batch, targets)
        state, actor_metrics = self._update_actor(state, actor_key, batch)
        return state, critic_metrics | actor_metrics

    def narrow(self, state: SACState) -> SACState:
        """The state with smaller networks: those about one of several components see only the inputs with the largest gains.

        The others are gone for good. Learning and acting cost less until `widen` gives the networks their shape back.
        """
        limit = self.config.input_limit
        actor = (
            largest_gains(state.actor, limit)
            if self._can_narrow(self._actor_components, self._actor_inputs)
            else None
        )
        critic = (
            largest_gains(state.critic, limit)
            if self._can_narrow(self._critic_components, self._critic_inputs)
            else None
        )
        seen = Seen(actor, critic)
        return self._reshape(state, seen, lambda tree, seen, _: narrow(tree, seen)).replace(
            seen=seen
        )

    def widen(self, state: SACState) -> SACState:
        """The state with networks that see all inputs, and compute the same."""
        return self._reshape(state, state.seen, widen).replace(seen=Seen())

    def _can_narrow(self, components: Sequence[int | None], inputs: int) -> bool:
        """Whether networks are about one of several components each, and see more inputs than they may keep."""
        return (
            len(components) > 1 and None not in components and 0 < self.config.input_limit < inputs
        )

    @property
    def _actor_inputs(self) -> int:
        return self.observation_size

    @property
    def _critic_inputs(self) -> int:
        return self.observation_size + self.action_size

    def _reshape(
        self, state: SACState, seen: Seen, function: Callable[[Any, jax.Array, int], Any]
    ) -> SACState:
        """Applies a function of a tree, what its networks see, and all they could see, to the networks that `seen` is about."""
        if seen.actor is not None:
            actor, optimiser = function(
                (state.actor, state.actor_optimiser), seen.actor, self._actor_inputs
            )
            state = state.replace(actor=actor, actor_optimiser=optimiser)
        if seen.critic is not None:
            critics = (state.critic, state.target_critic, state.critic_optimiser)
            critic, target, optimiser = function(critics, seen.critic, self._critic_inputs)
            state = state.replace(critic=critic, target_critic=target, critic_optimiser=optimiser)
        return state

    def _targets(
        self, state: SACState, key: jax.Array, batch: Transition, reward: jax.Array
    ) -> jax.Array:
        """y = r + gamma (min Q'(s', a') + entropy bonus), for each channel, [channels, B]."""
        config = self.config
        policy = self.distribution(
            state.actor, batch.next_observation, batch.skill, state.seen.actor
        )
        action, log_prob = squashed_gaussian(key, *policy)
        q = self.q_values(
            state.target_critic, batch.next_observation, action, batch.skill, state.seen.critic
        )
        bonus = -jnp.exp(state.log_alpha) * log_prob
        rewards = reward.T if config.decompose_q else reward.sum(-1)[None]
        if self._entropy_channel:
            rewards = jnp.concatenate([rewards, jnp.zeros_like(rewards[:1])])
            q = q.at[-1].add(bonus)
        elif config.entropy_backup != "none":
            q += bonus / len(q)
        return jax.lax.stop_gradient(rewards + config.discount * (1 - batch.terminated) * q)

    def _update_critic(
        self, state: SACState, batch: Transition, targets: jax.Array
    ) -> tuple[SACState, Metrics]:
        def loss_fn(critic):
            q = self._all_q(critic, batch.observation, batch.action, batch.skill, state.seen.critic)
            # summed over critics, so that each learns as if it were alone
            return jnp.mean((q - targets) ** 2, axis=-1).sum(), q

        (loss, q), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.critic)
        updates, optimiser = optax.adam(self.config.critic_lr).update(grads, state.critic_optimiser)
        critic = optax.apply_updates(state.critic, updates)
        target = optax.incremental_update(critic, state.target_critic, self.config.tau)
        metrics = {"loss/critic": loss / q.shape[0] / q.shape[1], "q": q.mean()}
        return state.replace(
            critic=critic, target_critic=target, critic_optimiser=optimiser
        ), metrics

    def _update_actor(
        self, state: SACState, key: jax.Array, batch: Transition
    ) -> tuple[SACState, Metrics]:
        alpha = jnp.exp(state.log_alpha)

        def loss_fn(actor):
            policy = self.distribution(actor, batch.observation, batch.skill, state.seen.actor)
            action, log_prob = squashed_gaussian(key, *policy)
            # Q = sum_i Q^i (Eq. 5)
            q = self.q_values(
                state.critic, batch.observation, action, batch.skill, state.seen.critic
            ).sum(0)
            return jnp.mean(alpha * log_prob - q), -log_prob.mean()

        (loss, entropy), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.actor)
        updates, optimiser = optax.adam(self.config.actor_lr).update(grads, state.actor_optimiser)
        state = state.replace(
            actor=optax.apply_updates(state.actor, updates), actor_optimiser=optimiser
        )
        if self.config.learn_alpha:
            state = self._update_alpha(state, entropy)
        return state, {"loss/actor": loss, "entropy": entropy, "alpha": alpha}

    def _update_alpha(self, state: SACState, entropy: jax.Array) -> SACState:
        """Raises the temperature while the policy's entropy is below its target."""
        grad = entropy - self.config.target_entropy * self.action_size
        update, optimiser = optax.adam(self.config.actor_lr).update(grad, state.alpha_optimiser)
        return state.replace(log_alpha=state.log_alpha + update, alpha_optimiser=optimiser)
