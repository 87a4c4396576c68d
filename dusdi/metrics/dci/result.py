"""The result of DCI: the scores of one direction, and of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dusdi.metrics.dci.scores import completeness, disentanglement
from dusdi.metrics.dci.trees import Fit

#: The three scores of DCI, as they stand in tables.
NAMES = ("disentanglement", "completeness", "informativeness")
#: All scores of a direction that are single numbers.
NUMBERS = (*NAMES, "informativeness_varying")
#: What else a direction has, as lists.
ARRAYS = ("importance", "accuracy", "chance")


@dataclass(frozen=True, eq=False)
class Scores:
    """One direction of the metric; all NaN if it was not measured.

    Attributes:
      disentanglement: 1 if each code matters to one target only.
      completeness: 1 if each target depends on one code only.
      informativeness: accuracy on held-out episodes, mean over the targets. A constant target
        counts 1, since it is always predicted.
      informativeness_varying: the same over the targets that are not constant; NaN if all are.
      importance: [codes, targets]; each column sums to 1, or to 0 where nothing was learned.
      accuracy: on held-out episodes, [targets].
      chance: the accuracy of always guessing the most frequent value, [targets]; 1 for a constant.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    informativeness_varying: float
    importance: np.ndarray
    accuracy: np.ndarray
    chance: np.ndarray

    @property
    def measured(self) -> bool:
        return bool(np.isfinite(self.importance).all())

    def to_json(self) -> dict[str, Any]:
        """The scores by name; None where there is no number, since JSON has no NaN."""
        numbers = {name: _finite(getattr(self, name)) for name in NUMBERS}
        arrays = {name: getattr(self, name).tolist() if self.measured else None for name in ARRAYS}
        return {**numbers, **arrays}


def scores_of(fits: Sequence[Fit], owners: np.ndarray, codes: int) -> Scores:
    """The scores of one direction.

    Args:
      fits: one per target.
      owners: int [f], the code that each input of the trees belongs to; gains are summed by code.
      codes: how many codes there are.
    """
    importance = np.zeros((codes, len(fits)))
    np.add.at(importance, owners, np.stack([fit.gain for fit in fits], axis=1))
    accuracy = np.array([fit.accuracy for fit in fits])
    varying = [fit.accuracy for fit in fits if not fit.constant]
    return Scores(
        disentanglement=disentanglement(importance),
        completeness=completeness(importance),
        informativeness=float(np.mean(accuracy)),
        informativeness_varying=float(np.mean(varying)) if varying else math.nan,
        importance=importance,
        accuracy=accuracy,
        chance=np.array([fit.chance for fit in fits]),
    )


def unmeasured(codes: int, targets: int) -> Scores:
    """The scores of a direction that was not measured."""
    nothing = np.full(targets, np.nan)
    numbers = dict.fromkeys(NUMBERS, math.nan)
    importance = np.full((codes, targets), np.nan)
    return Scores(**numbers, importance=importance, accuracy=nothing, chance=nothing)


@dataclass(frozen=True, eq=False)
class DCI(Scores):
    """Both directions. The scores of this object itself are those of the paper's direction.

    In the paper's direction, skill components are the codes and state factors the targets.

    Attributes:
      components: the names of the skill components.
      factors: the names of the controlled factors; there may be more or fewer than components.
      own_factors: the factor that each component is meant to control; None if that is not planned.
      states_to_skills: the direction of the first release, with importance [factors, components].
    """

    components: tuple[str, ...]
    factors: tuple[str, ...]
    own_factors: tuple[str, ...] | None
    states_to_skills: Scores

    def to_json(self) -> dict[str, Any]:
        names: dict[str, Any] = {"components": list(self.components), "factors": list(self.factors)}
        names["own_factors"] = None if self.own_factors is None else list(self.own_factors)
        return {**super().to_json(), **names, "states_to_skills": self.states_to_skills.to_json()}

    def table(self) -> str:
        """Both directions as a small text table."""
        directions = {"skills to states": self, "states to skills": self.states_to_skills}
        lines = [" " * 16 + "".join(f"{name:>17}" for name in NAMES)]
        for label, scores in directions.items():
            texts = [f"{getattr(scores, name):.3f}" if scores.measured else "-" for name in NAMES]
            lines.append(label + "".join(f"{text:>17}" for text in texts))
        return "\n".join(lines)


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
