"""DCI as a whole, on skills and states whose relation is known."""

import json

import numpy as np
import pytest

from dusdi.errors import UsageError
from dusdi.metrics.dci import component_scores, dci, remarks, summary
from dusdi.metrics.dci.measure import MAX_CLASSES
from dusdi.report import heat_map
from dusdi.types import Factor, WorldSpec, at_chance

EPISODES = 20
WINDOWS = 20  # skills in an episode
STEPS = 25  # of each skill
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
    """Noisy observations of the factors' places, then the arm, which reveals the first skill."""
    return np.concatenate([places + 0.1 * rng.normal(size=places.shape), places[:, :1]], axis=1)


def scores(result):
    return result.disentanglement, result.completeness, result.informativeness


def test_whole_episodes_are_held_out():
    """Each episode has its own skill and place: only rows of the same episode give the answer."""
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(100), 100)
    skills = rng.uniform(size=(100, 1))[episode]
    places = rng.integers(5, size=(100, 1))[episode]
    columns = [("z1", slice(0, 1), None)]
    result = dci(skills, observe(rng, places), world(1), episode, bins=5, components=columns)
    assert result.informativeness < 0.5


def test_one_component_per_factor_is_disentangled():
    rng = np.random.default_rng(0)
    skills = draw_skills(rng, 3)
    # The components control the factors in another order: the second, the third, the first.
    entries = [skills[:, 1], skills[:, 1] ** 2, skills[:, 2], -skills[:, 0]]
    places = np.stack(entries, axis=1)
    result = dci(skills, observe(rng, places), world(2, 1, 1), EPISODE, bins=5)
    assert min(*scores(result), *scores(result.states_to_skills)) > 0.95
    assert result.importance.argmax(axis=1).tolist() == [2, 0, 1]
    assert result.states_to_skills.importance.argmax(axis=1).tolist() == [1, 2, 0]
    np.testing.assert_allclose(result.importance.sum(axis=0), 1.0)


def test_factors_that_depend_on_all_components_are_entangled():
    rng = np.random.default_rng(1)
    skills = draw_skills(rng, 3)
    tables = rng.integers(5, size=(3, 5, 5, 5))
    places = np.stack([table[tuple(skills.T)] for table in tables], axis=1)
    result = dci(skills, observe(rng, places), world(1, 1, 1), EPISODE, bins=5)
    assert max(result.disentanglement, result.completeness) < 0.05
    assert max(result.states_to_skills.disentanglement, result.states_to_skills.completeness) < 0.05
    assert result.informativeness > 0.5  # chance .2: the trees did find the tables


def test_unrelated_skills_and_states_score_nothing():
    rng = np.random.default_rng(2)
    result = dci(
        draw_skills(rng, 4), rng.normal(size=(ROWS, 5)), world(1, 1, 1, 1), EPISODE, bins=5
    )
    assert max(scores(result)[:2]) < 0.05 and max(scores(result.states_to_skills)[:2]) < 0.05
    assert result.states_to_skills.informativeness == pytest.approx(0.2, abs=0.05)


def test_two_components_on_one_factor_are_disentangled_but_not_complete():
    """The factor depends on both alike: C = 1 - log 2 / log 3 = 0.37 for it, while D = 1."""
    rng = np.random.default_rng(3)
    skills = draw_skills(rng, 3, values=2)
    places = np.stack([2 * skills[:, 0] + skills[:, 1], skills[:, 2]], axis=1)
    result = dci(skills, observe(rng, places), world(1, 1), EPISODE, bins=4)
    assert result.importance.shape == (3, 2) and result.states_to_skills.importance.shape == (2, 3)
    assert result.disentanglement > 0.95
    assert result.completeness == pytest.approx((0.369 + 1) / 2, abs=0.03)


def test_continuous_skills():
    rng = np.random.default_rng(4)
    skills = np.repeat(rng.uniform(-1, 1, size=(EPISODES * WINDOWS, 4)), STEPS, axis=0)
    columns = [("a", slice(0, 2), None), ("b", slice(2, 4), None)]
    data = (skills, observe(rng, 4 * skills), world(2, 2), EPISODE)
    result = dci(*data, bins=4, components=columns)
    assert result.components == ("a", "b")
    assert result.importance.shape == (2, 2)
    assert min(scores(result)) > 0.8
    assert min(scores(result.states_to_skills)) > 0.8


def test_categorical_and_continuous_components_can_be_mixed():
    """A box of two numbers, a category and a direction in space, each with a factor of its own.

    The components are listed in another order than their columns, as are their factors.
    """
    rng = np.random.default_rng(13)
    windows = EPISODES * WINDOWS
    box = rng.uniform(-1, 1, size=(windows, 2))
    category = rng.integers(5, size=(windows, 1))
    direction = rng.normal(size=(windows, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    skills = np.repeat(np.concatenate([box, category, direction], axis=1), STEPS, axis=0)
    columns = [
        ("category", slice(2, 3), 5),
        ("box", slice(0, 2), None),
        ("direction", slice(3, 6), None),
    ]
    places = np.concatenate([4 * skills[:, 3:6], skills[:, 2:3], 4 * skills[:, 0:2]], axis=1)
    data = (skills, observe(rng, places), world(3, 1, 2), EPISODE)
    result = dci(*data, bins=5, components=columns)
    assert result.components == ("category", "box", "direction")
    assert result.importance.argmax(axis=1).tolist() == [1, 2, 0]
    assert result.states_to_skills.importance.argmax(axis=0).tolist() == [1, 2, 0]
    assert min(scores(result)) > 0.8
    assert min(scores(result.states_to_skills)) > 0.8
    assert result.accuracy[1] > 0.99  # the category's own factor
    assert result.states_to_skills.accuracy[0] > 0.95


def test_categories_score_the_same_as_integers_and_as_floats():
    rng = np.random.default_rng(14)
    skills = draw_skills(rng, 2)
    data = (observe(rng, skills), world(1, 1), EPISODE)
    columns = [("z1", slice(0, 1), 5), ("z2", slice(1, 2), 5)]
    named = dci(skills.astype(np.float32), *data, bins=5, components=columns)
    assert named.to_json() == dci(skills, *data, bins=5).to_json()


def test_constant_entries_and_factors():
    rng = np.random.default_rng(5)
    skills = draw_skills(rng, 2)
    places = np.stack([skills[:, 0], np.full(ROWS, 3), np.full(ROWS, 0.1)], axis=1)
    observations = observe(rng, places)
    observations[:, 1:3] = places[:, 1:3]
    result = dci(skills, observations, world(2, 1), EPISODE, bins=5)
    assert result.importance[:, 1].tolist() == [0.0, 0.0]
    assert result.importance[0, 0] > 0.95 and result.completeness > 0.8
    assert result.accuracy[1] == 1.0
    assert result.informativeness == (result.accuracy[0] + 1.0) / 2
    assert result.informativeness_varying == result.accuracy[0]


def test_the_same_data_gives_the_same_bits():
    rng = np.random.default_rng(6)
    skills = draw_skills(rng, 2)
    observations = observe(rng, skills + rng.normal(size=(ROWS, 2)))
    data = (skills, observations, world(1, 1), EPISODE)
    first = dci(*data, bins=5, seed=3)
    assert first.to_json() == dci(*data, bins=5, seed=3).to_json()


def test_states_to_skills_is_not_measured_with_too_many_values(tmp_path):
    rng = np.random.default_rng(7)
    skills = draw_skills(rng, 1, values=MAX_CLASSES * 2)
    places = np.stack([skills[:, 0] % 2, skills[:, 0] // 2 % 2], axis=1)
    result = dci(skills, observe(rng, places), world(1, 1), EPISODE, bins=2)
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
    result = dci(skills, observe(rng, skills), world(1, 1), EPISODE, bins=5)
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
        ({"skills": np.zeros((ROWS, 2))}, "name the columns"),
        ({"skills": np.zeros((ROWS, 2, 1))}, r"shape \[n, W\]"),
        ({"components": [("a", slice(0, 2), 3)]}, "'a' should have one column, not 2"),
        ({"components": [("a", slice(2, 3), None)]}, "'a' should have at least one column"),
        ({"skills": np.full((ROWS, 1), 3), "components": [("a", slice(0, 1), 3)]}, "0 to 2"),
        ({"skills": np.full((ROWS, 1), 0.5), "components": [("a", slice(0, 1), 3)]}, "whole"),
        ({"observations": np.zeros((ROWS, 5))}, "should be"),
        ({"observations": np.full((ROWS, 3), np.nan)}, "finite"),
        ({"episode": np.zeros(ROWS, int)}, "two episodes"),
        ({"bins": 1}, "at least 2"),
    ],
)
def test_unusable_data_is_refused(change, message):
    usable = {
        "skills": np.zeros((ROWS, 2), int),
        "observations": np.zeros((ROWS, 3)),
        "episode": EPISODE,
        "bins": 5,
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


def test_remarks_name_components_without_effect_and_constant_factors():
    """z2 does nothing, and the third factor never changes."""
    rng = np.random.default_rng(10)
    skills = draw_skills(rng, 3)
    places = np.stack([skills[:, 0], rng.normal(size=ROWS), np.full(ROWS, 7.0)], axis=1)
    observations = observe(rng, places)
    observations[:, 2] = 7.0
    names = ["factor 0", "factor 1", "factor 2"]
    result = dci(skills, observations, world(1, 1, 1), EPISODE, bins=5, own_factors=names)
    report = summary([{"seed": 4, **result.to_json()}, {"seed": 5, **result.to_json()}])
    rows = component_scores(report)
    assert [row.component for row in rows] == ["z1", "z2", "z3"]
    assert [row.factor for row in rows] == names
    assert [row.at_chance for row in rows] == [False, True, True]
    assert rows[0].accuracy > 0.9 and rows[0].factor_accuracy > 0.9
    assert rows[1].chance == pytest.approx(0.2, abs=0.06)
    assert rows[2].factor_accuracy == rows[2].factor_chance == 1.0
    found = remarks(report)
    assert len(found) == 6 and "docs/chance.md" in found[0]
    assert found[0].startswith("z2 (factor 1) is at chance in seed 4")
    # What is predicted may be a value or a bin: the number is called as in the table.
    shown = f"({rows[1].accuracy:.2f}, chance {rows[1].chance:.2f})"
    assert f"can hardly be predicted from the states {shown}" in found[0]
    assert found[2].startswith("factor factor 2 never changes in seed 4")
    assert f"it is {result.informativeness_varying:.3f}" in found[2]
    assert report["informativeness_varying"] == result.informativeness_varying


def test_components_without_a_factor_of_their_own_are_shown_with_the_one_they_matter_most_to():
    rng = np.random.default_rng(11)
    skills = draw_skills(rng, 2)
    result = dci(skills, observe(rng, skills[:, ::-1]), world(1, 1), EPISODE, bins=5)
    assert [row.factor for row in component_scores(result.to_json())] == ["factor 1", "factor 0"]


def test_progress_is_reported_after_every_target():
    rng = np.random.default_rng(12)
    skills = draw_skills(rng, 2)
    done = []
    dci(skills, observe(rng, skills), world(1, 1), EPISODE, bins=5, advance=done.append)
    assert done == [1, 2, 3, 4]
