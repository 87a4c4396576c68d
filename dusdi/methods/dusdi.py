"""DUSDi: each skill component moves its own factor and leaves the others alone (Section 3).

Two discriminators for each component: q_phi sees its own factor, q_psi all other controlled
factors. Reward channel i is what the first knows about z^i, less lambda times what the second
knows. For single components, distance travelled or a user's function can take the place of q_phi.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dusdi.errors import UsageError
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
    DiscriminatorSettings,
    DiscriminatorState,
    own_discriminators,
)
from dusdi.sources.functions import FunctionSource, name_function
from dusdi.sources.penalty import PenaltySettings, entanglement_penalty
from dusdi.sources.travel import Travel, TravelSettings, mean_travel
from dusdi.types import Metrics


@dataclasses.dataclass(frozen=True)
class DusdiSettings(
    FactoredSkillSettings, DiscriminatorSettings, TravelSettings, PenaltySettings, MethodSettings
):
    """The settings of DUSDi."""

    rewards: tuple[str, ...] = setting(
        (),
        "rewards that take the place of q_phi, each NAME=package.module:function or "
        "NAME=path/to/file.py:function",
    )
    travel: tuple[str, ...] = setting(
        (),
        "components that are paid for distance travelled instead of by q_phi; all: every one that "
        "rewards does not name",
    )
    travel_hidden: tuple[int, ...] = setting(
        (128, 128), "hidden layers of each phi of these components", low=1, high=WIDEST
    )
    travel_lr: float = setting(1e-3, "learning rate of each phi", low=POSITIVE)
    travel_multiplier_lr: float = setting(3e-3, "learning rate of log lambda", low=POSITIVE)

    def __post_init__(self):
        if isinstance(self.rewards, Mapping):
            named = self.rewards.items()
            texts = [f"{name}={name_function(given, name)}" for name, given in named]
            object.__setattr__(self, "rewards", tuple(texts))
        super().__post_init__()

    def check(self):
        FactoredSkillSettings.check(self)
        DiscriminatorSettings.check(self)
        for name in self.travel:
            if self.travel.count(name) > 1:
                raise UsageError(f"travel names {name!r} twice; name it once")
        both = sorted(set(named_pairs("rewards", self.rewards)) & set(self.travel))
        if both:
            raise UsageError(f"{both[0]!r} can't be both in rewards and in travel")


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
    grid = {"penalty_weight": (0.1, 0.5), "discount": (0.7, 0.93)}
    experiments = ("table1", "fig4", "fig5", "susd", "more-factors")
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
        self.skill_space = settings.factored_space(spec)
        self.channels = self.skill_space.names
        masks = spec.factor_masks()
        self._own = self._sources(spec, settings, masks)
        self._others = entanglement_penalty(self.skill_space, masks, settings, settings.mask_steps)

    def _sources(self, spec, settings: DusdiSettings, masks) -> tuple[Source, ...]:
        """What pays for association: discriminators, distance travelled, the user's functions."""
        given = named_pairs("rewards", settings.rewards)
        check_known("rewards", given, list(self.channels))
        travelling = dict.fromkeys(settings.travel)
        if settings.travel == ("all",):
            travelling = {name: None for name in self.channels if name not in given}
        check_known("travel", travelling, list(self.channels))
        paid = [i for i, name in enumerate(self.channels) if name in given]
        moved = tuple(i for i, name in enumerate(self.channels) if name in travelling)
        learned = tuple(i for i in range(len(self.channels)) if i not in {*paid, *moved})
        sources: list[Source] = []
        if learned:
            own = masks[list(learned)]
            sources.append(own_discriminators(spec, settings, self.skill_space, learned, own))
        if moved:
            own = masks[list(moved)]
            sources.append(Travel(self.skill_space, moved, own, settings, shared=False))
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
        # Eq. 4: r^i = log q_phi(z^i|s'^i) - lambda log q_psi(z^i|s'^-i), relative to the prior.
        association = self._association(state, batch, step)
        cost = self._others.cost(state.others, batch, step)
        return jax.lax.stop_gradient(association - cost)

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
        return mean_score(self.skill_space, row) or mean_travel(self.skill_space, row)
