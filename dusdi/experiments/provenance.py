"""Where the numbers of a table come from, and whether they belong together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from dusdi.experiments.jobs import Job
from dusdi.settings import without_groups

if TYPE_CHECKING:
    from dusdi.experiments.records import Record
    from dusdi.experiments.results import Results
    from dusdi.experiments.settings import Cell

#: Settings in which runs of one table differ on purpose.
EXPECTED = {"seed", "method"}
#: Settings that all methods must share, see docs/protocol.md.
EQUAL = {"steps", "skill_length", "decision_length"}


def footer(results: Results) -> list[str]:
    """Returns the lines below a table: how it was made, and what to know before comparing."""
    settings = results.settings
    changes = {**settings.fields, **{f"task {k}": v for k, v in settings.task_fields.items()}}
    changed = "".join(f", {name} {value}" for name, value in changes.items())
    records = list(results.records.values())
    lines = [
        f"Made by `dusdi reproduce {results.name}`, preset `{settings.preset}`{changed}. "
        "Settings, versions and wall times of every job are in `records/`, by its key.",
        "",
        *_versions(records),
    ]
    lines += [f"- {note}" for note in mixed_settings(results.cells)]
    return lines + _missing(results)


def _missing(results: Results) -> list[str]:
    """Returns lines on the worlds or tasks, and their methods, that lack some or all records."""
    shown = {(_place(cell), str(cell.labels["method"])) for cell in results.cells}
    places = {place for place, _ in shown}
    absent: dict[str, dict[str, None]] = {}
    fewer: dict[str, int] = {}
    for cell in results.missing:
        place, method = _place(cell), str(cell.labels["method"])
        if (place, method) in shown:
            fewer[place] = fewer.get(place, 0) + 1
        else:
            absent.setdefault(place, {})[method] = None
    names = [
        f"{place} ({', '.join(methods)})" if place in places else place
        for place, methods in absent.items()
    ]
    counts = [f"{count} in {place}" for place, count in fewer.items()]
    lines = [f"- Not shown, since there are no records: {'; '.join(names)}."] if names else []
    more = f"- Rows have fewer seeds where jobs have no record: {', '.join(counts)}."
    return [*lines, more] if counts else lines


def _versions(records: Iterable[Record]) -> list[str]:
    """Returns lines on commits, cores and versions; a word says so if there are several."""
    found: dict[str, set[str]] = {}
    for record in records:
        for made in _as_list(record.get("made_with")):
            for name, value in made.items():
                found.setdefault(name, set()).add(str(value) or "unknown")
        if record.get("measured_with"):
            found.setdefault("", set()).add(str(record["measured_with"]["commit"]) or "unknown")
    commits = sorted(found.pop("commit", set()))
    measured = sorted(found.pop("", set()))
    lines = []
    if commits:
        lines.append(f"- Trained at commit {', '.join(commits)}.")
    if measured and measured != commits:
        lines.append(f"- Measured at commit {', '.join(measured)}.")
    if len(commits) > 1 or len(measured) > 1:
        lines.append("- **Mixed commits**: parts of this were made by different code.")
    for name, values in found.items():
        if len(values) > 1:
            lines.append(f"- **Mixed {name}**: {', '.join(sorted(values))}.")
    return lines


def mixed_settings(cells: Iterable[Cell]) -> list[str]:
    """Returns what differs in the settings of runs that are compared, a line for each setting.

    Compared are runs of a kind in the same world, or with the same agent on the same task, and
    how they were measured. Methods have settings of their own, but `EQUAL` ones.
    """
    groups: dict[tuple, list[tuple[Cell, Job]]] = {}
    for cell in cells:
        for job in {cell.job.key: cell.job, cell.job.run.key: cell.job.run}.values():
            place = (job.kind, job.environment, str(dict(job.options)), job.request.get("agent"))
            for method in {_method(job), ""}:
                groups.setdefault((*place, method), []).append((cell, job))
    lines: dict[str, None] = {}  # in order, each once
    for (_, environment, _, _, method), members in groups.items():
        own = {_method(job) for _, job in members}
        only = EQUAL if not method and len(own) > 1 else None
        for name, values in _differences(members, only).items():
            said = ", ".join(f"{value} ({'; '.join(labels)})" for value, labels in values.items())
            lines[f"**Mixed settings** in {environment}: {name} {said}."] = None
    return list(lines)


def _method(job: Job) -> str:
    """Returns the method whose settings a job has; nothing for agents over skills and measuring."""
    if job.request.get("agent") == "sac":
        return str(job.inputs[0].request["method"]) if job.inputs else "sac"
    return str(job.request.get("method", ""))


def _differences(
    members: Iterable[tuple[Cell, Job]], only: Collection[str] | None
) -> dict[str, dict[str, list[str]]]:
    """Returns for each setting with several values who has which; `only` some, or all."""
    members = list(members)
    expected = EXPECTED.union(*(cell.varied for cell, _ in members))
    found: dict[str, dict[str, list[str]]] = {}
    for cell, job in members:
        for name, value in without_groups(job.settings).items():
            if name not in expected and (only is None or name in only):
                labels = found.setdefault(name, {}).setdefault(str(value), [])
                label = str(cell.labels["method"])
                labels += [] if label in labels else [label]
    return {name: values for name, values in found.items() if len(values) > 1}


def _place(cell: Cell) -> str:
    """Returns the world or task of a cell, as its rows are labelled."""
    return str(cell.labels.get("task") or cell.labels["world"])


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
