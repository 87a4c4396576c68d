"""What is said of several tasks: scores by hand, and "ahead" only where intervals say so."""

import pandas as pd
import pytest

from dusdi.experiments.over_tasks import over_tasks


def finals(returns, references):
    """A row for each run: returns by method, task and seed."""
    rows = [
        {"task": task, "method": method, "seed": seed, "return": value}
        | {"scripted_reference": references.get(task)}
        for method, tasks in returns.items()
        for task, values in tasks.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def section(returns, references=()):
    return "\n".join(over_tasks(finals(returns, dict(references))))


def row(text, method):
    line = next(line for line in text.splitlines() if line.startswith(f"| {method} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_scores_are_returns_divided_by_the_tasks_own_reference():
    returns = {
        "ours": {"toy/a": [1.0, 1.0], "toy/b": [80.0, 80.0]},
        "theirs": {"toy/a": [-1.0, 1.0], "toy/b": [40.0, 40.0]},
    }
    text = section(returns, {"toy/a": 10.0, "toy/b": 100.0})
    # Of 0.1, 0.1, 0.8, 0.8 the middle half; drawing seeds within tasks changes nothing.
    assert row(text, "ours") == ["0.45 [0.45, 0.45]", "–"]
    # Of −0.1, 0.1, 0.4, 0.4 it is 0.1 and 0.4. In a, one seed wins and one ties: P is 0.75 and 1,
    # and if −1 or 1 is drawn twice, 1 and 1 or 0.5 and 1.
    assert row(text, "theirs") == ["0.25 [0.15, 0.25]", "0.88 [0.75, 1.00]"]


def test_tasks_without_a_reference_are_left_out_of_scores_and_named():
    returns = {
        "ours": {"toy/a": [5.0, 5.0], "toy/b": [70.0, 70.0]},
        "theirs": {"toy/a": [5.0, 5.0], "toy/b": [1.0, 1.0]},
    }
    text = section(returns, {"toy/a": 10.0})
    assert row(text, "ours") == ["0.50 [0.50, 0.50]", "–"]
    assert row(text, "theirs") == ["0.50 [0.50, 0.50]", "0.75 [0.75, 0.75]"]  # of both tasks
    assert "The score leaves out what has no scripted reference above 0: b." in text
    text = section(returns)
    assert row(text, "theirs") == ["–", "0.75 [0.75, 0.75]"]
    assert "no scripted reference above 0: a, b." in text


def test_worlds_are_apart():
    ours = {"toy/a": [1.0, 1.0], "play/b": [2.0, 2.0]}
    text = section({"ours": ours}, {"toy/a": 1.0, "play/b": 4.0})
    first, second = text.split("### toy")[1].split("### play")
    assert row(first, "ours") == ["1.00 [1.00, 1.00]", "–"]
    assert row(second, "ours") == ["0.50 [0.50, 0.50]", "–"]
    assert "intervals of the return" not in text  # there is nothing to compare with


def test_a_method_that_some_task_is_missing_for_has_no_numbers():
    returns = {
        "ours": {"toy/a": [5.0, 5.0], "toy/b": [5.0, 5.0]},
        "theirs": {"toy/a": [1.0, 1.0]},
        "others": {"toy/a": [1.0, 1.0], "toy/b": [1.0, 1.0]},
    }
    text = section(returns, {"toy/a": 10.0, "toy/b": 10.0})
    assert row(text, "theirs") == ["–", "–"]
    assert row(text, "others") == ["0.10 [0.10, 0.10]", "1.00 [1.00, 1.00]"]
    assert "- theirs: ours is ahead in a." in text
    assert "- ours is ahead of every other method in a." in text


#: Intervals of two seeds span both.
RETURNS = {
    "ours": {"toy/a": [5.0, 7.0], "toy/b": [5.0, 7.0], "toy/c": [5.0, 7.0]},
    "low": {"toy/a": [1.0, 2.0], "toy/b": [1.0, 2.0], "toy/c": [1.0, 2.0]},
    "mixed": {"toy/a": [1.0, 4.9], "toy/b": [1.0, 5.0], "toy/c": [8.0, 9.0]},
}


def test_who_is_ahead_where_is_told_by_intervals():
    text = section(RETURNS)
    assert "- ours is ahead of every other method in a.\n" in text
    assert "- low: ours is ahead in every task." in text
    assert "- mixed: ours is ahead in a; intervals overlap in b; mixed is ahead in c." in text


def test_a_higher_mean_is_not_ahead_while_intervals_overlap():
    text = section({"ours": {"toy/a": [5.0, 70.0]}, "theirs": {"toy/a": [1.0, 6.0]}})
    assert "- theirs: intervals overlap in a." in text
    assert "ahead" not in text
    three = {"ours": {"toy/a": [5.0, 7.0]}} | {m: {"toy/a": [6.0, 9.0]} for m in ("b", "c")}
    text = section(three)
    assert "- In no task is the interval of ours above those of all others." in text
    assert "ahead" not in text


@pytest.mark.parametrize("count", [1, 3])
def test_without_intervals_nothing_can_be_said(count):
    single = {
        method: {f"toy/{i}": [value] for i in range(count)}
        for method, value in (("ours", 9.0), ("theirs", 1.0))
    }
    text = section(single, {"toy/0": 10.0})
    assert row(text, "ours") == ["0.90", "–"] and row(text, "theirs") == ["0.10", "1.00"]
    assert text.endswith("With fewer than two seeds there are no intervals: nothing can be said.")
    assert "ahead" not in text


def test_a_method_with_a_single_seed_is_not_compared():
    text = section({"ours": {"toy/a": [9.0, 9.0]}, "theirs": {"toy/a": [1.0]}})
    assert "- theirs: nothing can be said, for want of seeds, in a." in text
    assert "ahead" not in text


def test_a_reference_that_is_not_above_0_scales_nothing():
    returns = {"ours": {"toy/a": [1.0, 1.0], "toy/b": [-1.0, -1.0], "toy/c": [3.0, 3.0]}}
    text = section(returns, {"toy/a": 0.0, "toy/b": -2.0, "toy/c": 6.0})
    assert "The score leaves out what has no scripted reference above 0: a, b." in text
    assert row(text, "ours") == ["0.50 [0.50, 0.50]", "–"]


def test_rounding_puts_no_method_ahead():
    # The interquartile means of 2 and of 3 seeds of 0.1 are not the same number.
    text = section({"ours": {"toy/a": [0.1] * 3}, "theirs": {"toy/a": [0.1] * 2}}, {"toy/a": 1.0})
    assert "- theirs: intervals overlap in a." in text
