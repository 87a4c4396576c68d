"""Discriminators q(z^i | part of the state): a component is paid for being told apart.

M networks look at the next state through masks of their own: one for each component, or a single
one that predicts all of them. What they pay is `log q(z^i|s') - log p(z^i)`, which is zero for a
network that knows nothing.

Mutual information is as high when a skill goes to either of two places as when it goes to one.
With a background class, a categorical discriminator has one more answer, which it learns from
states drawn evenly from the box that a batch spans: a place is then worth the more to a skill, the
more of its time it spends there. The probabilities of the values then sum to less than one, so the
reward is still a lower bound of the information.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi.errors import UsageError
from dusdi.nets import EnsembleMLP, rbf_features
from dusdi.settings import BELOW_ONE, POSITIVE, WIDEST, Group, setting
from dusdi.skill_space import SkillSpace
from dusdi.spaces import LogRatio
from dusdi.types import Batch, Metrics, WorldSpec


@dataclasses.dataclass(frozen=True)
class DiscriminatorSettings(Group):
    """How a method's discriminators q_phi are built and trained, and what they pay."""

    mask_steps: int = setting(
        10, "steps after a skill switch without discriminator loss and reward (release: 10)"
    )
    discriminator_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each q_phi (paper: 1024,1024)", low=1, high=WIDEST
    )
    discriminator_lr: float = setting(
        1e-4, "learning rate of each q_phi (paper: 1e-4)", low=POSITIVE
    )
    rbf_features: int = setting(
        0, "radial basis functions of each entry that q_phi sees; 0: the plain entry", high=10_000
    )
    rbf_on: Literal["all", "single"] = setting(
        "all",
        "entries seen as radial basis functions: all, or only categories and factors of one entry",
    )
    background_weight: float = setting(
        0.0, "weight of q_phi's background class, which is no value's (categorical components)"
    )
    background_steps: int = setting(
        1, "environment steps in which that weight grows, with their square", low=1
    )
    prior_mixture: float = setting(
        0.0, "share of the prior mixed into q_phi for the reward, which bounds it", high=BELOW_ONE
    )

    def check(self):
        if self.rbf_features == 1:
            raise UsageError("rbf_features must be 0 (plain entries) or at least 2")

    def check_with(self, run: Any, networks: Any) -> None:
        """Raises a `UsageError` if these settings don't go with the others of a run."""
        if self.rbf_features and not networks.normalise_observations:
            raise UsageError(
                "rbf_features need normalise_observations: the functions lie where normalised "
                "entries do"
            )
        if self.mask_steps >= run.skill_length:
            raise UsageError(
                f"mask_steps ({self.mask_steps}) must be smaller than skill_length "
                f"({run.skill_length}), or no step is left to learn from"
            )


class DiscriminatorState(struct.PyTreeNode):
    params: Any
    optimiser: optax.OptState


@dataclasses.dataclass(frozen=True, eq=False)
class Discriminators:
    """Networks that predict components of a skill.

    Attributes:
      skill_space: the skills.
      targets: the components to predict, by their place in the skill.
      masks: bool [M, D], the observation entries that each network sees; one network for each
        target, or a single one for all of them.
      hidden: layers of each network.
      learning_rate: of Adam.
      mask_steps: steps after a skill switch that do not count.
      name: what the loss is called in the metrics.
      prefix: what comes before the metrics' names.
      rbf_entries: bool [D], the entries that are seen as radial basis functions.
      rbf_features: how many of these functions there are for an entry.
      background: weight of the background class; it grows to this with the square of the steps,
        since a place that no skill has found yet must not be background.
      background_steps: environment steps in which it grows.
      prior_mixture: share of the prior that is mixed into q for the reward.
    """

    skill_space: SkillSpace
    targets: tuple[int, ...]
    masks: np.ndarray
    hidden: tuple[int, ...]
    learning_rate: float
    mask_steps: int
    name: str = "discriminator"
    prefix: str = ""
    rbf_entries: np.ndarray | None = None
    rbf_features: int = 0
    background: float = 0.0
    background_steps: int = 1
    prior_mixture: float = 0.0

    @functools.cached_property
    def _predicted(self) -> SkillSpace:
        """The components to predict, as a skill of their own."""
        return self.skill_space.part(self.targets)

    @property
    def _single(self) -> bool:
        return len(self.masks) == 1

    def _networks(self) -> list[EnsembleMLP]:
        """One network for everything, or an ensemble for each group of components."""
        if self._single:
            outputs = sum(space.head_size for space in self._predicted.spaces)
            return [EnsembleMLP(1, self.hidden, outputs)]
        return [
            EnsembleMLP(len(group.members), self.hidden, group.space.head_size)
            for group in self._predicted.groups
        ]

    def _masks(self) -> list[np.ndarray]:
        """What the members of each of these see, [members, D]."""
        if self._single:
            return [self.masks]
        return [self.masks[group.members] for group in self._predicted.groups]

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    def init(self, key: jax.Array) -> DiscriminatorState:
        observation = jnp.zeros((1, self.masks.shape[1]))
        networks = self._networks()
        keys = [key] if len(networks) == 1 else jax.random.split(key, len(networks))
        params = []
        for network, mask, key in zip(networks, self._masks(), keys, strict=True):
            features, feature_mask = self._features(observation, mask)
            params.append(network.init(key, features, x_mask=feature_mask))
        return DiscriminatorState(params, self._optimiser.init(params))

    def counts(self, batch: Batch) -> jax.Array:
        """Which transitions are about their skill and not the one before it, float32 [B]."""
        return (batch.skill_age > self.mask_steps).astype(jnp.float32)

    def _features(self, observation: jax.Array, mask: np.ndarray) -> tuple[jax.Array, np.ndarray]:
        """What networks see of observations [B, D]: features [B, F] and a mask [members, F]."""
        as_rbf = np.zeros(mask.shape[1], bool) if self.rbf_entries is None else self.rbf_entries
        seen = mask.any(0)
        plain = np.flatnonzero(seen & ~as_rbf)
        spread = np.flatnonzero(seen & as_rbf)
        features = [observation[:, plain]]
        masks = [mask[:, plain]]
        if len(spread):
            features.append(rbf_features(observation[:, spread], self.rbf_features))
            masks.append(np.repeat(mask[:, spread], self.rbf_features, axis=1))
        return jnp.concatenate(features, axis=1), np.concatenate(masks, axis=1)

    def _heads(self, params: Any, observation: jax.Array) -> list[jax.Array]:
        """The outputs for each group of components, [B, members, head_size]."""
        outputs: list[Any] = []
        for network, mask, part in zip(self._networks(), self._masks(), params, strict=True):
            features, feature_mask = self._features(observation, mask)
            outputs.append(network.apply(part, features, x_mask=feature_mask))
        if not self._single:
            return [jnp.swapaxes(out, 0, 1) for out in outputs]
        if len(self._predicted.groups) == 1:  # in order already, and picking them out is slow
            return [outputs[0][0].reshape(len(observation), len(self._predicted), -1)]
        ends = np.cumsum([0, *(space.head_size for space in self._predicted.spaces)])
        return [
            outputs[0][0][:, ends[group.members][:, None] + np.arange(group.space.head_size)]
            for group in self._predicted.groups
        ]

    def log_ratio(self, params: Any, batch: Batch) -> LogRatio:
        """What is known of each target component, each [B, targets]."""
        heads = self._heads(params, batch.next_observation)
        skill = batch.skill[:, self.skill_space.places(self.targets)]
        parts = [
            group.space.log_ratio(
                head, self._predicted.gather(skill, group), background=bool(self.background)
            )
            for group, head in zip(self._predicted.groups, heads, strict=True)
        ]
        return LogRatio(*(self._predicted.arrange(list(part)) for part in zip(*parts, strict=True)))

    def reward(self, state: DiscriminatorState, batch: Batch, step: jax.Array) -> jax.Array:
        """What is known of each target, bounded by the prior's share; 0 for what does not count."""
        del step
        log_ratio = self.log_ratio(state.params, batch).at_value
        if self.prior_mixture:
            # log((1 - m) q/p + m), where m is the prior's share.
            known = math.log1p(-self.prior_mixture) + log_ratio
            log_ratio = jnp.logaddexp(known, math.log(self.prior_mixture))
        return log_ratio * self.counts(batch)[:, None]

    def update(
        self, state: DiscriminatorState, key: jax.Array, batch: Batch, step: jax.Array
    ) -> tuple[DiscriminatorState, Metrics]:
        """One Adam step on the mean negative log likelihood of the transitions that count."""
        counts = self.counts(batch)
        weights = counts / jnp.maximum(counts.sum(), 1)

        def loss_fn(params):
            ratio = self.log_ratio(params, batch)
            surprise = -jnp.sum(weights @ ratio.at_value)
            loss = surprise
            if self.background:
                loss += self._background_loss(params, key, batch, step)
            return loss, (surprise, weights @ ratio.score)

        (_, (surprise, score)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        metrics = {
            f"{self.prefix}{component.space.score_name}/{component.name}": value
            for component, value in zip(self._predicted.components, score, strict=True)
        }
        metrics[f"loss/{self.name}"] = surprise / len(self.targets)
        return DiscriminatorState(optax.apply_updates(state.params, updates), optimiser), metrics

    def _background_loss(
        self, params: Any, key: jax.Array, batch: Batch, step: jax.Array
    ) -> jax.Array:
        """The loss of the background class on states drawn from the box that a batch spans."""
        states = batch.next_observation
        anywhere = jax.random.uniform(key, states.shape, minval=states.min(0), maxval=states.max(0))
        heads = self._heads(params, anywhere)
        found = [
            group.space.log_background(head).mean(0).sum()
            for group, head in zip(self._predicted.groups, heads, strict=True)
        ]
        growth = jnp.minimum(step / self.background_steps, 1.0) ** 2
        return -self.background * growth * sum(found)


def own_discriminators(
    spec: WorldSpec,
    settings: DiscriminatorSettings,
    skill_space: SkillSpace,
    targets: tuple[int, ...],
    masks: np.ndarray,
) -> Discriminators:
    """The q_phi of a method, as its settings say."""
    return Discriminators(
        skill_space=skill_space,
        targets=targets,
        masks=masks,
        hidden=settings.discriminator_hidden,
        learning_rate=settings.discriminator_lr,
        mask_steps=settings.mask_steps,
        rbf_entries=rbf_entries(spec, settings),
        rbf_features=settings.rbf_features,
        background=settings.background_weight,
        background_steps=settings.background_steps,
        prior_mixture=settings.prior_mixture,
    )


def rbf_entries(spec: WorldSpec, settings: DiscriminatorSettings) -> np.ndarray:
    """The entries of controlled factors that q_phi sees as radial basis functions, bool [D].

    A linear q_phi gathers each value in one place of a factor of several entries, but on a line it
    needs these functions to tell more than the two ends apart.
    """
    controlled: np.ndarray = np.logical_or.reduce(spec.factor_masks())
    if not settings.rbf_features:
        return np.zeros_like(controlled)
    if settings.rbf_on == "all":
        return controlled
    chosen = np.zeros_like(controlled)
    chosen[[factor.indices[0] for factor in spec.controlled if len(factor.indices) == 1]] = True
    chosen[list(spec.categorical)] = True
    return chosen & controlled
