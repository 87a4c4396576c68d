"""How a run in a folder is resumed: what it was, and whether that is what is asked for now."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dusdi import checkpoint
from dusdi.checkpoint import Checkpoint
from dusdi.errors import CheckpointError, UsageError
from dusdi.policy import policy_name, read_description
from dusdi.resolve import USER, Resolved, changed
from dusdi.run import BUILT_ON
from dusdi.settings import without_groups
from dusdi.types import WorldSpec, difference

#: Settings that may change when a run is resumed: it can be made longer.
RESUMABLE = {"steps"}
#: What a run is: the same in config.json and in every checkpoint, but for what may change.
IDENTITY = ("id", "kind", "world", *BUILT_ON)
#: What a description says of how far its run is.
PROGRESS = ("step", "seconds")
#: What a run without a checkpoint takes over from its config.json as it is.
TAKEN_OVER: dict[str, tuple[type, str]] = {
    "id": (str, "a word"),
    "origins": (dict, "a table"),
    "made_with": (list, "a list"),
}


class Previous(NamedTuple):
    """A run that is resumed.

    Attributes:
      settings: as it was begun, but for its length and what was asked for.
      description: what its files say of it.
      found: its newest checkpoint; None if it was stopped before the first one.
    """

    settings: Any
    description: dict[str, Any]
    found: Checkpoint | None


def resumed_settings(previous: Previous) -> Resolved:
    """The settings of a run that is resumed, and where those that differ from defaults come from.

    What changed since it was begun comes from the user.
    """
    before = without_groups(previous.description["settings"])
    now = without_groups(previous.settings.to_json())
    changed_now = [name for name in now if _as_json(now[name]) != _as_json(before.get(name))]
    origins = dict(previous.description.get("origins") or {})
    return Resolved(previous.settings, origins | dict.fromkeys(changed_now, USER))


def find_previous(
    folder: Path | None,
    spec: WorldSpec,
    kind: type,
    fields: Mapping[str, Any],
    words: Mapping[str, str],
    *,
    resume: bool,
    origin: Mapping[str, Any] | None = None,
) -> Previous | None:
    """The run in a folder that is to be resumed; None to begin a new one.

    A run without a checkpoint has nothing to lose, so it may be begun anew.

    Args:
      folder: of the run, if it has one.
      spec: the world that is asked for.
      kind: of settings.
      fields: settings that the user named; they must not contradict the run's but for its length.
      words: the method or agent and the preset that the user named; nor must these.
      resume: whether a run that is there may be resumed.
      origin: the skills or policy that the run builds on; it must build on the same.
    """
    if folder is None:
        return None
    if not resume and checkpoint.newest_first(folder / "checkpoints"):
        raise UsageError(
            f"{folder} already holds a run; resume it with --resume (resume=True), or choose "
            "another folder"
        )
    found = checkpoint.load_newest(folder / "checkpoints")
    if found is None:
        _check_not_foreign(folder / "config.json")
        _check_no_policy(folder)
        if not resume:
            return None
        return _begun(folder / "config.json", spec, kind, fields, words, origin or {})
    settings, theirs = read_settings(found, kind, folder)
    found = _with_written(_with_settings(found, settings), folder / "config.json", settings)
    settings, theirs = read_settings(found, kind, folder)
    _check_own_policies(folder, found.description)
    if _as_json(theirs.to_json()) != _as_json(spec.to_json()):
        raise UsageError(f"{folder} holds a run in another world: {difference(theirs, spec)}")
    if _builds_on(origin or {}) != _builds_on(found.description):
        raise UsageError(
            f"{folder} holds a run that builds on other skills or another policy: those of another "
            f"run, or trained anew since; choose another folder, or remove {folder} to begin anew"
        )
    _check_words(folder, settings, words)
    return Previous(_lengthened(folder, settings, fields), found.description, found)


def read_settings(
    found: Checkpoint, kind: Any, folder: Path | None = None
) -> tuple[Any, WorldSpec]:
    """The settings and the world that a checkpoint names, or a `CheckpointError`."""
    try:
        data = found.description["settings"]
        parts = {"objective", "ppo"} & set(data)
        if folder and parts and not parts & set(kind.__dataclass_fields__):
            raise UsageError(f"{folder} holds a run of another kind; choose another folder")
        return kind.from_json(data), WorldSpec.from_json(found.description["world"])
    except UsageError:
        raise
    except CheckpointError as error:
        raise CheckpointError(f"{found.path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{found.path} does not describe a run: {type(error).__name__}: {error}"
        ) from error


def _check_not_foreign(path: Path) -> None:
    """Raises a `UsageError` if a config.json is there that no run of ours wrote."""
    try:
        text = path.read_text(encoding="utf-8")
        # A power cut may leave an empty file.
        description = json.loads(text) if text.strip() else {"settings": {}, "world": {}}
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{path} can't be read: {error.strerror}; choose another folder"
        ) from error
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or not {"settings", "world"} <= set(description):
        raise UsageError(
            f"{path} is not of a run of dusdi's, and would be overwritten; choose another folder"
        )


def _check_no_policy(folder: Path) -> None:
    """Raises a `UsageError` if a folder without checkpoints has a policy, which would be lost."""
    policies = sorted(folder.glob("policy*.safetensors"))
    if policies:
        raise UsageError(
            f"{folder} holds a policy ({policies[0].name}) but no checkpoint to go on from; choose "
            "another folder, or remove the policy to begin anew"
        )


def _check_own_policies(folder: Path, description: Mapping[str, Any]) -> None:
    """Raises a `UsageError` if a policy of another run is there, which would be overwritten."""
    run = description["settings"]["run"]
    names = {policy_name(run["seeds"], run["seed"] + i) for i in range(run["seeds"])}
    for path in sorted(folder / name for name in names if (folder / name).exists()):
        try:
            theirs = read_description(path)
        except CheckpointError:  # damaged: it is written again
            continue
        if theirs.get("id") != description.get("id"):
            raise UsageError(
                f"{path} is the policy of another run than the one in {folder}, and would be "
                "overwritten; move it to a folder of its own, then resume"
            )


def _begun(
    written: Path,
    spec: WorldSpec,
    kind: Any,
    fields: Mapping[str, Any],
    words: Mapping[str, str],
    origin: Mapping[str, Any],
) -> Previous | None:
    """A run that was stopped before its first checkpoint, if it is the same.

    What is asked for now counts more.
    """
    try:
        description = json.loads(written.read_text(encoding="utf-8"))
        same_world = _as_json(description["world"]) == _as_json(spec.to_json())
        same = same_world and _builds_on(description) == _builds_on(origin)
        settings = kind.from_json(description["settings"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError, CheckpointError):
        return None
    if not same or any(getattr(settings, name) != word for name, word in words.items()):
        return None
    _check_taken_over(written, description)
    begun = {name: value for name, value in description.items() if name not in PROGRESS}
    begun["settings"] = settings.to_json()  # with those that it lacked
    return Previous(changed(settings, fields), begun, None)


def _check_taken_over(written: Path, description: Mapping[str, Any]) -> None:
    """Raises a `CheckpointError` if what a run takes over from its config.json was damaged."""
    for name, (kind, words) in TAKEN_OVER.items():
        if name in description and not isinstance(description[name], kind):
            raise CheckpointError(
                f"{written} is damaged: {name!r} should be {words}, not {description[name]!r}; "
                "remove that file to begin the run anew"
            )


def _with_settings(found: Checkpoint, settings: Any) -> Checkpoint:
    """A checkpoint that names all settings, also those that it lacked."""
    return found._replace(description={**found.description, "settings": settings.to_json()})


def _with_written(found: Checkpoint, written: Path, complete: Any) -> Checkpoint:
    """A checkpoint with what its run's config.json may say differently: how long the run is.

    The file is newer than the checkpoint if the run was made longer and stopped before its next.

    Args:
      found: the checkpoint, which names all settings.
      written: the path of config.json.
      complete: the checkpoint's settings.
    """
    try:
        description = json.loads(written.read_text(encoding="utf-8"))
        settings = description["settings"]
        steps = settings["run"]["steps"]
    except FileNotFoundError:
        return found
    except OSError as error:
        raise CheckpointError(f"{written} can't be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"{written} can't be read ({reason}); using its copy in {found.path.name}",
            stacklevel=2,
        )
        return found
    theirs = found.description
    _check_same_settings(written, found, settings, complete.defaults())
    for name in IDENTITY:
        if _as_json(description.get(name)) != _as_json(theirs.get(name)):
            raise CheckpointError(
                f"{found.path} belongs to another run than {written}: they differ in {name!r}"
            )
    planned = theirs["settings"]["run"]["steps"]
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < planned:
        raise CheckpointError(
            f"{written} says steps = {steps}, but the run was begun with {planned}; put it right, "
            "or remove it"
        )
    run = {**theirs["settings"]["run"], "steps": steps}
    longer = {**theirs["settings"], "run": run}
    return found._replace(description={**theirs, "settings": longer})


def _check_same_settings(
    written: Path, found: Checkpoint, settings: Any, defaults: Mapping[str, Any]
) -> None:
    """Raises a `CheckpointError` if config.json and a checkpoint disagree on a setting.

    What config.json lacks has its default.
    """
    said = without_groups(settings)
    made = without_groups(found.description["settings"])
    for name in dict.fromkeys([*made, *said]):
        ours = said.get(name, defaults.get(name))
        theirs = made.get(name, "nothing")
        if name not in RESUMABLE and _as_json(ours) != _as_json(theirs):
            raise CheckpointError(
                f"{written} says {name} = {said.get(name, 'nothing')}, but {found.path.name} was "
                f"made with {theirs}: one of them was changed or belongs to another run; put it "
                "right, or remove config.json to go on with what the checkpoint says"
            )


def _check_words(folder: Path, settings: Any, words: Mapping[str, str]) -> None:
    for name, word in words.items():
        theirs = getattr(settings, name)
        if theirs != word:
            raise UsageError(
                f"{folder} was run with {name} = {theirs}, not {word}; resume it without that, or "
                "choose another folder"
            )


def _lengthened(folder: Path, settings: Any, fields: Mapping[str, Any]) -> Any:
    """The settings of a run that goes on as it was begun, but for its length."""
    wanted = changed(settings, fields)
    theirs = settings.flat()
    for name, value in wanted.flat().items():
        if name in fields and name not in RESUMABLE and value != theirs[name]:
            raise UsageError(
                f"{folder} was run with {name} = {theirs[name]}, not {value}; resume it without "
                "that, or choose another folder"
            )
    if wanted.run.steps < settings.run.steps:
        raise UsageError(
            f"{folder} was begun with {settings.run.steps:,} steps; it can be made longer but not "
            f"shorter ({wanted.run.steps:,})"
        )
    return wanted


def _builds_on(description: Mapping[str, Any]) -> str:
    """The skills or policy that a run builds on, as text to compare."""
    return _as_json({key: description.get(key) for key in BUILT_ON})


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
