"""Boosted trees: how well a target is predicted from inputs, and which inputs that is due to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from dusdi.parallel import cores

if TYPE_CHECKING:
    import lightgbm  # imported when trees are grown, since it imports pandas

Item = TypeVar("Item")
Result = TypeVar("Result")

ROUNDS = 50
MIN_LEAF_ROWS = 20
#: Least share of the rows in a leaf. Rows of one skill are alike: in the paper's 100,000 steps,
#: this is 16 skills of 50 steps each.
MIN_LEAF_SHARE = 0.01

# Ordinary small trees: deep enough for interactions of components, too small to memorise the
# states of single skills. One thread fits one target: threads that share a tree wait for each
# other at every split, which is ten times slower on busy cores.
BOOSTING = {
    "objective": "multiclass",
    "learning_rate": 0.1,
    "num_leaves": 8,
    "max_bin": 63,
    "seed": 0,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


class Fit(NamedTuple):
    """How well a target is predicted, and from which inputs.

    Attributes:
      gain: the share of each input in the gain of all splits; all 0 if nothing was learned.
      accuracy: on the held-out rows.
      chance: the accuracy, on the same rows, of always guessing the most frequent training value.
      constant: whether the target has the same value in all rows.
    """

    gain: np.ndarray
    accuracy: float
    chance: float
    constant: bool


def fit_targets(
    inputs: np.ndarray,
    targets: Sequence[np.ndarray],
    held_out: np.ndarray,
    *,
    categorical: Sequence[int],
) -> Iterator[Fit]:
    """Fits each target in turn, several at a time; the arguments are those of `fit_trees`."""
    local = threading.local()  # each thread bins the inputs once, for all targets that it fits

    def fit(target: np.ndarray) -> Fit:
        if not hasattr(local, "binned"):
            local.binned = bin_inputs(inputs, held_out, categorical=categorical)
        return fit_trees(inputs, target, held_out, categorical=categorical, binned=local.binned)

    return map_in_threads(fit, targets)


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The function's result for each item, in order, computed by a thread per core."""
    with ThreadPoolExecutor(len(cores())) as pool:
        yield from pool.map(function, items)


def fit_trees(
    inputs: np.ndarray,
    target: np.ndarray,
    held_out: np.ndarray,
    *,
    categorical: Sequence[int] = (),
    binned: lightgbm.Dataset | None = None,
) -> Fit:
    """Predicts a target by boosted trees.

    Args:
      inputs: [n, f].
      target: int [n], the class of each row.
      held_out: bool [n], the rows to test on; the trees are grown on the others.
      categorical: the input columns that hold categories, whose order means nothing.
      binned: what `bin_inputs` made of the same inputs, to save time; its label is overwritten.
    """
    import lightgbm

    values, labels = np.unique(target, return_inverse=True)
    train = labels[~held_out]
    test = labels[held_out]
    chance = float(np.mean(test == np.bincount(train).argmax()))
    if (train == train[0]).all():
        return Fit(np.zeros(inputs.shape[1]), chance, chance, len(values) == 1)
    data = bin_inputs(inputs, held_out, categorical=categorical) if binned is None else binned
    data.set_label(train)
    parameters = {**_tree_parameters(len(train)), "num_class": len(values)}
    model = lightgbm.train(parameters, data, num_boost_round=ROUNDS)
    guesses = np.asarray(model.predict(inputs[held_out], num_threads=1)).argmax(axis=1)
    gain = model.feature_importance("gain")
    return Fit(gain / (gain.sum() or 1.0), float(np.mean(guesses == test)), chance, False)


def bin_inputs(
    inputs: np.ndarray, held_out: np.ndarray, *, categorical: Sequence[int] = ()
) -> lightgbm.Dataset:
    """The training rows of the inputs [n, f] in the binned form that trees are grown on."""
    import lightgbm

    train = inputs[~held_out]
    parameters = _tree_parameters(len(train))
    return lightgbm.Dataset(train, categorical_feature=list(categorical), params=parameters)


def _tree_parameters(rows: int) -> dict[str, Any]:
    return {**BOOSTING, "min_data_in_leaf": max(MIN_LEAF_ROWS, int(MIN_LEAF_SHARE * rows))}
