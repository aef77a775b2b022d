"""Settings of the process: read once from environment variables ``ZENITH_*``, changed by assignment.

The number of threads is the thread team's own setting (``ZENITH_NUM_THREADS``), the instruction set the vector
table's (``ZENITH_ISA``).

>>> config = Config.from_environment({"ZENITH_DEBUG": "1", "ZENITH_EXECUTABLES": "8"})
>>> config.debug, config.executables
(True, 8)
>>> config.cach = False
Traceback (most recent call last):
...
zenith.errors.MissingAttributeError: there is no setting cach...
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path

from zenith.errors import MissingAttributeError, ZenithError, near_matches, user_line

PREFIX = "ZENITH_"
# What is no setting: the thread team's and the vector table's variables, then those of the tests.
FURTHER = (
    "NUM_THREADS", "ISA",
    "CONFORMANCE", "FUZZ_FIRST", "FUZZ_PROGRAMS", "GPU", "GPU_PROGRAMS", "RENEW", "TRAINING",
)  # fmt: skip


class ConfigError(ZenithError, ValueError):
    """A setting has a value that it cannot have."""


class ConfigWarning(UserWarning):
    """An environment variable looks like a misspelt setting."""


def default_cache_dir() -> Path | None:
    """Where compiled kernels of this user persist: ``$XDG_CACHE_HOME/zenith``, by default below ``~/.cache``.

    None where the user has no home directory. Relative paths count as none, as the XDG specification asks: they would
    name another folder in each working directory.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "zenith" if base.is_absolute() else None


def _flag(text: str) -> bool:
    values = {"0": False, "false": False, "": False, "1": True, "true": True}
    if text.lower() not in values:
        raise ValueError("must be 0 or 1")
    return values[text.lower()]


def _flag_or_auto(text: str) -> bool | None:
    if text.lower() == "auto":
        return None
    try:
        return _flag(text)
    except ValueError:
        raise ValueError("must be 0, 1 or auto") from None


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError("must be at least 1")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be True or False")
    return value


def _bool_or_none(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError("must be True, False or None")
    return value


def _count(value: object) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise TypeError("must be an integer of at least 1")
    return int(value)


def _path(value: object) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise TypeError("must be a path")
    return Path(value)


def _path_or_none(value: object) -> Path | None:
    return None if value is None else _path(value)


def _all_names(value: object) -> tuple[str, ...]:
    names = _names(value) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not (isinstance(value, Iterable) and all(isinstance(name, str) for name in names)):
        raise TypeError("must be a tuple of names")
    return names


_FLAG = {"read": _flag, "take": _bool}
_COUNT = {"read": _positive, "take": _count}


@dataclass
class Config:
    """All settings; field ``name`` is read from ``ZENITH_NAME``.

    Attributes
    ----------
    debug: verify the graph after every pass (slow).
    cache: store compiled kernels on disk; 0 turns that off.
    cache_dir: where they persist, a folder of this user alone; None, for a user without a home directory, is nowhere.
    cache_bytes: how large it may grow; the least recently used entries are evicted first.
    executables: how many executables one function caches; the least recently used one is evicted first.
    tuned: choose schedules of a GPU's kernels by what was measured on such a GPU; 0 has the cost model alone.
    tuning: a tuning table that is consulted where the cache folder's has no entry: one that is shipped with a program.
    graphs: on a GPU, replay calls whose exact sizes return as CUDA graphs; 0 launches their kernels one by one.
    engines: names of engines, separated by commas, which go before all others wherever they take a group of operations;
        an engine whose name comes with a minus is not asked. ``zenith.kernels.table()`` lists the engines.
    progress: show what a compilation is doing that takes longer than two seconds. None (``auto`` in the environment)
        does so where stderr is a terminal, and in notebooks; True also where it is not known to be one.
    """

    debug: bool = field(default=False, metadata=_FLAG)
    cache: bool = field(default=True, metadata=_FLAG)
    cache_bytes: int = field(default=1 << 30, metadata=_COUNT)
    cache_dir: Path | None = field(default_factory=default_cache_dir, metadata={"read": Path, "take": _path_or_none})
    executables: int = field(default=64, metadata=_COUNT)
    tuned: bool = field(default=True, metadata=_FLAG)
    tuning: Path | None = field(default=None, metadata={"read": Path, "take": _path_or_none})
    graphs: bool = field(default=True, metadata=_FLAG)
    engines: tuple[str, ...] = field(default=(), metadata={"read": _names, "take": _all_names})
    progress: bool | None = field(default=None, metadata={"read": _flag_or_auto, "take": _bool_or_none})

    def __setattr__(self, name: str, value: object) -> None:
        """Change a setting; MissingAttributeError when there is none of that name, ConfigError for a wrong value."""
        settings = {setting.name: setting for setting in fields(self)}
        if name not in settings:
            near = near_matches(name, settings, 3, 0.5)
            raise MissingAttributeError(f"there is no setting {name}", where=user_line(),
                                        fix=f"did you mean {', '.join(near or settings)}?")  # fmt: skip
        try:
            taken = settings[name].metadata["take"](value)
        except TypeError as error:
            raise ConfigError(f"{value!r} is no value for the setting {name}", where=user_line(),
                              fix=f"it {error}") from None  # fmt: skip
        object.__setattr__(self, name, taken)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Config:
        """The settings that the environment variables say; raises ConfigError naming a wrong one."""
        variables = os.environ if environment is None else environment
        found = {}
        for setting in fields(cls):
            name = f"ZENITH_{setting.name.upper()}"
            if not variables.get(name):
                continue  # not set, or set to nothing
            try:
                found[setting.name] = setting.metadata["read"](variables[name])
            except ValueError as error:
                raise ConfigError(f"{name}={variables[name]} is no value for {setting.name}: {error}") from None
        return cls(**found)


def warn_of_misspelt(variables: Iterable[str]) -> None:
    """Warn of environment variables that nothing reads and whose names resemble one that is read."""
    known = [setting.name.upper() for setting in fields(Config)] + list(FURTHER)
    for variable in variables:
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in known and (near := near_matches(name, known, 1, 0.7)):
            what = f"nothing reads the environment variable {variable}\n  fix: did you mean {PREFIX}{near[0]}?"
            warnings.warn(what, ConfigWarning, stacklevel=2)


config = Config.from_environment()
warn_of_misspelt(os.environ)
