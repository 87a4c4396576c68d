"""Pictures: nothing is left out for want of room or colour, and names are shown as they are."""

import itertools

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.figure import Figure

from dusdi.evaluation import score_rollout
from dusdi.metrics.dci import NAMES
from dusdi.report import heat_map, score_bars, task_curves, value_histograms
from dusdi.report.curves import Panel, draw_lines, run_curves
from dusdi.report.histograms import _groupings, _most_telling
from dusdi.report.style import bar_look, colour, line_look
from dusdi.rollouts import Rollout
from dusdi.skill_space import Component, SkillSpace
from dusdi.spaces import Box, Categorical
from dusdi.types import Factor, WorldSpec


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would have been saved."""
    figures = []
    monkeypatch.setattr("dusdi.report.style.save", lambda figure, path: figures.append(figure))
    return figures


def toy(names, own=True):
    """Steps in which each component moves a factor, the second entry of it only.

    Components are called like the factors they are meant for, or else are meant for none.
    """
    rng = np.random.default_rng(0)
    skill = np.repeat(rng.integers(5, size=(200, len(names))), 10, axis=0)
    entries = rng.normal(size=(2_000, len(names), 2)) * [1_000.0, 0.1]
    entries[:, :, 1] += skill
    factors = tuple(Factor(name, (2 * i, 2 * i + 1)) for i, name in enumerate(names))
    spec = WorldSpec("toy", {}, 2 * len(names), 1, factors)
    called = [name if own else f"component {name}" for name in names]
    space = SkillSpace(tuple(Component(name, Categorical(5)) for name in called))
    episode = np.repeat(np.arange(20), 100)
    return Rollout(entries.reshape(2_000, -1), skill, episode), spec, space


def test_names_are_shown_as_they_are(tmp_path):
    rollout, spec, space = toy((r"$\frac$", "[/x]"))
    result = score_rollout(rollout, spec, space, seed=0)
    title = r"$\nonsense$ and more $"
    heat_map(result, tmp_path / "dci.png", title)
    value_histograms(rollout, spec, space, tmp_path / "values.png", title)
    assert (tmp_path / "dci.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "values.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("components", "panels"), [(1, 1), (3, 9), (8, 8)])
@pytest.mark.parametrize("planned", [False, True])
def test_where_values_lead_has_room_for_any_number(drawn, components, panels, planned):
    names = [f"factor {i}" for i in range(components)]
    rollout, spec, space = toy(names, own=planned)
    value_histograms(rollout, spec, space, "values.png", "toy")
    shown = [axes for axes in drawn[0].axes if axes.axison]
    assert [len(axes.patches) for axes in shown] == [5] * panels  # a histogram for each value
    titles = [(axes.get_title("left"), float(axes.get_title("right")[:-1])) for axes in shown]
    assert [name for name, share in titles if share > 90] == [f"{name}[1]" for name in names]


def test_the_most_telling_entry_is_the_one_that_the_value_explains():
    """The value has a variance of 2, the entry it moves has 0.01 of its own."""
    rollout, spec, space = toy(["only"])
    (ways,) = _groupings(rollout.skill, space)
    (found,) = _most_telling(ways, rollout.observation, spec.factors)
    assert found.entry == 1 and found.share == pytest.approx(2 / 2.01, abs=0.003)
    (still,) = _most_telling(ways, np.ones((2_000, 2)), spec.factors)
    assert still.share == 0.0


def test_continuous_values_are_grouped_by_thirds_of_the_dimension_that_tells_most():
    rng = np.random.default_rng(1)
    skill = rng.uniform(-1, 1, size=(3_000, 2)).astype(np.float32)
    (ways,) = _groupings(skill, SkillSpace((Component("line", Box(2)),)))
    (found,) = _most_telling(ways, skill[:, 1:], [Factor("line", (0,))])
    low, high = np.quantile(skill[:, 1], (1 / 3, 2 / 3))
    between = f"{low:.2f} to {high:.2f}"
    assert found.names == [f"z[1] < {low:.2f}", between, f"z[1] > {high:.2f}"]
    assert np.bincount(found.group) == pytest.approx([1_000] * 3, abs=1)
    assert found.share == pytest.approx(8 / 9, abs=0.02)  # thirds of a line, each a third as long


def texts_of(figure):
    """The title, the note below all panels, and the legend, as they are drawn."""
    figure.canvas.draw()
    return [figure._suptitle, figure._supxlabel, *figure.legends]


def assert_inside(figure):
    for text in filter(None, texts_of(figure)):
        extent = text.get_window_extent()
        assert extent.x0 >= 0 and extent.x1 <= figure.bbox.width, text


def test_a_picture_of_one_panel_has_room_for_title_note_and_legend(drawn):
    title = "Disentanglement, completeness and informativeness of skills in this world"
    measured = {f"{name}{kind}": 0.5 for name in NAMES for kind in ("", "_paper", "_reference")}
    row = {"world": "toy", "direction": "skills to states", **measured}
    score_bars([{**row, "method": f"method {i}"} for i in range(3)], "bars.png", title)
    rollout, spec, _ = toy(["only"])
    skill = rollout.skill.astype(np.float32) + np.linspace(0, 0.1, 2_000)[:, None]
    space = SkillSpace((Component("only", Box(1)),))
    value_histograms(rollout._replace(skill=skill), spec, space, "values.png", title)
    for figure in drawn:
        assert_inside(figure)


def test_steps_of_short_runs_do_not_run_into_each_other(drawn):
    rows = [{"run": "a", "seed": 0, "step": step, "value": 1.0} for step in range(640, 2_600, 320)]
    run_curves([Panel("toy", "accuracy", None, rows)] * 2, "x.png")
    drawn[0].canvas.draw()
    for axes in drawn[0].axes:
        low, high = axes.get_xlim()
        shown = [
            label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high
        ]
        places = [label.get_window_extent() for label in shown]
        assert len(places) > 1
        assert all(a.x1 + 5 < b.x0 for a, b in itertools.pairwise(places))


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_any_number_of_series_look_different():
    assert len({colour(i) for i in range(50)}) == 50
    looks = [(line_look(i)["linestyle"], line_look(i)["marker"]) for i in range(12)]
    assert looks == [("-", "")] * 4 + [("--", "o")] * 4 + [("-.", "s")] * 4
    assert [bar_look(i)["hatch"] for i in (0, 3, 4, 8)] == ["", "", "//", ".."]


def edges(band):
    """The lower and upper edge of a band, by step in millions."""
    points = band.get_paths()[0].vertices
    steps = sorted(set(points[:, 0]))
    return {x: (min(own), max(own)) for x in steps for own in [points[points[:, 0] == x, 1]]}


def test_every_line_is_the_interquartile_mean_over_seeds_in_a_band_of_95_percent():
    axes = Figure().subplots()
    rows = [
        {"run": f"run {i}", "seed": seed, "step": step, "value": i + value}
        for i in range(9)
        for step in (2_000_000, 1_000_000)
        for seed, value in enumerate([0, 0, 0, 0, 9])
    ]
    draw_lines(axes, rows, "run", "value")
    assert [line.get_label() for line in axes.lines] == [f"run {i}" for i in range(9)]
    assert axes.lines[8].get_xydata().tolist() == [[1.0, 8.0], [2.0, 8.0]]
    # Of five draws three are 9 with a probability of 5.8 %, and four with one of 0.7 %.
    assert edges(axes.collections[8]) == {1.0: (8.0, 14.0), 2.0: (8.0, 14.0)}


def curve(seed, points):
    return [{"run": "a", "seed": seed, "step": s, "value": v} for s, v in points.items()]


def test_seeds_that_were_logged_at_other_steps_are_compared_where_all_have_values():
    axes = Figure().subplots()
    often = {10**6: 5.0, 2 * 10**6: 6.0, 3 * 10**6: 7.0}
    rarely = {2 * 10**6: 0.0, 4 * 10**6: 1.0}
    draw_lines(axes, curve(0, often) + curve(1, rarely), "run", "value")
    # What was logged at step 4 million is the mean of 2 to 4 million, so it counts at 3 million.
    assert axes.lines[0].get_xydata().tolist() == [[2.0, 3.0], [3.0, 4.0]]
    assert edges(axes.collections[0]) == {2.0: (0.0, 6.0), 3.0: (1.0, 7.0)}


def test_a_single_seed_is_a_line_without_a_band():
    axes = Figure().subplots()
    draw_lines(axes, curve(0, {10**6: 5.0, 2 * 10**6: 6.0}), "run", "value")
    assert axes.lines[0].get_ydata().tolist() == [5.0, 6.0] and not axes.collections


def test_seeds_that_share_no_step_have_an_empty_line():
    axes = Figure().subplots()
    draw_lines(axes, curve(0, {1: 5.0}) + curve(1, {2: 6.0}), "run", "value")
    assert axes.lines[0].get_xydata().tolist() == []


def test_bars_of_many_methods_are_all_drawn_and_named(drawn):
    measured = dict.fromkeys(NAMES, 0.5) | {f"{name}_reference": 0.9 for name in NAMES}
    rows = [
        {"world": "toy", "direction": direction, "method": f"method {i}", **measured}
        for direction in ("skills to states", "states to skills")
        for i in range(6)
    ]
    rows[-1] |= dict.fromkeys(NAMES)  # never measured
    score_bars(rows, "bars.png", "toy")
    heights = [[bar.get_height() for bar in axes.patches] for axes in drawn[0].axes]
    assert heights[0] == [0.5] * 18
    assert heights[1][:15] == [0.5] * 15
    assert np.isnan(heights[1][15:]).all()
    named = {*(f"method {i}" for i in range(6)), "scripted reference"}
    assert set(legend_of(drawn[0])) == named


def test_a_method_keeps_its_look_where_another_is_missing(drawn):
    tasks = "abcde"
    ends = [
        {"task": task, "method": method, "scripted_reference": None, "random_skills": None}
        for task in tasks
        for method in ("first", "second")
    ]
    point = {"task": "b", "method": "second", "seed": 0, "return": 1.0}
    rows = [{**point, "step": step} for step in (1, 2)]
    task_curves(rows, ends, "x.png", title="five")
    shown = [axes for axes in drawn[0].axes if axes.axison]
    assert [axes.get_title() for axes in shown] == list(tasks)
    assert matplotlib.colors.to_hex(shown[1].lines[0].get_color()) == colour(1)
    said = [axes.texts[0].get_text() for axes in shown]
    nothing = "no episode ended"
    assert said == [nothing, f"{nothing}: first", nothing, nothing, nothing]
    assert legend_of(drawn[0]) == ["second"]


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_the_title_and_the_legend_of_ten_methods_fit_into_the_picture(drawn, tasks):
    ends = [
        {"task": str(i), "method": f"method {k}", "scripted_reference": 9.0, "random_skills": k}
        for i in range(tasks)
        for k in range(10)
    ]
    named = ("task", "method")
    points = [{key: end[key] for key in named} | {"seed": 0, "return": 1.0} for end in ends]
    rows = [{**point, "step": step} for point in points for step in (1, 2)]
    task_curves(rows, ends, "x.png", title="Figure 4: learning tasks with skills")
    (figure,) = drawn
    figure.draw_without_rendering()
    assert len(legend_of(figure)) == 12
    for part in (figure.legends[0], figure._suptitle):
        box = part.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_each_method_has_its_own_random_skills_in_its_colour(drawn):
    ends = [
        {"task": "a", "method": "first", "scripted_reference": 9.0, "random_skills": 1.0},
        {"task": "a", "method": "second", "scripted_reference": 9.0, "random_skills": 2.0},
        {"task": "a", "method": "flat", "scripted_reference": 9.0, "random_skills": None},
    ]
    task_curves([], ends, "x.png", title="one")
    reference, *floors, _ = drawn[0].axes[0].lines
    assert reference.get_ydata()[0] == 9.0
    found = [(line.get_ydata()[0], line.get_color()) for line in floors]
    assert found == [(1.0, colour(0)), (2.0, colour(1))]
    assert set(legend_of(drawn[0])) == {"scripted reference", "random skills of each method"}
