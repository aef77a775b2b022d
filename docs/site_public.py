"""What is public: the modules that ``zenith`` shows, and the names that each of them shows, for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType

import zenith


def public_names(module: ModuleType) -> list[str]:
    """The names that a module shows, sorted as in an index."""
    shown = dir(module) if "__dir__" in vars(module) else module.__all__
    return sorted((name for name in shown if name[0] != "_"), key=lambda name: (name.casefold(), name))


@cache
def public_modules() -> dict[str, ModuleType]:
    """Every public module by the path under which users import it, the package first."""
    rooms = [room for room, names in zenith.__rooms__.items() if room in names]
    return dict(_modules(zenith, "zenith")) | {f"zenith.{room}": getattr(zenith, room) for room in rooms}


def _modules(module: ModuleType, path: str) -> Iterator[tuple[str, ModuleType]]:
    yield path, module
    for name in public_names(module):
        if isinstance(value := getattr(module, name), ModuleType):
            yield from _modules(value, f"{path}.{name}")


@cache
def public_paths() -> dict[str, object]:
    """Every public name that is no module, by its path, with what it names."""
    return {
        f"{path}.{name}": value
        for path, module in public_modules().items()
        for name in public_names(module)
        if not isinstance(value := getattr(module, name), ModuleType)
    }


@cache
def homes() -> dict[str, str]:
    """For every public path the one that is described: the first, if possible by the name in its definition."""
    found: dict[int, list[str]] = {}
    for path, value in public_paths().items():
        found.setdefault(id(value), []).append(path)
    return {path: min(paths, key=_is_renamed) for paths in found.values() for path in paths}


def _is_renamed(path: str) -> bool:
    return path.rpartition(".")[2] != getattr(public_paths()[path], "__name__", None)


def definition(value: object) -> str | None:
    """Where a function or a class of the project is defined, ``module.name``; None for other objects."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return f"{home}.{name}" if name and home and home.partition(".")[0] == "zenith" else None
