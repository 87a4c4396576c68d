"""CSD: skills are directions, and what is hard to control counts as far (Park et al. 2023).

As METRA, but a step may be as long in phi's space as it is surprising to a density model of the
changes of the state, so that skills move what does not move by itself or by any action.
"""

from __future__ import annotations

import dataclasses

from dusdi.methods.metra import Metra, MetraSettings
from dusdi.presets import PLAIN_SAC
from dusdi.settings import POSITIVE, WIDEST, setting
from dusdi.sources.controllability import Controllability, ControllabilitySettings
from dusdi.sources.travel import FAST_TRAVEL, Travel


@dataclasses.dataclass(frozen=True)
class CsdSettings(ControllabilitySettings, MetraSettings):
    """The settings of CSD."""

    travel_hidden: tuple[int, ...] = setting(
        (512, 512), "hidden layers of phi (CSD: 512,512)", low=1, high=WIDEST
    )
    travel_scale: float = setting(
        10.0,
        "reward for a distance of one (CSD: 10 in locomotion, 500 in manipulation)",
        low=POSITIVE,
    )
    travel_multiplier: float = setting(
        3000.0, "lambda of the constraint at the start (CSD: 3000)", low=POSITIVE
    )
    travel_slack: float = setting(
        1e-6, "epsilon, how much of the constraint's slack counts at most (CSD: 1e-6)"
    )


class Csd(Metra):
    """METRA with the distance that a density of changes makes."""

    name = "csd"
    Settings = CsdSettings
    grid = {"discount": (0.93, 0.99), "travel_scale": (10.0, 100.0)}
    experiments = ("fig4",)
    presets = {
        "paper": dict(discount=0.99),
        "fast": {
            **PLAIN_SAC,
            **FAST_TRAVEL,
            "alpha": 0.02,  # rewards are small at first
            # The authors' 3000 and 1e-6 take longer than there are updates.
            "travel_multiplier": 300.0,
            "travel_slack": 1e-5,
            "density_hidden": (128, 128),
            "density_lr": 1e-3,
            "least_deviation": 1e-2,  # of normalised observations, of which some hardly move
        },
        "debug": dict(travel_hidden=(16, 16), density_hidden=(16, 16)),
    }

    def _source(self, seen, settings):
        return Travel(
            self.skill_space,
            targets=(0,),
            masks=seen[None],
            settings=settings,
            density=Controllability(seen, settings),
            controllability=True,
        )
