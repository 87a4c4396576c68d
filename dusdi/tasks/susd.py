"""SUSD's variants of the tasks in Multi-Particle, as its authors evaluate skills.

Episodes have 50 steps, which begin in the same layout, and a decision is made every 5 steps. What
is published is a discounted return: Σ_t 0.99^t times the mean reward of decision t. (SUSD: ICLR
2026, arXiv 2602.01619; the protocol and the numbers are those of its repository.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import Discounting, TaskPresets, World
from dusdi.tasks.base import train_for
from dusdi.tasks.particle import LISTED, FoodPoison, Progress, Sequential, check_stations

EPISODE = 50  # steps
DECISION = 5  # steps
DISCOUNTING = Discounting(0.99, DECISION)
CHECK = 10  # steps after which it is seen whether an instruction was followed
#: The stations that count in food-poison; those of medium and hard are not known, so they are ours.
STATIONS = {
    "easy": (1, 6),
    "medium": LISTED["medium"],
    "hard": LISTED["hard"],
    "difficult": tuple(range(10)),
}
#: The instructions in sequential, the same in all episodes.
SEQUENCES = {"easy": (1, 3), "medium": (0, 2, 8), "hard": (0, 1, 7, 9)}
#: Options of the world that the tasks are set in, unless a user says otherwise.
WORLD_OPTIONS = {"layout": 0}

#: Read off plots, ±0.5: how SUSD and its authors' DUSDi end in food-poison and sequential.
PUBLISHED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "food-poison": {
        "easy": (16.6, 8.0),
        "medium": (31.9, 24.4),
        "hard": (35.2, 30.6),
        "difficult": (34.6, 32.8),
    },
    "sequential": {"easy": (55.6, -3.7), "medium": (30.0, 22.2), "hard": (11.4, 2.9)},
}
PUBLISHED_NOTE = (
    "Published values are read off plots in SUSD's repository (±0.5). There, DUSDi was evaluated "
    "wrongly in these tasks: most of the distances that its reward was computed from were other "
    "entries of its observation, and its skills were not one-hot. The published layout is another "
    "one, and the published agent over skills is soft actor-critic."
)

#: As many steps as SUSD's 10,000 episodes have. A decision is as long in all presets.
PRESETS: TaskPresets = {
    "paper": {"ppo": {"decision_length": DECISION}},
    "debug": {"ppo": {"decision_length": DECISION}},
    **train_for(
        500_000,
        {
            "fast": {
                "ppo": {
                    "decision_length": DECISION,
                    "discount": DISCOUNTING.factor,
                    "num_envs": 50,
                    "log_every": 10_000,
                },
                "sac": {"num_envs": 64, "steps_per_update": 16, "log_every": 10_000},
            }
        },
    ),
}


def _published(task: str, level: str) -> dict[str, float]:
    return dict(zip(("susd", "dusdi"), PUBLISHED[task][level], strict=True))


class SusdFoodPoison(FoodPoison):
    """Each listed station offers food or poison in a whole episode, which is one window."""

    task_presets = PRESETS
    discounting = DISCOUNTING
    published_note = PUBLISHED_NOTE

    def __init__(self, level: str, world: World | None = None):
        name = f"susd-food-poison-{level}"
        super().__init__(name, STATIONS[level], world, window=EPISODE, episode_length=EPISODE)
        self.published_returns = _published("food-poison", level)

    @property
    def about(self):
        return (
            f"SUSD's food-poison: {len(self._listed)} of {self._agents} stations count; what they "
            f"offer is drawn once in each episode of {EPISODE} steps."
        )


class SusdSequential(Sequential):
    """Agents interact with their stations in an order that is always the same.

    It is checked every few steps, and a single step at the station fulfils an instruction.
    """

    task_presets = PRESETS
    discounting = DISCOUNTING
    published_note = PUBLISHED_NOTE
    charge = 0  # steps

    def __init__(self, level: str, world: World | None = None):
        name = f"susd-sequential-{level}"
        sequence = SEQUENCES[level]
        super().__init__(name, len(sequence), world, window=CHECK, episode_length=EPISODE)
        check_stations(name, sequence, self._agents)
        self._order = _first(sequence, self._agents)
        self.published_returns = _published("sequential", level)

    @property
    def about(self):
        stations = ", ".join(map(str, self._order[: self._length]))
        return (
            f"SUSD's sequential: agents {stations} visit their stations in this order, which is "
            f"checked every {CHECK} steps of an episode of {EPISODE}."
        )

    def reset_variables(self, key, world):
        return Progress(jnp.asarray(self._order), done=jnp.int32(0), charge=jnp.int32(0))


def _first(sequence: Sequence[int], count: int) -> np.ndarray:
    """All of `count` numbers, those of a sequence first."""
    rest = [i for i in range(count) if i not in sequence]
    return np.array([*sequence, *rest], np.int32)
