"""Python modules that users name, by their dotted names or as files."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from dusdi.errors import DusdiError, UsageError, WorldError, unknown_name


def import_module(place: str) -> ModuleType:
    """The module called `package.module`, or that of `path/to/file.py`.

    The working folder is looked in first. Raises a `UsageError` if there is no such module, and a
    `WorldError` if it can't be imported.
    """
    is_file = place.endswith(".py")
    file = Path(place).resolve()
    folder, name = (str(file.parent), file.stem) if is_file else (os.getcwd(), place)
    if is_file and not file.exists():
        raise UsageError(f"there is no file {place}")
    if not is_file and not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{place!r} is neither package.module nor path/to/file.py")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(name)
    except DusdiError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"can't import {name}: {error}") from None
        raise WorldError(f"importing {place} failed: {error}") from error
    except Exception as error:
        raise WorldError(f"importing {place} failed: {type(error).__name__}: {error}") from error
    if is_file and Path(module.__file__ or "").resolve() != file:
        raise UsageError(f"there is another module called {name!r}; rename {place}")
    return module


def import_name(text: str) -> Any:
    """What `package.module:name` or `path/to/file.py:name` names."""
    place, _, name = text.rpartition(":")
    module = import_module(place)
    if not hasattr(module, name):
        names = [known for known in vars(module) if not known.startswith("_")]
        raise unknown_name(f"function of {place}:", name, names)
    return getattr(module, name)
