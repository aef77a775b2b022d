"""Settings of the process: read once from environment variables ``ZENITH_*``, changed by assignment.

The number of threads is the thread team's own setting (``ZENITH_NUM_THREADS``), the instruction set the vector
table's (``ZENITH_ISA``).

>>> config = Config.from_environment({"ZENITH_DEBUG": "1", "ZENITH_EXECUTABLES": "8"})
>>> config.debug, config.executables
(True, 8)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from zenith.errors import ZenithError


class ConfigError(ZenithError, ValueError):
    """A setting has a value that it cannot have."""


def default_cache_dir() -> Path:
    """Where compiled kernels of this user persist: ``$XDG_CACHE_HOME/zenith``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zenith"


def _flag(text: str) -> bool:
    values = {"0": False, "false": False, "": False, "1": True, "true": True}
    if text.lower() not in values:
        raise ValueError("must be 0 or 1")
    return values[text.lower()]


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError("must be at least 1")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass
class Config:
    """All settings; field ``name`` is read from ``ZENITH_NAME``.

    Attributes
    ----------
    debug: verify the graph after every pass (slow).
    cache: keep compiled kernels on disk; 0 turns that off.
    cache_dir: where they persist, a folder of this user alone.
    cache_bytes: how large it may grow; what was used longest ago goes first.
    executables: how many executables one function keeps; the least recently used one goes first.
    tuned: choose schedules of a GPU's kernels by what was measured on such a GPU; 0 has the cost model alone.
    tuning: a tuning table that is asked where the cache folder's has nothing: one that is shipped with a program.
    graphs: on a GPU, replay calls whose exact sizes return as CUDA graphs; 0 launches their kernels one by one.
    engines: names of engines, separated by commas, which go before all others wherever they take a group of operations;
        an engine whose name comes with a minus is not asked. ``zenith.kernels.table()`` lists the engines.
    """

    debug: bool = field(default=False, metadata={"read": _flag})
    cache: bool = field(default=True, metadata={"read": _flag})
    cache_bytes: int = field(default=1 << 30, metadata={"read": _positive})
    cache_dir: Path = field(default_factory=default_cache_dir, metadata={"read": Path})
    executables: int = field(default=64, metadata={"read": _positive})
    tuned: bool = field(default=True, metadata={"read": _flag})
    tuning: Path | None = field(default=None, metadata={"read": Path})
    graphs: bool = field(default=True, metadata={"read": _flag})
    engines: tuple[str, ...] = field(default=(), metadata={"read": _names})

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


config = Config.from_environment()
