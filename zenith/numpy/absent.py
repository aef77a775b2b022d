"""What the error for a name that a namespace has not says: why it is refused, where it is, or which names are near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from zenith.errors import MissingAttributeError, user_line
from zenith.trace.dispatch import refused

_ELSEWHERE = {"random": "draw with zenith.random, whose functions take a key: zenith.random.normal(key, shape)"}


def refuse_name(module: str, name: str, known: Mapping[str, Any], chapters: Iterable[ModuleType] = ()) -> NoReturn:
    """MissingAttributeError, an AttributeError, for a name that ``module`` has not.

    Parameters
    ----------
    module: the namespace, ``zenith.numpy`` or a chapter of it; NumPy's of the same name may be refused, with a reason.
    known: what stands in it under names, of which modules are no function.
    chapters: other modules, where it may be.
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
    places = [f"{chapter.__name__}.{name}" for chapter in chapters if name in getattr(chapter, "__all__", ())]
    public = [n for n, value in known.items() if not n.startswith("_") and not isinstance(value, ModuleType)]
    near = difflib.get_close_matches(name, public, n=3, cutoff=0.6)
    advice = [f"use {' or '.join(places)}"] if places else [f"near matches that are: {', '.join(near)}"] if near else []
    if theirs is not None:
        advice.append(f"NumPy's own {name} is for what is concrete, outside of traced functions")
    fix = "; ".join(advice) or f"write it with functions that are there: dir({module})"
    raise MissingAttributeError(f"{module} has no {name}", where=user_line(), fix=fix)


def _numpys(chapter: str, name: str) -> Any:
    """What NumPy has under a name; None for nothing."""
    place = getattr(np, chapter, None) if chapter else np
    return getattr(place, name, None)
