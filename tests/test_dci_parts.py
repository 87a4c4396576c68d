"""The parts of DCI: formulas against numbers worked out by hand, clusters, and boosted trees."""

import numpy as np
import pytest

from dusdi.metrics.dci.clusters import discretise, fits
from dusdi.metrics.dci.result import scores_of
from dusdi.metrics.dci.scores import completeness, concentrations, disentanglement
from dusdi.metrics.dci.trees import Fit, bin_inputs, fit_targets, fit_trees


# Disentanglement is taken by rows, completeness by columns.
# mixed: rows (1/2, 1/2) and (0, 1) have entropies of 1 and 0 bits and totals of 2 and 1, so that
#   D = 2/3 * 0 + 1/3 * 1. Columns: (1, 0) has 0 bits, total 1; (1/2, 1/2) has 1 bit, total 2; so
#   C = 1/3 * 1 + 2/3 * 0.
# shares: row (3/4, 1/4) has 2 - 3/4 log2 3 = 0.8112781 bits, D = 0.1887219. Columns are halves,
#   so C = 0.
# weights: rows (9, 0) and (1/2, 1/2): D = 9/10 * 1 + 1/10 * 0; unweighted it would be 1/2. Columns:
#   (18/19, 1/19), total 9.5, has 0.2974723 bits; (0, 1) has total 1/2: C = 1 - 0.95 * 0.2974723.
# flat: 2 codes, 4 targets; rows (1/2, 1/2, 0, 0) and (0, 0, 1/2, 1/2) have 1 bit of log2 4 = 2, so
#   D = 1/2 and C = 1.
# unused: a code without importance has no weight, so D = 0; columns (1/2, 0, 1/2) have an entropy
#   of log 2, at most log 3 is possible: C = 0.3690702.
@pytest.mark.parametrize(
    ("importance", "d", "c"),
    [
        pytest.param(np.eye(3), 1.0, 1.0, id="identity"),
        pytest.param(np.eye(3)[[2, 0, 1]], 1.0, 1.0, id="permutation"),
        pytest.param(np.ones((4, 4)), 0.0, 0.0, id="uniform"),
        pytest.param([[1, 1], [0, 1]], 1 / 3, 1 / 3, id="mixed"),
        pytest.param([[3, 1], [3, 1]], 0.1887219, 0.0, id="shares"),
        pytest.param([[9, 0], [0.5, 0.5]], 0.9, 1 - 0.95 * 0.2974723, id="weights"),
        pytest.param([[1, 1, 0, 0], [0, 0, 1, 1]], 0.5, 1.0, id="flat"),
        pytest.param([[1, 1, 1], [0, 0, 0], [1, 1, 1]], 0.0, 0.3690702, id="unused code"),
        pytest.param([[1, 1, 1]], 0.0, 1.0, id="one code"),
        pytest.param([[1], [1]], 1.0, 0.0, id="one target"),
        pytest.param(np.zeros((2, 3)), 0.0, 0.0, id="nothing learned"),
    ],
)
def test_scores_of_importances_worked_out_by_hand(importance, d, c):
    assert disentanglement(importance) == pytest.approx(d, abs=1e-7)
    assert completeness(importance) == pytest.approx(c, abs=1e-7)
    assert disentanglement(np.transpose(importance)) == pytest.approx(c, abs=1e-7)


def test_bins_are_the_clusters_of_standardised_entries():
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=20_000)  # more than the centres are fitted on
    # The scales of the entries differ, and the last entry is constant.
    corners = np.array([[0, 0, 7], [0, 1000, 7], [1, 0, 7], [1, 1000, 7]])
    noise = [0.05, 50, 0] * rng.normal(size=(20_000, 3))
    labels = discretise(corners[truth] + noise, 4)
    assert len({*zip(truth, labels, strict=True)}) == 4  # the same partition


def test_rows_with_few_distinct_values_keep_them():
    values = np.array([[0.0, 3.0], [1.0, 3.0], [0.0, 3.0], [5.0, 3.0]], np.float32)
    assert discretise(values, 8).tolist() == [0, 1, 0, 2]
    assert discretise(np.full((6, 2), 0.1, np.float32), 5).tolist() == [0] * 6


def test_bins_can_exceed_the_distinct_rows_of_the_sample(recwarn):
    values = np.zeros((200_000, 1))
    # Of six distinct values the sample is unlikely to hold more than one or two.
    values[:6, 0] = range(6)
    labels = discretise(values, 5)
    assert labels.min() >= 0 and labels.max() < 5
    assert not recwarn


def test_accuracy_is_measured_on_held_out_rows():
    """Each window has a number of its own, which can be memorised but helps with no other."""
    rng = np.random.default_rng(0)
    window = np.repeat(np.arange(100.0), 100)[:, None]
    target = np.repeat(rng.integers(2, size=100), 100)
    fit = fit_trees(window, target, np.arange(10_000) >= 8_000)
    assert fit.accuracy == pytest.approx(0.5, abs=0.2)


def test_chance_is_the_held_out_accuracy_of_the_most_frequent_training_value():
    target = np.repeat([0, 1, 0, 1], [300, 500, 120, 80])  # 1 is more frequent, but not held out
    fit = fit_trees(np.zeros((1_000, 1)), target, np.arange(1_000) >= 800)
    assert fit.chance == fit.accuracy == 0.4


def test_binned_inputs_serve_one_target_after_the_other():
    """What an earlier target leaves in them must not change a single bit."""
    rng = np.random.default_rng(9)
    inputs = rng.normal(size=(2_000, 3))
    held_out = np.arange(2_000) >= 1_600
    targets = [(inputs[:, i] > 0).astype(int) + rng.integers(i + 1, size=2_000) for i in range(3)]
    binned = bin_inputs(inputs, held_out)
    for target in targets:
        alone = fit_trees(inputs, target, held_out)
        shared = fit_trees(inputs, target, held_out, binned=binned)
        assert shared.gain.tolist() == alone.gain.tolist()
        assert shared[1:] == alone[1:]


def test_threads_fit_targets_as_one_after_the_other(all_cores):
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(1_000, 2))
    held_out = np.arange(1_000) >= 800
    targets = [(inputs[:, i % 2] > i / 4).astype(int) for i in range(4)]
    fits = list(fit_targets(inputs, targets, held_out, categorical=()))
    for fit, target in zip(fits, targets, strict=True):
        alone = fit_trees(inputs, target, held_out)
        assert fit.gain.tolist() == alone.gain.tolist()
        assert fit[1:] == alone[1:]


def test_a_constant_target_gains_nothing():
    inputs = np.random.default_rng(0).normal(size=(100, 2))
    fit = fit_trees(inputs, np.full(100, 3), np.arange(100) < 20)
    assert fit.gain.tolist() == [0.0, 0.0]
    assert fit.accuracy == fit.chance == 1.0
    assert fit.constant


def test_a_target_that_varies_in_held_out_rows_only_is_not_constant():
    """All trees could do is to guess 0, which is right in 15 of 20 held-out rows."""
    target = np.repeat([0, 1], [95, 5])
    fit = fit_trees(np.zeros((100, 1)), target, np.arange(100) >= 80)
    assert fit.accuracy == fit.chance == 0.75
    assert not fit.constant


def test_only_the_named_columns_are_categories():
    inputs = np.random.default_rng(0).integers(3, size=(100, 4))
    binned = bin_inputs(inputs, np.arange(100) < 20, categorical=[1, 3])
    assert binned.categorical_feature == [1, 3]


def test_scores_of_fits_worked_out_by_hand():
    """Two codes, the first of which has two inputs; the third target is constant.

    The importances are [[0.5, 0, 0], [0.5, 1, 0]]. Of the rows, (1, 0, 0) has no entropy and
    (1/3, 2/3, 0) has 0.6365142 of at most log 3 = 1.0986123; their totals are 0.5 and 1.5. Of the
    columns, (1/2, 1/2) has the largest entropy and (0, 1) none; both have a total of 1.
    """
    fits = [
        Fit(np.array([0.2, 0.3, 0.5]), accuracy=0.5, chance=0.3, constant=False),
        Fit(np.array([0.0, 0.0, 1.0]), accuracy=0.8, chance=0.2, constant=False),
        Fit(np.zeros(3), accuracy=1.0, chance=1.0, constant=True),
    ]
    found = scores_of(fits, np.array([0, 0, 1]), codes=2)
    np.testing.assert_allclose(found.importance, [[0.5, 0.0, 0.0], [0.5, 1.0, 0.0]])
    assert found.disentanglement == pytest.approx(0.25 + 0.75 * (1 - 0.6365142 / 1.0986123))
    assert found.completeness == pytest.approx(0.5)
    assert found.informativeness == pytest.approx(2.3 / 3)
    assert found.informativeness_varying == pytest.approx(0.65)
    assert found.chance.tolist() == [0.3, 0.2, 1.0]
    constant_only = scores_of(fits[2:], np.array([0, 0, 1]), codes=2).to_json()
    assert constant_only["informativeness_varying"] is None


def test_concentration_of_each_row():
    """(3/4, 1/4) has 0.8112781 bits of 1, a row of nothing counts 0."""
    rows = np.array([[3.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    assert concentrations(rows) == pytest.approx([0.1887219, 1.0, 0.0], abs=1e-7)


def test_wide_factors_are_fitted_a_bounded_number_of_times():
    assert [fits(entries) for entries in (1, 2, 5, 64)] == [5, 10, 25, 25]
