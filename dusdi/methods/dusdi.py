"""DUSDi: each skill component moves its own factor and leaves the others alone (Section 3).

Two discriminators for each component: q_phi sees its own factor, q_psi all other controlled
factors. Reward channel i is what the first knows about z^i, less lambda times what the second
knows. A user's function can take the place of q_phi for single components.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from dusdi.methods.base import (
    FactoredSkillSettings,
    Method,
    MethodSettings,
    check_known,
    mean_score,
    named_pairs,
)
from dusdi.settings import POSITIVE, WIDEST, setting
from dusdi.sources.base import Source
from dusdi.sources.discriminate import (
    Discriminators,
    DiscriminatorSettings,
    DiscriminatorState,
    own_discriminators,
)
from dusdi.sources.functions import FunctionSource, name_function
from dusdi.types import Metrics


@dataclasses.dataclass(frozen=True)
class DusdiSettings(FactoredSkillSettings, DiscriminatorSettings, MethodSettings):
    """The settings of DUSDi."""

    rewards: tuple[str, ...] = setting(
        (),
        "rewards that take the place of q_phi, each NAME=package.module:function or "
        "NAME=path/to/file.py:function",
    )
    penalty_weight: float = setting(0.1, "lambda, weight of the entanglement penalty (paper: 0.1)")
    penalty: Literal["paper", "club"] = setting(
        "paper", "estimate of I(S^-i; Z^i): the paper's lower bound, or CLUB's upper bound"
    )
    penalty_start: int = setting(0, "environment steps before the penalty counts (release: 1 M)")
    penalty_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each q_psi (paper: 1024,1024)", low=1, high=WIDEST
    )
    penalty_lr: float = setting(1e-4, "learning rate of each q_psi (paper: 1e-4)", low=POSITIVE)

    def __post_init__(self):
        if isinstance(self.rewards, Mapping):
            named = self.rewards.items()
            texts = [f"{name}={name_function(given, name)}" for name, given in named]
            object.__setattr__(self, "rewards", tuple(texts))
        super().__post_init__()

    def check(self):
        FactoredSkillSettings.check(self)
        DiscriminatorSettings.check(self)
        named_pairs("rewards", self.rewards)


#: How discriminators differ from the paper's in preset `fast`; see the ablation in docs/.
FAST_DISCRIMINATORS: dict[str, Any] = dict(
    mask_steps=0,  # the critics can't see a skill's age
    discriminator_hidden=(),  # linear: gathers each skill in one place
    rbf_features=16,  # but tells places on a line apart
    rbf_on="single",
    discriminator_lr=5e-3,
)


class DusdiState(NamedTuple):
    own: tuple[Any, ...]
    others: DiscriminatorState


class Dusdi(Method):
    """The method of the paper."""

    name = "dusdi"
    Settings = DusdiSettings
    presets = {
        "fast": dict(
            **FAST_DISCRIMINATORS,
            # What one factor tells of another often shows only in combinations of entries, and
            # the paper's weight of 0.1 does little about it. A high rate lets q_psi overfit.
            penalty_hidden=(64, 64),
            penalty_lr=5e-4,
            penalty_weight=0.5,
        ),
    }

    def __init__(self, spec, settings: DusdiSettings):
        self._settings = settings
        self.skill_space = settings.factored_space(spec)
        self.channels = self.skill_space.names
        everyone = tuple(range(len(self.channels)))
        masks = spec.factor_masks()
        self._own = self._sources(spec, settings, masks)
        self._others = Discriminators(
            skill_space=self.skill_space,
            targets=everyone,
            masks=masks.any(0) & ~masks,
            hidden=settings.penalty_hidden,
            learning_rate=settings.penalty_lr,
            mask_steps=settings.mask_steps,
            name="penalty",
            prefix="penalty_",
        )

    def _sources(self, spec, settings: DusdiSettings, masks) -> tuple[Source, ...]:
        """What pays for association: discriminators, and the user's functions if there are any."""
        given = named_pairs("rewards", settings.rewards)
        check_known("rewards", given, list(self.channels))
        learned = tuple(i for i, name in enumerate(self.channels) if name not in given)
        paid = [i for i, name in enumerate(self.channels) if name in given]
        sources: list[Source] = []
        if learned:
            own = masks[list(learned)]
            sources.append(own_discriminators(spec, settings, self.skill_space, learned, own))
        if paid:
            names = [given[self.channels[i]] for i in paid]
            sources.append(FunctionSource(spec, self.skill_space, paid, names))
        return tuple(sources)

    def init(self, key):
        *keys, others_key = jax.random.split(key, len(self._own) + 1)
        own = tuple(source.init(key) for source, key in zip(self._own, keys, strict=True))
        return DusdiState(own, self._others.init(others_key))

    def update(self, state: DusdiState, key, batch, step):
        states = []
        metrics: Metrics = {}
        for source, old in zip(self._own, state.own, strict=True):
            new, said = source.update(old, key, batch, step)
            states.append(new)
            metrics |= said
        others, said = self._others.update(state.others, key, batch, step)
        return DusdiState(tuple(states), others), metrics | said

    def reward(self, state: DusdiState, key, batch, step):
        del key
        settings = self._settings
        ratio = self._others.log_ratio(state.others.params, batch)
        entanglement = ratio.at_value
        if settings.penalty == "club":
            # CLUB (Cheng et al. 2020): log q(z|s) - E_{z'~p} log q(z'|s), an upper bound of the
            # information if q is good.
            entanglement -= ratio.over_prior
        weight = jnp.where(step >= settings.penalty_start, settings.penalty_weight, 0.0)
        counts = self._others.counts(batch)[:, None]
        # Eq. 4: r^i = log q_phi(z^i|s'^i) - lambda log q_psi(z^i|s'^-i), relative to the prior.
        association = self._association(state, batch, step)
        return jax.lax.stop_gradient(association - weight * entanglement * counts)

    def _association(self, state: DusdiState, batch, step) -> jax.Array:
        """What the sources pay, [B, C]."""
        paid = [
            source.reward(part, batch, step)
            for source, part in zip(self._own, state.own, strict=True)
        ]
        if len(paid) == 1:
            return paid[0]
        targets = [target for source in self._own for target in source.targets]
        order = sorted(range(len(targets)), key=targets.__getitem__)
        return jnp.concatenate(paid, axis=1)[:, jnp.array(order)]

    def headline(self, row):
        return mean_score(self.skill_space, row)
