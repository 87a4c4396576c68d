"""Discriminators q(z^i | part of the state): what all mutual-information objectives share.

M networks look at the next state through masks of their own; each predicts one or more skill components. Their log
density relative to the prior, `log q(z^i|s) - log p(z^i)`, is zero for a discrete head that knows nothing.

Mutual information is as high when a skill goes to either of two places as when it goes to one. With `elsewhere`, a discrete
head has one more answer, "nobody's place", learned from states drawn evenly from the box that a batch spans: a place is then
worth the more to a skill, the more of its time it spends there. What is left for the values sums to less than one, so the
reward is still a lower bound of the information.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi.config import Config
from dusdi.nets import LOG_2PI, EnsembleMLP, bumps
from dusdi.skills import Discrete, SkillSpace
from dusdi.types import Metrics, Transition, WorldSpec


def bumpy_entries(spec: WorldSpec, config: Config) -> np.ndarray:
    """Which observation entries q_phi sees through bumps, bool [D]."""
    wanted = np.isin(np.arange(spec.observation_size), spec.codes) | (config.bumps_on == "all")
    return wanted & (config.discriminator_bumps > 0)


def own_discriminators(
    spec: WorldSpec,
    config: Config,
    skill_space: SkillSpace,
    masks: np.ndarray,
    names: tuple[str, ...],
) -> Discriminators:
    """The q_phi of a method, one head for each skill component, as the config wants them."""
    return Discriminators(
        name="discriminator",
        skill_space=skill_space,
        masks=masks,
        targets=tuple(range(skill_space.components)),
        names=names,
        hidden=config.discriminator_hidden,
        bumps=config.discriminator_bumps,
        bumpy=bumpy_entries(spec, config),
        learning_rate=config.discriminator_lr,
        mask_steps=config.mask_steps,
        decay=config.discriminator_decay,
        elsewhere=config.elsewhere_weight if isinstance(skill_space, Discrete) else 0.0,
        elsewhere_steps=config.elsewhere_steps,
        floor=config.reward_floor,
    )


class DiscriminatorState(struct.PyTreeNode):
    params: Any
    optimiser: optax.OptState


@dataclasses.dataclass(frozen=True, eq=False)
class Discriminators:
    """M networks with heads on skill components.

    Attributes:
      name: what their loss is called in the metrics.
      skill_space: the skills to predict.
      masks: bool [M, D], the observation entries each network sees.
      targets: the component of each of the M * H heads, network by network.
      names: what each head is called in the metrics.
      prefix: what comes before the metrics' names.
      hidden: layers of each network.
      bumps: Gaussian bumps through which networks see some entries.
      bumpy: bool [D], which entries those are.
      learning_rate: of Adam.
      mask_steps: steps after a skill switch that do not count.
      decay: weight of the squared parameters in the loss, divided by the values of a component: each has its own.
      elsewhere: weight of states that are nobody's place; it grows to this with the square of the steps, since a place that
        nobody has found yet must not be nobody's.
      elsewhere_steps: environment steps in which it grows.
      floor: share of the prior that is mixed into q for the reward.
    """

    name: str
    skill_space: SkillSpace
    masks: np.ndarray
    targets: tuple[int, ...]
    names: tuple[str, ...]
    hidden: tuple[int, ...]
    bumps: int
    bumpy: np.ndarray
    learning_rate: float
    mask_steps: int
    prefix: str = ""
    decay: float = 0.0
    elsewhere: float = 0.0
    elsewhere_steps: int = 1
    floor: float = 0.0

    @property
    def _net(self) -> EnsembleMLP:
        discrete = isinstance(self.skill_space, Discrete)
        head = self.skill_space.component_size * (1 if discrete else 2)
        heads = len(self.targets) // len(self.masks)
        return EnsembleMLP(len(self.masks), self.hidden, heads * head)

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    def init(self, key: jax.Array) -> DiscriminatorState:
        x, mask = self._input(jnp.zeros((1, self.masks.shape[1])))
        params = self._net.init(key, x, x_mask=mask)
        return DiscriminatorState(params, self._optimiser.init(params))

    def counts(self, batch: Transition) -> jax.Array:
        """Which transitions are about their skill and not the one before it, float32 [B]."""
        return (batch.skill_age > self.mask_steps).astype(jnp.float32)

    def _input(self, observation: jax.Array) -> tuple[jax.Array, np.ndarray]:
        """What the networks see of observations [B, D], and which of it each: features [B, F] and a mask [M, F]."""
        seen = self.masks.any(0)
        plain, spread = np.flatnonzero(seen & ~self.bumpy), np.flatnonzero(seen & self.bumpy)
        features = [
            observation[:, plain],
            *([bumps(observation[:, spread], self.bumps)] if len(spread) else []),
        ]
        masks = [self.masks[:, plain], np.repeat(self.masks[:, spread], self.bumps, axis=1)]
        return jnp.concatenate(features, axis=1), np.concatenate(masks, axis=1)

    def _heads(self, params: Any, observation: jax.Array) -> jax.Array:
        """The raw outputs, [B, heads, head]."""
        x, mask = self._input(observation)
        out: Any = self._net.apply(params, x, x_mask=mask)  # [M, B, H * head]
        networks, batch, width = out.shape
        heads = len(self.targets) // networks
        return (
            out.reshape(networks, batch, heads, width // heads)
            .swapaxes(0, 1)
            .reshape(batch, len(self.targets), -1)
        )

    def log_ratio(self, params: Any, batch: Transition) -> tuple[jax.Array, jax.Array, jax.Array]:
        """`log q(z^i|s') - log p(z^i)` for each head, its mean over z^i drawn from the prior, and whether the head
        is right (discrete) or its squared error (continuous); all [B, heads]."""
        out = self._heads(params, batch.next_observation)
        skill = batch.skill[:, np.array(self.targets)]
        if isinstance(self.skill_space, Discrete):
            log_q = jax.nn.log_softmax(self._answers(out))[..., : out.shape[-1]]
            at_skill = jnp.take_along_axis(log_q, skill[..., None], axis=-1)[..., 0]
            over_prior = log_q.mean(-1)
            score = (out.argmax(-1) == skill).astype(jnp.float32)
        else:
            mean, log_std = jnp.split(out, 2, axis=-1)
            mean, log_std = jnp.tanh(mean), jnp.clip(log_std, -4.0, 1.0)
            precision = jnp.exp(-2 * log_std)
            normaliser = log_std + 0.5 * LOG_2PI
            at_skill = jnp.sum(-0.5 * (skill - mean) ** 2 * precision - normaliser, axis=-1)
            # E (z - mean)^2 = 1/3 + mean^2 for z uniform in [-1, 1]
            over_prior = jnp.sum(-0.5 * (1 / 3 + mean**2) * precision - normaliser, axis=-1)
            score = jnp.mean((skill - mean) ** 2, axis=-1)
        log_prior = self.skill_space.log_prior
        return at_skill - log_prior, over_prior - log_prior, score

    def _answers(self, out: jax.Array) -> jax.Array:
        """The outputs [..., k] and, with `elsewhere`, a 0 for nobody's place, which the others are relative to."""
        return jnp.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, 1)]) if self.elsewhere else out

    def reward(self, params: Any, batch: Transition) -> jax.Array:
        """What the heads know about the skill, bounded below by the floor, and 0 for what does not count, [B, heads]."""
        log_ratio, _, _ = self.log_ratio(params, batch)
        if self.floor:
            log_ratio = jnp.logaddexp(math.log1p(-self.floor) + log_ratio, math.log(self.floor))
        return log_ratio * self.counts(batch)[:, None]

    def update(
        self, state: DiscriminatorState, key: jax.Array, batch: Transition, step: jax.Array
    ) -> tuple[DiscriminatorState, Metrics]:
        """One Adam step on the mean negative log likelihood of the transitions that count, with decay and nobody's place."""
        counts = self.counts(batch)
        weights = counts / jnp.maximum(counts.sum(), 1)

        def loss_fn(params):
            log_ratio, _, score = self.log_ratio(params, batch)
            surprise = loss = -jnp.sum(weights @ log_ratio)
            if self.decay:
                squares = sum(jnp.sum(x**2) for x in jax.tree.leaves(params))
                loss += self.decay / self.skill_space.component_size * squares
            if self.elsewhere:
                states = batch.next_observation
                anywhere = jax.random.uniform(
                    key, states.shape, minval=states.min(0), maxval=states.max(0)
                )
                log_nobody = -jax.nn.logsumexp(
                    self._answers(self._heads(params, anywhere)), axis=-1
                )
                loss -= (
                    self.elsewhere
                    * jnp.minimum(step / self.elsewhere_steps, 1.0) ** 2
                    * jnp.sum(log_nobody.mean(0))
                )
            return loss, (surprise, weights @ score)

        (_, (surprise, score)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        kind = self.prefix + (
            "accuracy" if isinstance(self.skill_space, Discrete) else "squared_error"
        )
        metrics = {f"{kind}/{name}": value for name, value in zip(self.names, score, strict=True)}
        metrics[f"loss/{self.name}"] = surprise / len(self.targets)
        return DiscriminatorState(optax.apply_updates(state.params, updates), optimiser), metrics
