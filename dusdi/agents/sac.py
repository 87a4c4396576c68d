"""Soft actor-critic with one Q function per reward channel (Haarnoja et al. 2018; Section 3.2).

Rewards come as [B, K]. Each channel has its own (twin) critic, trained only on its own reward; the
actor maximises their sum. With a single channel this is ordinary SAC.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi.nets import Actor, EnsembleMLP, squashed_gaussian
from dusdi.settings import NetworkSettings, SACSettings
from dusdi.skill_space import SkillSpace
from dusdi.types import Array, Batch, Metrics


class SACState(struct.PyTreeNode):
    """Parameters and optimisers; `log_alpha` is a scalar, fixed unless it is learned."""

    actor: Any
    critic: Any
    target_critic: Any
    log_alpha: jax.Array
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    alpha_optimiser: optax.OptState


@dataclasses.dataclass(frozen=True)
class SAC:
    """The learner for one world and skill space.

    Attributes:
      channels: K, how many reward channels there are.
    """

    observation_size: int
    action_size: int
    skill_space: SkillSpace
    channels: int
    networks: NetworkSettings
    settings: SACSettings

    # --- networks ---

    @functools.cached_property
    def _actor(self) -> Actor:
        networks = self.networks
        return Actor(
            members=1 if self.actor_skill_mask is None else len(self.actor_skill_mask),
            hidden=networks.actor_hidden,
            actions=self.action_size,
            film=networks.skill_input == "film",
            input_gain=networks.input_gain,
            state_independent_std=networks.state_independent_std,
        )

    @functools.cached_property
    def _critic(self) -> EnsembleMLP:
        networks = self.networks
        return EnsembleMLP(
            members=self._twins * self._q_functions,
            hidden=networks.critic_hidden,
            outputs=1,
            film=networks.skill_input == "film",
            input_gain=networks.input_gain,
        )

    @property
    def _twins(self) -> int:
        return 2 if self.settings.twin_critics else 1

    @property
    def _entropy_channel(self) -> bool:
        return self.settings.decompose_q and self.settings.entropy_backup == "channel"

    @property
    def _q_functions(self) -> int:
        """How many Q functions there are; the last may be about entropy."""
        return (self.channels if self.settings.decompose_q else 1) + self._entropy_channel

    @functools.cached_property
    def actor_skill_mask(self) -> np.ndarray | None:
        """The entries of the encoded skill that each part of the actor sees, bool [E, Z].

        None for a single network that sees all of them.
        """
        components = len(self.skill_space)
        if not self.networks.additive_actor or components < 2:
            return None
        return self.skill_space.owner == np.arange(components)[:, None]

    def distribution(
        self, actor: Any, observation: Array, skill: Array
    ) -> tuple[jax.Array, jax.Array]:
        """Mean and log standard deviation before squashing, each [B, A]."""
        z = self.skill_space.network_input(skill)
        out: Any = self._actor.apply(actor, observation, skill=z, skill_mask=self.actor_skill_mask)
        mean, log_std = out
        low = self.networks.log_std_min
        high = self.networks.log_std_max
        return mean, low + 0.5 * (high - low) * (jnp.tanh(log_std) + 1)

    def q_values(self, critic: Any, observation: Array, action: Array, skill: Array) -> jax.Array:
        """The smaller twin of each Q function, [channels, B]."""
        return self._all_q(critic, observation, action, skill).min(0)

    def _all_q(self, critic: Any, observation: Array, action: Array, skill: Array) -> jax.Array:
        """Q functions [twins, channels, B]."""
        z = self.skill_space.network_input(skill)
        q: Any = self._critic.apply(critic, observation, action, skill=z)
        return q[..., 0].reshape(self._twins, self._q_functions, -1)

    # --- acting ---

    def sample_action(
        self, actor: Any, key: jax.Array, observation: Array, skill: Array
    ) -> jax.Array:
        """An action of the stochastic policy, [B, A]."""
        return squashed_gaussian(key, *self.distribution(actor, observation, skill))[0]

    def mean_action(self, actor: Any, observation: Array, skill: Array) -> jax.Array:
        """The policy's deterministic action, [B, A]."""
        return jnp.tanh(self.distribution(actor, observation, skill)[0])

    # --- learning ---

    def init(self, key: jax.Array) -> SACState:
        actor_key, critic_key = jax.random.split(key)
        skill = jnp.zeros((1, self.skill_space.size))
        observation = jnp.zeros((1, self.observation_size))
        action = jnp.zeros((1, self.action_size))
        actor = self._actor.init(
            actor_key, observation, skill=skill, skill_mask=self.actor_skill_mask
        )
        critic = self._critic.init(critic_key, observation, action, skill=skill)
        log_alpha = jnp.log(jnp.float32(self.settings.alpha))
        return SACState(
            actor=actor,
            critic=critic,
            target_critic=jax.tree.map(jnp.copy, critic),
            log_alpha=log_alpha,
            actor_optimiser=optax.adam(self.settings.actor_lr).init(actor),
            critic_optimiser=optax.adam(self.settings.critic_lr).init(critic),
            alpha_optimiser=optax.adam(self.settings.actor_lr).init(log_alpha),
        )

    def update(
        self, state: SACState, key: jax.Array, batch: Batch, reward: jax.Array, step: Array
    ) -> tuple[SACState, Metrics]:
        """One step of critics, actor and (if learned) temperature, for rewards [B, K].

        `step` counts environment steps; the actor waits for `actor_start` of them.
        """
        target_key, actor_key = jax.random.split(key)
        targets = self._targets(state, target_key, batch, reward)
        state, critic_metrics = self._update_critic(state, batch, targets)
        learned, actor_metrics = self._update_actor(state, actor_key, batch)
        if self.settings.actor_start:
            begun = step >= self.settings.actor_start
            learned = jax.tree.map(lambda new, old: jnp.where(begun, new, old), learned, state)
        return learned, critic_metrics | actor_metrics

    def _targets(
        self, state: SACState, key: jax.Array, batch: Batch, reward: jax.Array
    ) -> jax.Array:
        """y = r + gamma (min Q'(s', a') + entropy bonus), for each channel, [channels, B]."""
        settings = self.settings
        policy = self.distribution(state.actor, batch.next_observation, batch.skill)
        action, log_prob = squashed_gaussian(key, *policy)
        q = self.q_values(state.target_critic, batch.next_observation, action, batch.skill)
        bonus = -jnp.exp(state.log_alpha) * log_prob
        rewards = reward.T if settings.decompose_q else reward.sum(-1)[None]
        if self._entropy_channel:
            rewards = jnp.concatenate([rewards, jnp.zeros_like(rewards[:1])])
            q = q.at[-1].add(bonus)
        elif settings.entropy_backup != "none":
            q += bonus / len(q)
        return jax.lax.stop_gradient(rewards + settings.discount * (1 - batch.terminated) * q)

    def _update_critic(
        self, state: SACState, batch: Batch, targets: jax.Array
    ) -> tuple[SACState, Metrics]:
        def loss_fn(critic):
            q = self._all_q(critic, batch.observation, batch.action, batch.skill)
            # Summed over critics, so that each learns as if it were alone.
            return jnp.mean((q - targets) ** 2, axis=-1).sum(), q

        (loss, q), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.critic)
        adam = optax.adam(self.settings.critic_lr)
        updates, optimiser = adam.update(grads, state.critic_optimiser)
        critic = optax.apply_updates(state.critic, updates)
        target = optax.incremental_update(critic, state.target_critic, self.settings.tau)
        metrics = {"loss/critic": loss / q.shape[0] / q.shape[1], "q": q.mean()}
        state = state.replace(critic=critic, target_critic=target, critic_optimiser=optimiser)
        return state, metrics

    def _update_actor(
        self, state: SACState, key: jax.Array, batch: Batch
    ) -> tuple[SACState, Metrics]:
        alpha = jnp.exp(state.log_alpha)

        def loss_fn(actor):
            policy = self.distribution(actor, batch.observation, batch.skill)
            action, log_prob = squashed_gaussian(key, *policy)
            # Q = sum_i Q^i (Eq. 5)
            q = self.q_values(state.critic, batch.observation, action, batch.skill).sum(0)
            return jnp.mean(alpha * log_prob - q), -log_prob.mean()

        (loss, entropy), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.actor)
        adam = optax.adam(self.settings.actor_lr)
        updates, optimiser = adam.update(grads, state.actor_optimiser)
        actor = optax.apply_updates(state.actor, updates)
        state = state.replace(actor=actor, actor_optimiser=optimiser)
        if self.settings.learn_alpha:
            state = self._update_alpha(state, entropy)
        return state, {"loss/actor": loss, "entropy": entropy, "alpha": alpha}

    def _update_alpha(self, state: SACState, entropy: jax.Array) -> SACState:
        """Raises the temperature while the policy's entropy is below its target."""
        grad = entropy - self.settings.target_entropy * self.action_size
        adam = optax.adam(self.settings.actor_lr)
        update, optimiser = adam.update(grad, state.alpha_optimiser)
        return state.replace(log_alpha=state.log_alpha + update, alpha_optimiser=optimiser)
