"""Proximal policy optimisation over skills, plain or with the causal policy gradient.

The policy chooses all components of a skill at once, independently given the observation. Plain PPO
(Schulman et al. 2017) adds up all rewards and credits all components through one probability ratio.
The causal policy gradient (Hu et al. 2023) keeps K reward channels, each with a value of its own,
and credits each component, through its own ratio, with the channels that can depend on it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi import normalise
from dusdi.normalise import Normaliser
from dusdi.settings import PPOSettings
from dusdi.skill_space import ComponentGroup, SkillSpace
from dusdi.types import Array, Metrics


class PPOState(struct.PyTreeNode):
    """Parameters of policy and values, the optimiser, and the moments of each channel's returns."""

    params: Any
    optimiser: optax.OptState
    returns: Normaliser


class HighLevelSteps(NamedTuple):
    """High-level steps, with leading dimensions [T, n] or [B].

    Attributes:
      observation: [..., D].
      skill: what was chosen, [..., W].
      log_prob: of each component when it was chosen, [..., C].
      value: of the observation, [..., K].
      next_value: of the true next observation, [..., K].
      reward: [..., K].
      terminated, done: [...]; nothing follows, or the episode ended for whatever reason.
    """

    observation: Array
    skill: Array
    log_prob: Array
    value: Array
    next_value: Array
    reward: Array
    terminated: Array
    done: Array


class _Network(nn.Module):
    """An MLP with tanh; its outputs start near zero if `small`."""

    hidden: tuple[int, ...]
    outputs: int
    small: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.hidden:
            x = nn.tanh(nn.Dense(width, kernel_init=nn.initializers.orthogonal(math.sqrt(2)))(x))
        return nn.Dense(
            self.outputs, kernel_init=nn.initializers.orthogonal(0.01 if self.small else 1.0)
        )(x)


@dataclasses.dataclass(frozen=True, eq=False)
class PPO:
    """The learner for one task and skill space.

    Attributes:
      causal: bool [K, C], whether a channel can depend on a component; counts only for "cpg".
      agent: "ppo", or "cpg" for the causal policy gradient.
    """

    observation_size: int
    skill_space: SkillSpace
    causal: np.ndarray
    agent: str
    settings: PPOSettings

    # --- the policy ---

    @property
    def _channels(self) -> int:
        return len(self.causal)

    @property
    def _is_causal(self) -> bool:
        return self.agent == "cpg"

    @property
    def _policy(self) -> _Network:
        return _Network(self.settings.hidden, self.skill_space.size, True)

    @property
    def _critic(self) -> _Network:
        return _Network(self.settings.hidden, self._channels, False)

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        clip = optax.clip_by_global_norm(self.settings.max_gradient)
        return optax.chain(clip, optax.adam(self.settings.learning_rate, eps=1e-5))

    def init(self, key: jax.Array) -> PPOState:
        policy_key, critic_key = jax.random.split(key)
        x = jnp.zeros((1, self.observation_size))
        params: dict[str, Any] = {
            "policy": self._policy.init(policy_key, x),
            "critic": self._critic.init(critic_key, x),
            "free": [self._first_free(group) for group in self.skill_space.groups],
        }
        # Values are next to nothing until the first returns were seen: noise of the size 1 would
        # be learned from, and drown small rewards for as long as it counts in the moments.
        returns = normalise.init(self._channels).replace(variance=jnp.zeros(self._channels))
        return PPOState(params, self._optimiser.init(params), returns)

    def _first_free(self, group: ComponentGroup) -> jax.Array:
        """Parameters of the policy that depend on no observation, [members, p]."""
        return jnp.tile(group.space.policy_parameters, (len(group.members), 1))

    def _outputs(self, params: Any, observation: Array) -> list[jax.Array]:
        """What the policy says of each group of components, [B, members, size]."""
        out: Any = self._policy.apply(params["policy"], observation)
        return self.skill_space.split(out)

    def log_prob(
        self, params: Any, observation: Array, choice: Array
    ) -> tuple[jax.Array, jax.Array]:
        """Log probability (density) of each chosen component, and its entropy, each [B, C]."""
        space = self.skill_space
        log_probs = []
        entropies = []
        outputs = self._outputs(params, observation)
        for group, out, free in zip(space.groups, outputs, params["free"], strict=True):
            chosen = space.gather(choice, group)
            log_probs.append(group.space.log_prob(out, free, chosen))
            entropies.append(group.space.entropy(out, free))
        return space.arrange(log_probs), space.arrange(entropies)

    def sample(self, params: Any, key: jax.Array, observation: Array) -> jax.Array:
        """Choices [B, W] drawn from the policy; `bounded` makes skills of them."""
        space = self.skill_space
        keys = jax.random.split(key, len(space.groups))
        outputs = self._outputs(params, observation)
        parts = [
            group.space.draw(key, out, free)
            for group, key, out, free in zip(
                space.groups, keys, outputs, params["free"], strict=True
            )
        ]
        return space.join(parts)

    def bounded(self, choice: jax.Array) -> jax.Array:
        """The skills that choices stand for: continuous ones may lie outside of their space."""
        space = self.skill_space
        parts = [group.space.bounded(space.gather(choice, group)) for group in space.groups]
        return space.join(parts)

    def mode(self, params: Any, observation: Array) -> jax.Array:
        """The most probable skills, [B, W]."""
        space = self.skill_space
        outputs = self._outputs(params, observation)
        pairs = zip(space.groups, outputs, strict=True)
        return space.join([group.space.mode(out) for group, out in pairs])

    def value(self, state: PPOState, observation: Array) -> jax.Array:
        """The value of each channel, [B, K]."""
        return self._unscaled(
            state.returns, self._critic.apply(state.params["critic"], observation)
        )

    def _unscaled(self, returns: Normaliser, value: Any) -> jax.Array:
        if not self.settings.normalise_returns:
            return value
        return value * jnp.sqrt(returns.variance + 1e-6) + returns.mean

    def _scaled(self, returns: Normaliser, value: jax.Array) -> jax.Array:
        if not self.settings.normalise_returns:
            return value
        return (value - returns.mean) / jnp.sqrt(returns.variance + 1e-6)

    # --- learning ---

    def advantages(self, rollout: HighLevelSteps) -> jax.Array:
        """Generalised advantage estimates of each channel, [T, n, K] (Schulman et al. 2016)."""
        settings = self.settings
        follows, goes_on = (
            1.0 - jnp.asarray(x, jnp.float32)[..., None] for x in (rollout.terminated, rollout.done)
        )
        error = rollout.reward + settings.discount * follows * rollout.next_value - rollout.value

        def backwards(later, now):
            error, goes_on = now
            advantage = error + settings.discount * settings.gae_lambda * goes_on * later
            return advantage, advantage

        return jax.lax.scan(backwards, jnp.zeros_like(error[0]), (error, goes_on), reverse=True)[1]

    def credit(self, advantage: jax.Array) -> jax.Array:
        """Advantages [B, K] for each probability ratio: [B, 1] for a joint one, or [B, C]."""
        if self._is_causal:
            return advantage @ jnp.asarray(self.causal, jnp.float32)
        return advantage.sum(-1, keepdims=True)

    def _grouped(self, log_prob: jax.Array) -> jax.Array:
        """Log probabilities [B, C] of what has a ratio of its own."""
        return log_prob if self._is_causal else log_prob.sum(-1, keepdims=True)

    def policy_loss(
        self, params: Any, batch: HighLevelSteps, credit: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """The clipped surrogate, summed over ratios and averaged over the batch."""
        log_prob, entropy = self.log_prob(params, batch.observation, batch.skill)
        change = self._grouped(log_prob - batch.log_prob)
        ratio = jnp.exp(change)
        mean = credit.mean(0)
        deviation = credit.std(0)
        # A component that no reward depends on has no credit; rounding errors divided by their
        # deviation must not make any.
        scaled = jnp.where(
            deviation > 1e-6 * jnp.abs(mean), (credit - mean) / (deviation + 1e-8), 0.0
        )
        clipped = jnp.clip(ratio, 1 - self.settings.clip, 1 + self.settings.clip)
        gain = jnp.minimum(ratio * scaled, clipped * scaled).sum(-1).mean()
        # The non-negative estimate of KL(old, new) by (r - 1) - log r
        kl = jnp.sum(ratio - 1 - change, axis=-1).mean()
        counted = self.causal.any(0) if self._is_causal else np.ones(len(self.skill_space))
        spread = (entropy @ jnp.asarray(counted, jnp.float32)).mean()
        loss = -gain - self.settings.entropy_weight * spread
        return loss, {
            "loss/policy": -gain,
            "entropy": spread,
            "kl": kl,
            "clipped": jnp.mean(ratio != clipped),
        }

    def update(
        self, state: PPOState, key: jax.Array, rollout: HighLevelSteps
    ) -> tuple[PPOState, Metrics]:
        """Several epochs of gradient steps on minibatches of a rollout [T, n]."""
        settings = self.settings
        advantage = self.advantages(rollout)
        targets = (advantage + rollout.value).reshape(-1, self._channels)
        returns = (
            normalise.update(state.returns, targets)
            if settings.normalise_returns
            else state.returns
        )
        flat = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (rollout, self.credit(advantage))
        )
        rows = len(targets)

        def loss_fn(params, batch, credit, target):
            policy_loss, metrics = self.policy_loss(params, batch, credit)
            value: Any = self._critic.apply(params["critic"], batch.observation)
            value_loss = jnp.mean(jnp.sum((value - target) ** 2, axis=-1))
            return policy_loss + settings.value_weight * value_loss, metrics | {
                "loss/value": value_loss / self._channels
            }

        def step(carry, chosen):
            params, optimiser, going = carry
            batch, credit, target = jax.tree.map(
                lambda x: x[chosen], (*flat, self._scaled(returns, targets))
            )
            (_, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(
                params, batch, credit, target
            )
            updates, moved = self._optimiser.update(grads, optimiser, params)
            if settings.target_kl:
                going &= metrics["kl"] <= settings.target_kl
            new = (optax.apply_updates(params, updates), moved)
            params, optimiser = jax.tree.map(
                lambda a, b: jnp.where(going, a, b), new, (params, optimiser)
            )
            return (params, optimiser, going), metrics

        # Each epoch takes the rows in another order; those that fill no minibatch are left out.
        used = rows // settings.batch_size * settings.batch_size
        keys = jax.random.split(key, settings.epochs)
        order = jax.vmap(lambda key: jax.random.permutation(key, rows)[:used])(keys)
        order = order.reshape(-1, settings.batch_size)
        (params, optimiser, _), metrics = jax.lax.scan(
            step, (state.params, state.optimiser, jnp.bool_(True)), order
        )
        return PPOState(params, optimiser, returns), jax.tree.map(jnp.mean, metrics)
