"""What the tasks of a world say together: scores over all of them, and which method is ahead where.

The word "ahead" is used only where the intervals of two methods are apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from dusdi.experiments.results import estimate_text, markdown_table, mean_or_none, numbers
from dusdi.metrics.statistics import (
    Estimate,
    estimate,
    estimate_improvement,
    interquartile_mean,
)

Returns = Mapping[str, np.ndarray]  # of the seeds, by task
Estimates = Mapping[str, Mapping[str, Estimate]]  # of the return, by method and task


def over_tasks(finals: pd.DataFrame) -> list[str]:
    """Returns the lines of a section with a part for each world.

    Args:
      finals: a row for each run, with its `task`, `method`, `return` and `scripted_reference`.
    """
    lines = [
        "## Over tasks",
        "",
        "The score is the return divided by the task's scripted reference: 0 is a return of "
        "nothing, and 1 is the reference. Its interquartile mean is over tasks and seeds.",
        "The last column is the probability that a run of the first method has a higher return "
        "than one of this method, the mean over tasks.",
        "Intervals are of 95 %; their bootstrap draws seeds within each task. A method that was "
        "not used on all tasks of a world has no numbers there.",
    ]
    worlds = finals["task"].str.split("/").str[0]
    for world, own in finals.groupby(worlds, sort=False):
        lines += ["", f"### {world}", "", *_world_lines(own)]
    return lines


def _world_lines(finals: pd.DataFrame) -> list[str]:
    """Returns the table of a world, what its scores leave out, and sentences on single tasks."""
    tasks = finals["task"].str.split("/").str[1]
    references = {
        str(task): _scale(own["scripted_reference"])
        for task, own in finals.groupby(tasks, sort=False)
    }
    returns: dict[str, dict[str, np.ndarray]] = {}
    for (method, task), own in finals.groupby(["method", tasks], sort=False):
        returns.setdefault(str(method), {})[str(task)] = numbers(own["return"])
    lines = _table(returns, references)
    left_out = [task for task, reference in references.items() if reference is None]
    if left_out:
        names = ", ".join(left_out)
        lines += ["", f"The score leaves out what has no scripted reference above 0: {names}."]
    return lines + _sentences(returns)


def _scale(references: pd.Series) -> float | None:
    """Returns what a task's returns are divided by: its reference, None if that is not above 0."""
    reference = mean_or_none(references)
    return reference if reference is not None and reference > 0 else None


def _table(returns: Mapping[str, Returns], references: Mapping[str, float | None]) -> list[str]:
    """Returns the lines of a world's table: a row for each method."""
    first = next(iter(returns))
    complete = {method for method, own in returns.items() if len(own) == len(references)}
    rows = []
    for method, own in returns.items():
        score = better = None
        scores = [own[task] / scale for task, scale in references.items() if scale and task in own]
        if method in complete and scores:
            score = estimate(interquartile_mean, *scores)
        if {first, method} <= complete and method != first:
            ours = [returns[first][task] for task in references]
            better = estimate_improvement(ours, [own[task] for task in references])
        rows.append([method, _text(score), _text(better)])
    return markdown_table(["", "score", f"P({first} is better)"], rows)


def _text(found: Estimate | None) -> str:
    return "–" if found is None else estimate_text(found, "z.2f")


def _sentences(returns: Mapping[str, Returns]) -> list[str]:
    """Returns what intervals of the return say of the first method and each of the others."""
    estimates = {
        method: {task: estimate(interquartile_mean, values) for task, values in own.items()}
        for method, own in returns.items()
    }
    first, *others = estimates
    if not others:
        return []
    if not any(found.interval for own in estimates.values() for found in own.values()):
        return ["", "With fewer than two seeds there are no intervals: nothing can be said."]
    lines = [_ahead_of_all(first, others, estimates)] if len(others) > 1 else []
    for other in others:
        lines.append(f"- {other}: {_compare(first, other, estimates)}.")
    return ["", "By the intervals of the return in each task:", "", *lines]


def _ahead_of_all(first: str, others: Sequence[str], estimates: Estimates) -> str:
    """Returns a sentence on the tasks in which the first method is above every other."""
    found = [
        task
        for task, own in estimates[first].items()
        if all(task in estimates[m] and own.is_above(estimates[m][task]) for m in others)
    ]
    if not found:
        return f"- In no task is the interval of {first} above those of all others."
    return f"- {first} is ahead of every other method in {_names(found, estimates[first])}."


def _compare(first: str, other: str, estimates: Estimates) -> str:
    """Returns in which tasks one of two methods is ahead, and in which there is no telling."""
    found: dict[str, list[str]] = {
        f"{first} is ahead in": [],
        "intervals overlap in": [],
        f"{other} is ahead in": [],
        "nothing can be said, for want of seeds, in": [],
    }
    ahead, overlap, behind, unknown = found.values()
    for task, own in estimates[first].items():
        if task not in estimates[other]:
            continue
        theirs = estimates[other][task]
        if own.interval is None or theirs.interval is None:
            unknown.append(task)
        elif own.is_above(theirs):
            ahead.append(task)
        else:
            (behind if theirs.is_above(own) else overlap).append(task)
    said = [f"{w} {_names(tasks, estimates[first])}" for w, tasks in found.items() if tasks]
    return "; ".join(said) or "there is no task that both were used on"


def _names(tasks: Sequence[str], every: Collection[str]) -> str:
    return "every task" if len(tasks) == len(every) > 1 else ", ".join(tasks)
