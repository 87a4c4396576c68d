"""Where rewards come from: skill-discovery methods by name, each one file, and the reward of a task."""

from dusdi.config import Config
from dusdi.errors import unknown_name
from dusdi.objectives.base import Objective
from dusdi.objectives.diayn import Diayn, DiaynMC
from dusdi.objectives.dusdi import Dusdi
from dusdi.objectives.extrinsic import Extrinsic
from dusdi.types import WorldSpec

METHODS: dict[str, type[Objective]] = {
    "dusdi": Dusdi,
    "diayn": Diayn,
    "diayn-mc": DiaynMC,
    "extrinsic": Extrinsic,
}


def make_objective(spec: WorldSpec, config: Config) -> Objective:
    """The method that the config names, for a world."""
    if config.method not in METHODS:
        raise unknown_name("method", config.method, METHODS)
    return METHODS[config.method](spec, config)
