"""SUSD: METRA with a component for each factor (ICLR 2026, arXiv 2602.01619).

Component i travels in the space of a network phi_i that sees factor i alone, under one constraint
on all phi together. Its reward is weighted by how badly a density model predicts the factor's
changes, so that what is hard to move pays more.

Three things are ours. Each channel has a Q function of its own, where the authors sum all of them
into one reward. DUSDi's penalty is an option. And components are drawn independently, each from a
square by default, where the authors divide one vector of all components by its length: in both a
component can be so short that its factor is to stay.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax

from dusdi.methods.base import FactoredSkillSettings, Method, MethodSettings
from dusdi.presets import PLAIN_SAC
from dusdi.settings import POSITIVE, WIDEST, setting
from dusdi.sources.controllability import Controllability, ControllabilitySettings
from dusdi.sources.discriminate import DiscriminatorState
from dusdi.sources.penalty import PenaltySettings, entanglement_penalty
from dusdi.sources.travel import FAST_TRAVEL, Travel, TravelSettings, TravelState, mean_travel


@dataclasses.dataclass(frozen=True)
class SusdSettings(
    FactoredSkillSettings, ControllabilitySettings, TravelSettings, PenaltySettings, MethodSettings
):
    """The settings of SUSD."""

    component: str = setting(
        "box:2", "space of each skill component: categorical:K, box:M or sphere:M (SUSD: 2-D)"
    )
    travel_multiplier: float = setting(
        3000.0, "lambda of the constraint at the start (SUSD: 3000)", low=POSITIVE
    )
    travel_slack: float = setting(
        1e-6, "epsilon, how much of the constraint's slack counts at most (SUSD: 1e-6)"
    )
    density_hidden: tuple[int, ...] = setting(
        (1024, 1024),
        "hidden layers of mu and of sigma in q(s'-s|s) (SUSD: 1024,1024)",
        low=1,
        high=WIDEST,
    )
    weigh_factors: bool = setting(
        True, "rewards are multiplied by sqrt(c_i), which is large for factors hard to predict"
    )
    penalty_weight: float = setting(0.0, "weight of DUSDi's entanglement penalty (SUSD: none)")


class SusdState(NamedTuple):
    travel: TravelState
    others: DiscriminatorState | None


class Susd(Method):
    """Distance travelled for each factor."""

    name = "susd"
    Settings = SusdSettings
    grid = {"discount": (0.93, 0.99), "travel_scale": (1.0, 10.0)}
    experiments = ("table1", "fig4", "susd")
    presets = {
        "paper": dict(discount=0.99),
        "fast": {
            **PLAIN_SAC,
            **FAST_TRAVEL,
            # Actor and critics as DUSDi's: a part of the actor and a critic for each component.
            "additive_actor": True,
            "input_gain": 0.1,
            "actor_hidden": (64, 64),
            "critic_hidden": (64, 64),
            "decompose_q": True,
            "alpha": 0.02,  # rewards are small at first, and their weights, too
            "travel_scale": 10.0,
            # The authors' 3000 and 1e-6 take longer than there are updates.
            "travel_multiplier": 30.0,
            "travel_slack": 1e-3,
            "travel_hidden": (64, 64),
            "density_hidden": (128, 128),
            "density_lr": 1e-3,
            "least_deviation": 1e-2,
            "penalty_hidden": (64, 64),
            "penalty_lr": 5e-4,
        },
        "debug": dict(travel_hidden=(16, 16), density_hidden=(16, 16), penalty_hidden=(16, 16)),
    }

    def __init__(self, spec, settings: SusdSettings):
        self.skill_space = settings.factored_space(spec)
        self.channels = self.skill_space.names
        everyone = tuple(range(len(self.channels)))
        masks = spec.factor_masks()
        density = Controllability(masks.any(0), settings) if settings.weigh_factors else None
        self._travel = Travel(
            self.skill_space,
            targets=everyone,
            masks=masks,
            settings=settings,
            density=density,
            weighted=settings.weigh_factors,
        )
        self._others = None
        if settings.penalty_weight:
            self._others = entanglement_penalty(self.skill_space, masks, settings, mask_steps=0)

    def init(self, key):
        travel_key, others_key = jax.random.split(key)
        others = self._others.init(others_key) if self._others else None
        return SusdState(self._travel.init(travel_key), others)

    def update(self, state: SusdState, key, batch, step):
        travel, metrics = self._travel.update(state.travel, key, batch, step)
        others = state.others
        if self._others is not None and others is not None:
            others, said = self._others.update(others, key, batch, step)
            metrics |= said
        return SusdState(travel, others), metrics

    def reward(self, state: SusdState, key, batch, step):
        del key
        reward = self._travel.reward(state.travel, batch, step)
        if self._others is not None and state.others is not None:
            reward -= self._others.cost(state.others, batch, step)
        return jax.lax.stop_gradient(reward)

    def headline(self, row):
        return mean_travel(self.skill_space, row)
