"""DCI (Eastwood & Williams 2018): does each skill component control one state factor?

Boosted trees predict every target from all codes (skill components or state factors). The gain of
a code's splits is its importance for the target, and the scores are entropies of the matrix of
importances. The paper predicts states from skills, its first release predicted skills from states;
both directions are measured here.

- `measure`: the function `dci`, from skills and observations to a result.
- `result`: the types of a result, and how it is written as JSON and as text.
- `scores`: the formulas, from importances to scores.
- `trees`: boosted trees, from data to importances and accuracy.
- `clusters`: k-means, which turns continuous factors into classes.
- `summaries`: the mean over seeds, and what is worth saying about each component.
"""

from dusdi.metrics.dci.clusters import fits
from dusdi.metrics.dci.measure import ComponentColumns, dci
from dusdi.metrics.dci.result import DCI, NAMES, Scores
from dusdi.metrics.dci.summaries import ComponentScores, component_scores, remarks, summary

__all__ = [
    "DCI",
    "NAMES",
    "ComponentColumns",
    "ComponentScores",
    "Scores",
    "component_scores",
    "dci",
    "fits",
    "remarks",
    "summary",
]
