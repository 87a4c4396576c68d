"""DCI: its formulas against matrices worked out by hand, the whole metric on skills whose answer is known."""

import json

import numpy as np
import pytest

from dusdi.errors import UsageError
from dusdi.metrics.dci import (
    MAX_CLASSES,
    bin_inputs,
    completeness,
    component_scores,
    concentrations,
    dci,
    discretise,
    disentanglement,
    importances,
    remarks,
    summary,
)
from dusdi.report import heat_map
from dusdi.types import Factor, WorldSpec, at_chance

EPISODES, WINDOWS, STEPS = 20, 20, 25  # 20 episodes of 20 skill windows of 25 steps
ROWS = EPISODES * WINDOWS * STEPS
EPISODE = np.repeat(np.arange(EPISODES), WINDOWS * STEPS)


def world(*sizes):
    """One controlled factor per size, then a proprioceptive entry."""
    edges = np.cumsum((0, *sizes))
    factors = [
        Factor(f"factor {i}", tuple(range(edges[i], edges[i + 1]))) for i in range(len(sizes))
    ]
    arm = Factor("arm", (int(edges[-1]),), controlled=False)
    return WorldSpec(
        "toy", {}, observation_size=int(edges[-1]) + 1, action_size=1, factors=(*factors, arm)
    )


def draw_skills(rng, components, values=5):
    return np.repeat(rng.integers(values, size=(EPISODES * WINDOWS, components)), STEPS, axis=0)


def observe(rng, places):
    """Noisy observations of where the factors are, and of the arm, which gives the first skill away."""
    return np.concatenate([places + 0.1 * rng.normal(size=places.shape), places[:, :1]], axis=1)


def scores(result):
    return result.disentanglement, result.completeness, result.informativeness


# Disentanglement by rows, completeness by columns.
# mixed: rows (1/2, 1/2) and (0, 1) have entropies 1 and 0 bits. Totals 2 and 1, so D = 2/3 * 0 + 1/3 * 1.
#        Columns: (1, 0) has 0 bits, total 1; (1/2, 1/2) has 1 bit, total 2; so C = 1/3 * 1 + 2/3 * 0.
# shares: row (3/4, 1/4) has 2 - 3/4 log2 3 = 0.8112781 bits, D = 0.1887219. Columns are halves, so C = 0.
# weights: rows (9, 0) and (1/2, 1/2): D = 9/10 * 1 + 1/10 * 0; unweighted it would be 1/2.
#        Columns (18/19, 1/19), total 9.5, entropy 0.2974723 bits, and (0, 1), total 1/2: C = 1 - 0.95 * 0.2974723.
# flat: 2 codes, 4 targets; rows (1/2, 1/2, 0, 0) and (0, 0, 1/2, 1/2) have 1 bit of log2 4 = 2: D = 1/2, C = 1.
# unused: a code without importance has no weight, so D = 0; columns (1/2, 0, 1/2) have log 2 of log 3: C = 0.3690702.
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


def test_cells_are_the_clusters_of_standardised_entries():
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=20_000)  # more than the cells are fitted on
    corners = np.array(
        [[0, 0, 7], [0, 1000, 7], [1, 0, 7], [1, 1000, 7]]
    )  # scales differ, the last entry is constant
    noise = [0.05, 50, 0] * rng.normal(size=(20_000, 3))
    labels = discretise(corners[truth] + noise, 4)
    assert len({*zip(truth, labels, strict=True)}) == 4  # the same partition


def test_rows_with_few_distinct_values_keep_them():
    values = np.array([[0.0, 3.0], [1.0, 3.0], [0.0, 3.0], [5.0, 3.0]], np.float32)
    assert discretise(values, 8).tolist() == [0, 1, 0, 2]
    assert discretise(np.full((6, 2), 0.1, np.float32), 5).tolist() == [0] * 6


def test_cells_can_exceed_the_distinct_rows_of_the_sample(recwarn):
    values = np.zeros((200_000, 1))
    values[:6, 0] = range(
        6
    )  # of six distinct values the sample is unlikely to see more than one or two
    labels = discretise(values, 5)
    assert labels.min() >= 0 and labels.max() < 5
    assert not recwarn


def test_accuracy_is_measured_on_held_out_rows():
    """Each window has a number of its own: easy to learn by heart, no help with the windows held out."""
    rng = np.random.default_rng(0)
    window = np.repeat(np.arange(100.0), 100)[:, None]
    target = np.repeat(rng.integers(2, size=100), 100)
    fit = importances(window, target, np.arange(10_000) >= 8_000, categorical=False)
    assert fit.accuracy == pytest.approx(0.5, abs=0.2)


def test_chance_is_the_held_out_accuracy_of_the_most_frequent_training_value():
    target = np.repeat([0, 1, 0, 1], [300, 500, 120, 80])  # 1 is more frequent, but not held out
    fit = importances(np.zeros((1_000, 1)), target, np.arange(1_000) >= 800, categorical=False)
    assert fit.chance == fit.accuracy == 0.4


def test_binned_inputs_serve_one_target_after_the_other():
    """What is left in them of another target must not change a single bit."""
    rng = np.random.default_rng(9)
    inputs, held_out = rng.normal(size=(2_000, 3)), np.arange(2_000) >= 1_600
    targets = [(inputs[:, i] > 0).astype(int) + rng.integers(i + 1, size=2_000) for i in range(3)]
    binned = bin_inputs(inputs, held_out, categorical=False)
    for target in targets:
        alone = importances(inputs, target, held_out, categorical=False)
        shared = importances(inputs, target, held_out, categorical=False, binned=binned)
        assert shared.gain.tolist() == alone.gain.tolist()
        assert shared[1:] == alone[1:]


def test_whole_episodes_are_held_out():
    """Skill and place are each episode's own: rows of the same episode would give the answer, other episodes can't."""
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(100), 100)
    skills, places = rng.uniform(size=(100, 1, 1))[episode], rng.integers(5, size=(100, 1))[episode]
    result = dci(skills, observe(rng, places), world(1), episode, cells=5)
    assert result.informativeness < 0.5


def test_a_constant_target_gains_nothing():
    inputs, held_out = np.random.rand(100, 2), np.arange(100) < 20
    fit = importances(inputs, np.full(100, 3), held_out, categorical=False)
    assert fit.gain.tolist() == [0.0, 0.0] and fit.accuracy == fit.chance == 1.0


def test_one_component_per_factor_is_disentangled():
    rng = np.random.default_rng(0)
    skills = draw_skills(rng, 3)
    places = np.stack(
        [skills[:, 1], skills[:, 1] ** 2, skills[:, 2], -skills[:, 0]], axis=1
    )  # a permutation
    result = dci(skills, observe(rng, places), world(2, 1, 1), EPISODE, cells=5)
    assert min(*scores(result), *scores(result.states_to_skills)) > 0.95
    assert result.importance.argmax(axis=1).tolist() == [2, 0, 1]
    assert result.states_to_skills.importance.argmax(axis=1).tolist() == [1, 2, 0]
    np.testing.assert_allclose(result.importance.sum(axis=0), 1.0)


def test_factors_that_depend_on_all_components_are_entangled():
    rng = np.random.default_rng(1)
    skills = draw_skills(rng, 3)
    tables = rng.integers(5, size=(3, 5, 5, 5))
    places = np.stack([table[tuple(skills.T)] for table in tables], axis=1)
    result = dci(skills, observe(rng, places), world(1, 1, 1), EPISODE, cells=5)
    assert max(result.disentanglement, result.completeness) < 0.05
    assert max(result.states_to_skills.disentanglement, result.states_to_skills.completeness) < 0.05
    assert result.informativeness > 0.5  # chance .2: the trees did find the tables


def test_unrelated_skills_and_states_score_nothing():
    rng = np.random.default_rng(2)
    result = dci(
        draw_skills(rng, 4), rng.normal(size=(ROWS, 5)), world(1, 1, 1, 1), EPISODE, cells=5
    )
    assert max(scores(result)[:2]) < 0.05 and max(scores(result.states_to_skills)[:2]) < 0.05
    assert result.states_to_skills.informativeness == pytest.approx(0.2, abs=0.05)


def test_two_components_on_one_factor_are_disentangled_but_not_complete():
    """The factor depends on both alike, and nothing else depends on them: D = 1, C = 1 - log 2 / log 3 = .37 for it."""
    rng = np.random.default_rng(3)
    skills = draw_skills(rng, 3, values=2)
    places = np.stack([2 * skills[:, 0] + skills[:, 1], skills[:, 2]], axis=1)
    result = dci(skills, observe(rng, places), world(1, 1), EPISODE, cells=4)
    assert result.importance.shape == (3, 2) and result.states_to_skills.importance.shape == (2, 3)
    assert result.disentanglement > 0.95
    assert result.completeness == pytest.approx((0.369 + 1) / 2, abs=0.03)


def test_continuous_skills():
    rng = np.random.default_rng(4)
    skills = np.repeat(rng.uniform(-1, 1, size=(EPISODES * WINDOWS, 2, 2)), STEPS, axis=0)
    result = dci(skills, observe(rng, 4 * skills.reshape(ROWS, 4)), world(2, 2), EPISODE, cells=4)
    assert result.importance.shape == (2, 2)
    assert min(scores(result)) > 0.8 and min(scores(result.states_to_skills)) > 0.8


def test_constant_entries_and_factors():
    rng = np.random.default_rng(5)
    skills = draw_skills(rng, 2)
    places = np.stack([skills[:, 0], np.full(ROWS, 3), np.full(ROWS, 0.1)], axis=1)
    observations = observe(rng, places)
    observations[:, 1:3] = places[:, 1:3]
    result = dci(skills, observations, world(2, 1), EPISODE, cells=5)
    assert result.importance[:, 1].tolist() == [0.0, 0.0]
    assert result.importance[0, 0] > 0.95 and result.completeness > 0.8


def test_the_same_data_gives_the_same_bits():
    rng = np.random.default_rng(6)
    skills = draw_skills(rng, 2)
    observations = observe(rng, skills + rng.normal(size=(ROWS, 2)))
    first, second = (
        dci(skills, observations, world(1, 1), EPISODE, cells=5, seed=3) for _ in range(2)
    )
    assert first.to_json() == second.to_json()


def test_too_many_skill_values_are_skipped_in_reverse_and_said_so(tmp_path):
    rng = np.random.default_rng(7)
    skills = draw_skills(rng, 1, values=MAX_CLASSES * 2)
    places = np.stack([skills[:, 0] % 2, skills[:, 0] // 2 % 2], axis=1)
    result = dci(skills, observe(rng, places), world(1, 1), EPISODE, cells=2)
    assert scores(result) == pytest.approx((0.0, 1.0, 1.0), abs=0.1)
    assert np.isnan(scores(result.states_to_skills)).all()
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["states_to_skills"]["disentanglement"] is None
    assert result.table().splitlines()[2].split()[-3:] == ["-", "-", "-"]
    assert summary([data, data])["states_to_skills"]["disentanglement_std"] is None
    heat_map(result, tmp_path / "dci.png", "too many")


def test_json_table_summary_and_heat_map(tmp_path):
    rng = np.random.default_rng(8)
    skills = draw_skills(rng, 2)
    result = dci(skills, observe(rng, skills), world(1, 1), EPISODE, cells=5)
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["components"] == ["z1", "z2"] and data["factors"] == ["factor 0", "factor 1"]
    assert data["disentanglement"] == result.disentanglement
    assert np.mean(data["accuracy"]) == result.informativeness
    assert len(data["chance"]) == len(data["states_to_skills"]["chance"]) == 2
    np.testing.assert_array_equal(data["importance"], result.importance)
    np.testing.assert_array_equal(
        data["states_to_skills"]["importance"], result.states_to_skills.importance
    )
    assert f"{result.completeness:.3f}" in result.table()

    both = summary([data, {**data, "disentanglement": data["disentanglement"] - 0.5}])
    assert both["disentanglement"] == pytest.approx(data["disentanglement"] - 0.25)
    assert both["disentanglement_std"] == pytest.approx(0.5 / np.sqrt(2))
    assert "disentanglement_std" not in summary([data])
    other = {**data, "accuracy": [0.0, 0.0]}
    assert summary([data, other])["accuracy"] == [value / 2 for value in data["accuracy"]]

    heat_map(result, tmp_path / "dci.png", "toy")
    assert (tmp_path / "dci.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"skills": np.zeros((ROWS, 2))}, "integers"),
        ({"observations": np.zeros((ROWS, 5))}, "should be"),
        ({"observations": np.full((ROWS, 3), np.nan)}, "finite"),
        ({"episode": np.zeros(ROWS, int)}, "two episodes"),
        ({"cells": 1}, "at least 2"),
    ],
)
def test_unusable_data_is_refused(change, message):
    usable = {
        "skills": np.zeros((ROWS, 2), int),
        "observations": np.zeros((ROWS, 3)),
        "episode": EPISODE,
        "cells": 5,
    }
    with pytest.raises(UsageError, match=message):
        dci(spec=world(1, 1), **{**usable, **change})


# A tenth of the way from .2 to 1 is .28. Of a constant, everything is known.
@pytest.mark.parametrize(
    ("accuracy", "chance", "expected"),
    [(0.2, 0.2, True), (0.27, 0.2, True), (0.29, 0.2, False), (0.1, 0.2, True), (1.0, 1.0, False)],
)
def test_at_chance_is_less_than_a_tenth_of_the_way_to_certainty(accuracy, chance, expected):
    assert at_chance(accuracy, chance) is expected


def test_a_component_without_effect_and_a_constant_factor_are_told_in_words():
    """z2 does nothing, and the third factor never changes."""
    rng = np.random.default_rng(10)
    skills = draw_skills(rng, 3)
    places = np.stack([skills[:, 0], rng.normal(size=ROWS), np.full(ROWS, 7.0)], axis=1)
    observations = observe(rng, places)
    observations[:, 2] = 7.0
    names = ["factor 0", "factor 1", "factor 2"]
    result = dci(skills, observations, world(1, 1, 1), EPISODE, cells=5, own_factors=names)
    report = summary([{"seed": 4, **result.to_json()}, {"seed": 5, **result.to_json()}])
    rows = component_scores(report)
    assert [row.component for row in rows] == ["z1", "z2", "z3"]
    assert [row.factor for row in rows] == names
    assert [row.at_chance for row in rows] == [False, True, True]
    assert rows[0].accuracy > 0.9 and rows[0].factor_accuracy > 0.9
    assert rows[1].chance == pytest.approx(0.2, abs=0.06)
    assert rows[2].factor_accuracy == rows[2].factor_chance == 1.0
    told = remarks(report)
    assert len(told) == 6 and "docs/chance.md" in told[0]
    assert told[0].startswith("z2 (factor 1) is at chance in seed 4")
    assert told[2].startswith("factor factor 2 never changes in seed 4")


def test_components_without_a_factor_of_their_own_are_shown_with_the_one_they_matter_most_to():
    rng = np.random.default_rng(11)
    skills = draw_skills(rng, 2)
    result = dci(skills, observe(rng, skills[:, ::-1]), world(1, 1), EPISODE, cells=5)
    assert [row.factor for row in component_scores(result.to_json())] == ["factor 1", "factor 0"]


def test_concentration_of_each_row():
    """(3/4, 1/4) has 0.8112781 bits of 1, a row of nothing counts 0."""
    rows = np.array([[3.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    assert concentrations(rows) == pytest.approx([0.1887219, 1.0, 0.0], abs=1e-7)


def test_every_target_is_told_of_when_it_is_done():
    rng = np.random.default_rng(12)
    skills, done = draw_skills(rng, 2), []
    dci(skills, observe(rng, skills), world(1, 1), EPISODE, cells=5, advance=done.append)
    assert done == [1, 2, 3, 4]
