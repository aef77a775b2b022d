"""Calls and their structure: positional, keyword and static arguments, flattened to named leaves.

A static argument is part of the key of a compilation; everything else is flattened to arrays and numbers. Names come
from the function's own parameters, so that graph inputs, sizes and messages speak the user's language.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith import tree
from zenith.api.leaves import KEYS, check_leaf, leaf_key
from zenith.arrays import adapter_for
from zenith.errors import TraceError

Names = str | Iterable[str]
Numbers = int | Iterable[int]


@dataclass(frozen=True)
class Call:
    """One call: leaves with their structure (a static argument leaves ``None`` in its place), and static values."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    treedef: tree.TreeDef
    static: tuple[tuple[int | str, Any], ...]

    def key(self, names: Callable[[], list[str]]) -> Hashable:
        """What a compilation depends on; flat calls have the short key of the fast path."""
        try:
            keys = tuple([KEYS[type(leaf)](leaf) for leaf in self.leaves])
        except KeyError:
            keys = tuple(leaf_key(leaf, name) for leaf, name in zip(self.leaves, names(), strict=True))
        plain = not self.static and not self.kwargs and len(self.leaves) == len(self.args)
        if plain and all(a is b for a, b in zip(self.leaves, self.args, strict=True)):
            return keys
        return self.treedef, tuple((where, type(v), v) for where, v in self.static), keys

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with other leaves and the same static values."""
        args, kwargs = tree.unflatten(self.treedef, leaves)
        args = list(args)
        for where, value in self.static:
            if isinstance(where, int):
                args[where] = value
            else:
                kwargs[where] = value
        return tuple(args), kwargs


class FlatFunction:
    """``function`` from flat leaves to flat results, as tracing wants it; ``treedef`` is the results' structure."""

    def __init__(self, function: Callable[..., Any], call: Call) -> None:
        self._function, self._call = function, call
        self.treedef: tree.TreeDef

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = self._call.rebuild(leaves)
        results, self.treedef = tree.flatten(self._function(*args, **kwargs))
        adapters = [adapter_for(r) for r in results]
        return [r if a is None else a.numpy(r) for r, a in zip(results, adapters, strict=True)]


class Signature:
    """The parameters of ``function``, and which of them are static."""

    def __init__(self, function: Callable[..., Any], static_argnums: Numbers = (), static_argnames: Names = ()) -> None:
        self.name = tree.identifier(getattr(function, "__name__", type(function).__name__))
        self.parameters = _parameters(function)
        self.positional = [p.name for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.keywords = [p.name for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.variadic = next((p.name for p in self.parameters if p.kind is p.VAR_POSITIONAL), "args")
        self.static_names, self.static_numbers = self._static(static_argnums, static_argnames)

    def of_method(self) -> Signature:
        """The signature without its first parameter, once that is bound to an instance."""
        bound = copy.copy(self)
        bound.positional, bound.keywords = self.positional[1:], [n for n in self.keywords if n != self.positional[0]]
        bound.static_numbers = frozenset(n - 1 for n in self.static_numbers if n > 0)
        return bound

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Flatten a call; keywords that name the next positional parameters move there, so both spellings are one."""
        kwargs = dict(kwargs)
        while len(args) < len(self.positional) and self.positional[len(args)] in kwargs.keys() & set(self.keywords):
            args = (*args, kwargs.pop(self.positional[len(args)]))
        static: list[tuple[int | str, Any]] = [(i, args[i]) for i in sorted(self.static_numbers) if i < len(args)]
        static += [(n, kwargs[n]) for n in sorted(self.static_names) if n in kwargs]
        for where, value in static:
            self._check_hashable(where, value)
        dynamic = tuple(None if i in self.static_numbers else a for i, a in enumerate(args)) if static else args
        rest = {n: v for n, v in kwargs.items() if n not in self.static_names}
        leaves, treedef = tree.flatten((dynamic, rest))
        return Call(args, kwargs, leaves, treedef, tuple(static))

    def paths(self, call: Call) -> list[str]:
        """How the user would write each leaf: ``x``, ``params["w"]``, ``args[1]``."""
        return [self._path(path) for path in tree.paths(call.treedef)]

    def check(self, call: Call) -> list[str]:
        """The paths of the leaves, after refusing every leaf that Zenith cannot compute with."""
        paths = self.paths(call)
        for leaf, path in zip(call.leaves, paths, strict=True):
            check_leaf(leaf, path)
        return paths

    def _path(self, path: str) -> str:
        number = re.match(r"\[0\]\[(\d+)\]", path)
        if number:
            return self.argument(int(number[1])) + path[number.end() :]
        name = re.match(r'\[1\]\["(\w+)"\]', path)
        return name[1] + path[name.end() :] if name else path

    def argument(self, position: int | str) -> str:
        """The name of an argument, given by position or by name."""
        if isinstance(position, str):
            return position
        if position < len(self.positional):
            return self.positional[position]
        return f"{self.variadic}[{position - len(self.positional)}]"

    def _static(self, numbers: Numbers, names: Names) -> tuple[frozenset[str], frozenset[int]]:
        count = len(self.positional)
        given = [numbers] if isinstance(numbers, int) else list(numbers)
        found = {n + count if n < 0 else n for n in given}
        called = {names} if isinstance(names, str) else set(names)
        unknown = called - {p.name for p in self.parameters}
        takes_any = any(p.kind is p.VAR_KEYWORD for p in self.parameters)
        if (unknown and not takes_any) or any(n < 0 for n in found):
            wrong = sorted(unknown) or [str(n) for n in given]
            raise TraceError(f"{self.name} has no argument {', '.join(wrong)} to be static",
                             fix="its arguments are " + ", ".join(p.name for p in self.parameters))  # fmt: skip
        found |= {i for i, name in enumerate(self.positional) if name in called}
        return frozenset(called | {self.positional[i] for i in found if i < count}), frozenset(found)

    def _check_hashable(self, where: int | str, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            name = self.argument(where)
            raise TraceError(
                f"the static argument {name} of {self.name} is a {type(value).__name__}, which cannot be hashed",
                fix="pass a hashable value (a tuple instead of a list), or do not declare it static",
            ) from None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins and ufuncs do not say
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
