"""The error for a name that a namespace does not have: why it is refused, where it is, or which names are near."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import NoReturn

import numpy as np

from zenith.errors import MissingAttributeError, near_matches, user_line
from zenith.trace.dispatch import refused

_ELSEWHERE = {"random": "draw with zenith.random, whose functions take a key: zenith.random.normal(key, shape)"}


def refuse_name(module: str, name: str, known: Mapping[str, object], submodules: Iterable[ModuleType] = ()) -> NoReturn:
    """MissingAttributeError, an AttributeError, for a name that ``module`` does not have.

    Parameters
    ----------
    module: the namespace, ``zenith.numpy`` or a submodule; NumPy's of the same name may be refused, with a reason.
    known: what it has, by name; of that, modules are no near matches.
    submodules: other namespaces, where it may be.
    """
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if name in _ELSEWHERE:
        raise MissingAttributeError(f"{module} has no {name}", where=user_line(), fix=_ELSEWHERE[name])
    theirs = _numpys(module.removeprefix("zenith.numpy").removeprefix("."), name)
    reason = refused(theirs) if callable(theirs) else None
    if reason is not None:
        why, fix = reason
        raise MissingAttributeError(f"{module} has no {name}: {why}", where=user_line(), fix=fix)
    paths = [f"{submodule.__name__}.{name}" for submodule in submodules if name in getattr(submodule, "__all__", ())]
    public = [n for n, value in known.items() if not n.startswith("_") and not isinstance(value, ModuleType)]
    near = near_matches(name, public, 3, 0.6)
    advice = [f"use {' or '.join(paths)}"] if paths else [f"near matches that are: {', '.join(near)}"] if near else []
    if theirs is not None:
        advice.append(f"NumPy's own {name} is for what is concrete, outside of traced functions")
    fix = "; ".join(advice) or f"write it with functions that are there: dir({module})"
    raise MissingAttributeError(f"{module} has no {name}", where=user_line(), fix=fix)


def _numpys(submodule: str, name: str) -> object:
    """What NumPy has under a name; None for nothing."""
    namespace = getattr(np, submodule, None) if submodule else np
    return getattr(namespace, name, None)
