"""Methods by name, each one file: skill discovery, and soft actor-critic on a task's reward.

A method of one's own needs no entry here: name it `package.module:Class`, or hand in the class.
"""

from __future__ import annotations

from dusdi.errors import UsageError, unknown_name
from dusdi.methods.base import Method
from dusdi.methods.checks import check_class
from dusdi.methods.cic import Cic
from dusdi.methods.csd import Csd
from dusdi.methods.diayn import Diayn, DiaynMC
from dusdi.methods.dusdi import Dusdi
from dusdi.methods.elden import Elden
from dusdi.methods.icm import Icm
from dusdi.methods.metra import Metra
from dusdi.methods.rnd import Rnd
from dusdi.methods.sac import Flat
from dusdi.methods.susd import Susd
from dusdi.modules import import_module

#: The register, in the order of tables. Adding a method means a file and a line here.
METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Dusdi,
        Diayn,
        DiaynMC,
        Cic,
        Csd,
        Metra,
        Icm,
        Rnd,
        Elden,
        Flat,
        Susd,
    )
}
_HANDED_IN: dict[str, type[Method]] = {}


def method_name(method: str | type[Method]) -> str:
    """The name by which `find_method` finds a method; a class may be handed in instead."""
    if isinstance(method, str):
        return method
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise UsageError(f"a method is a name or a class of dusdi.Method, not {method!r}")
    if METHODS.get(getattr(method, "name", "")) is method:
        return method.name
    check_class(method)
    name = f"{method.__module__}:{method.__qualname__}"
    _HANDED_IN[name] = method
    return name


def find_method(name: str) -> type[Method]:
    """The method of that name: registered, handed in, or imported as `package.module:Class`."""
    if name in METHODS:
        return METHODS[name]
    if name in _HANDED_IN:
        return _HANDED_IN[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise unknown_name("method", name, METHODS)
    try:
        found = getattr(import_module(module), attribute)
    except (AttributeError, UsageError) as error:
        raise UsageError(
            f"the method {name!r} can't be imported ({error}); name it as package.module:Class"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise UsageError(f"{name!r} is not a class of dusdi.Method")
    check_class(found)
    return found
