"""What to report of DCI results: the mean over seeds, a row per component, and remarks.

All functions read the dictionaries of `DCI.to_json()`, so that they work on files, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dusdi.metrics.dci.result import ARRAYS, NUMBERS
from dusdi.metrics.dci.scores import concentrations
from dusdi.types import at_chance


def summary(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of several seeds' `DCI.to_json()`, with all of them under `seeds`.

    If there are several, `<score>_std` is the standard deviation over the seeds.
    """
    reverse = [result["states_to_skills"] for result in results]
    names = {name: results[0][name] for name in ("components", "factors", "own_factors")}
    means = {**_mean_scores(results), "states_to_skills": _mean_scores(reverse)}
    return {**means, **names, "seeds": list(results)}


def _mean_scores(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of each score, mean arrays; None if a seed has no number."""
    scores: dict[str, Any] = {}
    for name in ARRAYS:
        arrays = [result[name] for result in results]
        scores[name] = None if None in arrays else np.mean(arrays, axis=0).tolist()
    for name in NUMBERS:
        values = [result[name] for result in results]
        measured = None not in values
        scores[name] = float(np.mean(values)) if measured else None
        if len(values) > 1:
            scores[f"{name}_std"] = float(np.std(values, ddof=1)) if measured else None
    return scores


class ComponentScores(NamedTuple):
    """The scores of one skill component; None where they were not measured.

    Attributes:
      component: its name.
      factor: the one it is meant to control, or else the one it matters most to.
      accuracy: of predicting its value from the states; of a continuous component, the bin.
      chance: the accuracy of the best constant guess of the same.
      disentanglement: 1 if it matters to one factor only.
      factor_accuracy: of predicting the factor from the skills.
      factor_chance: the accuracy of the best constant guess of the factor; 1 for a constant.
    """

    component: str
    factor: str
    accuracy: float | None
    chance: float | None
    disentanglement: float
    factor_accuracy: float
    factor_chance: float

    @property
    def at_chance(self) -> bool:
        """Whether the component has hardly any effect on the states."""
        if self.accuracy is None or self.chance is None:
            return False
        return at_chance(self.accuracy, self.chance)


def component_scores(result: Mapping[str, Any]) -> list[ComponentScores]:
    """The scores of each component in a `DCI.to_json()` or a `summary`."""
    importance = np.asarray(result["importance"])
    factors = result["factors"]
    planned = result["own_factors"]
    reverse = result["states_to_skills"]
    own_disentanglement = concentrations(importance)
    rows = []
    for i, name in enumerate(result["components"]):
        own = factors.index(planned[i]) if planned else int(importance[i].argmax())
        row = ComponentScores(
            component=name,
            factor=factors[own],
            accuracy=reverse["accuracy"] and reverse["accuracy"][i],
            chance=reverse["chance"] and reverse["chance"][i],
            disentanglement=float(own_disentanglement[i]),
            factor_accuracy=result["accuracy"][own],
            factor_chance=result["chance"][own],
        )
        rows.append(row)
    return rows


def remarks(report: Mapping[str, Any]) -> list[str]:
    """Sentences about the seeds in a `summary`: components at chance, factors that never change."""
    found: list[str] = []
    for result in report["seeds"]:
        seed = f" in seed {result['seed']}" if len(report["seeds"]) > 1 else ""
        found += _idle_components(result, seed)
        found += _constant_factors(result, seed)
    return found


def _idle_components(result: Mapping[str, Any], seed: str) -> Iterator[str]:
    for row in component_scores(result):
        if row.at_chance:
            yield (
                f"{row.component} ({row.factor}) is at chance{seed}: its value can hardly be "
                f"predicted from the states ({row.accuracy:.2f}, chance {row.chance:.2f}); "
                "docs/chance.md says what to do"
            )


def _constant_factors(result: Mapping[str, Any], seed: str) -> Iterator[str]:
    """A sentence that names the factors that never change, if there are any."""
    chances = zip(result["factors"], result["chance"], strict=True)
    constant = [name for name, chance in chances if chance == 1.0]
    if not constant:
        return
    score = result["informativeness_varying"]
    rest = "no factor changes" if score is None else f"without such factors it is {score:.3f}"
    for name in constant:
        yield (
            f"factor {name} never changes{seed}: it counts 1 in the informativeness, whatever the "
            f"skills do; {rest}"
        )
