"""From dataclasses of settings to a command line, by tyro.

tyro takes the words apart and lays out help; what a user gave is returned by the names of fields
and nothing else is filled in, so that a value that happens to be the default still counts as asked
for. Words become values here, and mistakes become a `UsageError` of one sentence.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional, UseAppendAction

from dusdi.cli.options import is_flag, is_positional, is_repeated
from dusdi.cli.values import is_texts, metavar, read_value, value_text
from dusdi.errors import UsageError, unknown_name
from dusdi.settings import Group

HELP = ("-h", "--help")


class Section(NamedTuple):
    """Options that stand together in help; those without a title are the command's own."""

    title: str
    kind: type[Group]


def wants_help(words: Sequence[str]) -> bool:
    return any(word in HELP for word in words)


def option_name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def last_value(words: Sequence[str], option: str) -> str | None:
    """The value of an option, before it is known which other options there are."""
    found = None
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            found = words[index + 1]
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


@dataclasses.dataclass(frozen=True)
class Parser:
    """The options of a command.

    Attributes:
      command: its name.
      about: what it does.
      sections: its options; names are unique.
      others: settings that it could have, by name, and what would have them, for messages.
    """

    command: str
    about: str
    sections: Sequence[Section]
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def parse(self, words: Sequence[str], *, complete: bool = True) -> dict[str, Any]:
        """What the user gave, by the names of fields.

        Args:
          words: of the command line; requests for help are passed over.
          complete: whether arguments that are missing are a mistake.
        """
        words = [word for word in words if word not in HELP]
        parsed, unknown = self._call_tyro(words)
        self._check_known(unknown)
        given: dict[str, Any] = {}
        for index, section in enumerate(self.sections):
            part = getattr(parsed, f"section_{index}") if section.title else parsed
            given |= _given(section.kind, part)
        if complete:
            self._check_complete(given)
        return given

    def print_help(self, hints: Mapping[str, str] | None = None) -> None:
        """Prints what the options mean; `hints` say what a setting is if it is not given."""
        plain = io.StringIO()  # tyro colours only what goes to a terminal
        target = plain if "NO_COLOR" in os.environ else sys.stdout
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(target):
            tyro.cli(
                self._dataclass(hints or {}, complete=True),
                prog=f"dusdi {self.command}",
                description=self.about,
                args=["--help"],
            )
        print(plain.getvalue(), end="")

    def _call_tyro(self, words: Sequence[str]) -> tuple[Any, list[str]]:
        """The words in their places, and those that have none."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                return tyro.cli(
                    self._dataclass({}, complete=False),
                    prog=f"dusdi {self.command}",
                    args=words,
                    return_unknown_args=True,
                )
        except SystemExit:
            raise self._error(said.getvalue()) from None

    def _error(self, boxed: str) -> UsageError:
        """What tyro says in a box as one sentence."""
        missing = re.search(r"Missing value for argument\s+'(.+?)'", boxed)
        if missing:
            return UsageError(f"{missing[1].split()[0]} needs a value; see {self._see}")
        text = " ".join(re.sub(r"[^\x20-\x7e]|--+ ", " ", boxed).split())
        return UsageError(f"{text}; see {self._see}")

    @property
    def _see(self) -> str:
        return f"`dusdi {self.command} --help`"

    def _check_known(self, unknown: Sequence[str]) -> None:
        option = next((word.split("=")[0] for word in unknown if word.startswith("-")), None)
        if option is not None:
            owner = self.others.get(option.removeprefix("--").replace("-", "_"))
            if owner:
                raise UsageError(f"{option} is a setting of {owner}; see {self._see}")
            raise unknown_name("option", option, self.option_names())
        if unknown:
            raise UsageError(f"unexpected argument {unknown[0]!r}; see {self._see}")

    def _check_complete(self, given: Mapping[str, Any]) -> None:
        for section in self.sections:
            for name, field in section.kind.fields().items():
                if is_positional(field) and name not in given:
                    shown = field.metadata["metavar"]
                    doc = field.metadata["doc"]
                    raise UsageError(f"{shown} is missing: {doc}; see {self._see}")

    def option_names(self) -> list[str]:
        """All options as they are written."""
        names = ["--help"]
        for section in self.sections:
            fields = section.kind.fields().items()
            names += [option_name(name) for name, field in fields if not is_positional(field)]
        return names

    def _dataclass(self, hints: Mapping[str, str], *, complete: bool) -> Any:
        """The dataclass that tyro makes a parser of; titled sections are dataclasses inside it."""
        fields: list[Any] = []
        for index, section in enumerate(self.sections):
            inside = [
                _field(section, name, hints, complete=complete) for name in section.kind.fields()
            ]
            if not section.title:
                fields += inside
                continue
            nested = dataclasses.make_dataclass(f"Section{index}", inside, kw_only=True)
            typed = Annotated[nested, tyro.conf.arg(name=section.title)]  # type: ignore[valid-type]
            default = dataclasses.field(default_factory=nested)
            fields.append((f"section_{index}", typed, default))
        made = dataclasses.make_dataclass("Words", fields, kw_only=True)
        made.__doc__ = ""
        return made


def _field(
    section: Section, name: str, hints: Mapping[str, str], *, complete: bool
) -> tuple[str, Any, Any]:
    """A field whose value is the words that were given for it, or nothing."""
    field = section.kind.fields()[name]
    annotation = section.kind.types()[name]
    about: dict[str, Any] = {"help": field.metadata["doc"], "prefix_name": False}
    about["help_behavior_hint"] = hints.get(name, _default_hint(field))
    if annotation is not bool:
        about["metavar"] = field.metadata.get("metavar", metavar(annotation))
    config = tyro.conf.arg(**about)
    unset = dataclasses.field(default=None)
    empty: Any = dataclasses.field(default_factory=list)
    if is_positional(field):
        kind = list[str] if is_texts(annotation) else str
        if complete:  # only to be shown
            return name, Annotated[kind, Positional, config], dataclasses.field()
        return name, Annotated[kind | None, Positional, DisallowNone, config], unset
    if is_flag(field):
        return name, Annotated[bool, FlagCreatePairsOff, config], dataclasses.field(default=False)
    if annotation is bool:
        return name, Annotated[bool | None, DisallowNone, config], unset
    if is_repeated(field):
        return name, Annotated[list[str], UseAppendAction, config], empty
    if is_texts(annotation):
        return name, Annotated[list[list[str]], UseAppendAction, config], empty
    return name, Annotated[str | None, DisallowNone, config], unset


def _default_hint(field: dataclasses.Field) -> str:
    """What help says of a setting that is not given, if there is something to say."""
    if is_positional(field):
        return "(required)"
    empty = field.default in ("", ()) or is_flag(field)
    return "" if empty else f"(default: {value_text(field.default)})"


def _given(kind: type[Group], parsed: Any) -> dict[str, Any]:
    """The values that were given for the fields of a section."""
    given = {}
    for name, annotation in kind.types().items():
        words = getattr(parsed, name)
        field = kind.fields()[name]
        if words is None or words == [] or (is_flag(field) and not words):
            continue
        if is_texts(annotation):
            entries = [
                word for part in words for word in ([part] if isinstance(part, str) else part)
            ]
            if not entries:
                raise UsageError(f"{option_name(name)} needs a value")
            given[name] = tuple(entries)
        elif annotation is bool:
            given[name] = words
        else:
            given[name] = read_value(option_name(name), annotation, words)
    return given
