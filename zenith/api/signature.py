"""Calls and their structure: positional, keyword and static arguments, flattened to named leaves.

A static argument is part of the key of a compilation; everything else is flattened to arrays and numbers. Names come
from the function's own parameters, so that graph inputs, sizes and messages speak the user's language.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from zenith import tree
from zenith.annotations import signature_of
from zenith.api.forms import CallForm, differing, exactly
from zenith.api.leaves import KEYS, check_leaf, dtype_text, leaf_key
from zenith.arrays import adapter_for
from zenith.backends.codec import record
from zenith.errors import ArgumentError, TraceError, integers, user_line
from zenith.trace import TracedSize, Tracer

Names = str | Iterable[str]
Numbers = int | Iterable[int]


@dataclass(frozen=True)
class Call:
    """One call: leaves with their structure (a static argument leaves ``None`` in its place), and static values."""

    args: tuple[object, ...]
    kwargs: dict[str, object]
    leaves: list[object]
    treedef: tree.TreeDef
    static: tuple[tuple[int | str, object], ...]

    @property
    def is_traced(self) -> bool:
        """Whether a leaf belongs to a trace in progress."""
        return any(isinstance(leaf, (Tracer, TracedSize)) for leaf in self.leaves)

    def key(self, names: Callable[[], list[str]]) -> Hashable:
        """What a compilation depends on; flat calls have the short key of the fast path."""
        try:
            keys = tuple([KEYS[type(leaf)](leaf) for leaf in self.leaves])
        except KeyError:
            keys = tuple(leaf_key(leaf, name) for leaf, name in zip(self.leaves, names(), strict=True))
        plain = not self.static and not self.kwargs and len(self.leaves) == len(self.args)
        if plain and all(a is b for a, b in zip(self.leaves, self.args, strict=True)):
            return keys
        static = tuple([(where, exactly(v)) for where, v in self.static])
        named = tuple(self.kwargs) if static and len(self.kwargs) > 1 else ()  # the treedef has no static names
        return CallForm(self.treedef, differing(self.treedef), named, static, tuple([v for _, v in self.static])), keys

    def donated(self, numbers: Collection[int]) -> list[bool]:
        """Which leaves belong to positional arguments of these numbers."""
        static = {where for where, _ in self.static}
        own = [n in numbers for n, a in enumerate(self.args) if n not in static for _ in tree.flatten(a)[0]]
        return own + [False] * (len(self.leaves) - len(own))

    def rebuild(self, leaves: Sequence[object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Positional and keyword arguments with other leaves and the same static values."""
        args, kwargs = tree.unflatten(self.treedef, leaves)
        args = list(args)
        for where, value in self.static:
            if isinstance(where, int):
                args[where] = value
            else:
                kwargs[where] = value
        return tuple(args), {name: kwargs[name] for name in self.kwargs}


class FlatFunction:
    """``function`` from flat leaves to flat results, as tracing wants it; ``treedef`` is the results' structure.

    Arguments that the function has written follow its own results: ``written`` maps these results to leaves, and
    ``returned`` those of its own that are such a leaf; ``in_rows`` are the leaves whose elements must lie row by row.
    """

    def __init__(self, function: Callable[..., object], call: Call, converted: bool = False) -> None:
        """``converted`` functions may change arrays, but not the lists and dicts among their arguments."""
        self._function, self._call, self._converted = function, call, converted
        self.treedef: tree.TreeDef
        self.written: dict[int, int] = {}
        self.returned: dict[int, int] = {}
        self.in_rows: frozenset[int] = frozenset()

    def __call__(self, *leaves: object) -> list[object]:
        args, kwargs = self._call.rebuild(leaves)
        before = tree.flatten((args, kwargs)) if self._converted else None
        found, structure = tree.flatten(self._function(*args, **kwargs))
        results, self.treedef = tree.flatten(tree.unflatten(structure, found))  # lists of converted code are Python's
        if before is not None:
            _check_unchanged(*before, *tree.flatten((args, kwargs)))
        adapters = [adapter_for(r) for r in results]
        flat = [r if a is None else a.numpy(r) for r, a in zip(results, adapters, strict=True)]
        numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer) and leaf.memory.version]
        self.written = {len(flat) + k: i for k, i in enumerate(numbers)}
        self.in_rows = frozenset(i for i in numbers if cast(Tracer, leaves[i]).memory.in_rows)
        self.returned = {k: i for k, r in enumerate(flat) for i in numbers if r is leaves[i]}
        return [*flat, *(leaves[i] for i in numbers)]


def _check_unchanged(
    leaves: Sequence[object], treedef: tree.TreeDef, others: Sequence[object], other: tree.TreeDef
) -> None:
    """TraceError where a function has changed lists, dicts or objects among its arguments: it has copies of these."""
    if treedef != other or any(a is not b for a, b in zip(leaves, others, strict=True)):
        raise TraceError(
            "the function changes a list, dict or object among its arguments, which a compiled one cannot",
            where=user_line(), fix="return what is new, or write into arrays: state['x'][...] = y",
        )  # fmt: skip


@record
@dataclass(frozen=True)
class Signature:
    """A function's name and parameters, and which of them are static.

    ``keywords`` are those that may also be given by name, ``named`` all that may be; ``variadic`` names what takes any
    further positional ones.
    """

    name: str
    positional: list[str]
    keywords: list[str]
    variadic: str
    static_names: frozenset[str] = frozenset()
    static_numbers: frozenset[int] = frozenset()
    donated_numbers: frozenset[int] = frozenset()
    named: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        static_argnums: Numbers = (),
        static_argnames: Names = (),
        donate_argnums: Numbers = (),
    ) -> Signature:
        """The signature of ``function``; TraceError when it has no parameter that is said to be static or donated."""
        parameters = _parameters(function)
        named = cls(
            tree.identifier(getattr(function, "__name__", type(function).__name__)),
            [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
            [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD],
            next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args"),
            named=[p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)],
        )
        names, numbers = named._static(parameters, static_argnums, static_argnames)
        donated = named._numbers(parameters, donate_argnums, "donated")
        if donated & numbers:
            raise TraceError(f"argument {min(donated & numbers)} of {named.name} is static and donated at once",
                             fix="donate arrays; a static argument has no memory to give")  # fmt: skip
        return replace(named, static_names=names, static_numbers=numbers, donated_numbers=donated)

    def of_method(self) -> Signature:
        """The signature without its first parameter, once that is bound to an instance."""
        return replace(
            self,
            positional=self.positional[1:],
            keywords=[n for n in self.keywords if n != self.positional[0]],
            named=[n for n in self.named if n != self.positional[0]],
            static_numbers=frozenset(n - 1 for n in self.static_numbers if n > 0),
            donated_numbers=frozenset(n - 1 for n in self.donated_numbers if n > 0),
        )

    def split(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Call:
        """Flatten a call; keywords that name the next positional parameters move there, so both spellings are one."""
        kwargs = dict(kwargs)
        while len(args) < len(self.positional) and self.positional[len(args)] in kwargs.keys() & set(self.keywords):
            args = (*args, kwargs.pop(self.positional[len(args)]))
        if len(kwargs) > 1:  # what has a name of its own may come in any order, what **kwargs takes may not
            kwargs = {**{name: kwargs[name] for name in self.named if name in kwargs}, **kwargs}
        static: list[tuple[int | str, object]] = [(i, args[i]) for i in sorted(self.static_numbers) if i < len(args)]
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

    def describe(self, call: Call) -> tuple[str, ...]:
        """A call's argument types and static values, for messages: ``x: f32[_, _]``, ``k=3``."""
        words = [f"{path}: {dtype_text(leaf)}" for path, leaf in zip(self.paths(call), call.leaves, strict=True)]
        return (*words, *(f"{self.argument(where)}={value!r}" for where, value in call.static))

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

    def _static(
        self, parameters: Sequence[inspect.Parameter], numbers: Numbers, names: Names
    ) -> tuple[frozenset[str], frozenset[int]]:
        found = self._numbers(parameters, numbers, "static")
        called = _listed_names(names)
        unknown = called - {p.name for p in parameters}
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            raise self._no_argument(parameters, sorted(unknown), "static")
        found |= {i for i, name in enumerate(self.positional) if name in called}
        return frozenset(called | {self.positional[i] for i in found if i < len(self.positional)}), found

    def _numbers(self, parameters: Sequence[inspect.Parameter], numbers: Numbers, what: str) -> frozenset[int]:
        """Numbers of positional arguments, counted from the front."""
        given = integers(numbers, {"static": "static_argnums", "donated": "donate_argnums"}[what])
        found = frozenset(n + len(self.positional) if n < 0 else n for n in given)
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if any(n < 0 or (n >= len(self.positional) and not takes_any) for n in found):
            raise self._no_argument(parameters, [str(n) for n in given], what)
        return found

    def _no_argument(self, parameters: Sequence[inspect.Parameter], wrong: Sequence[str], what: str) -> TraceError:
        return TraceError(f"{self.name} has no argument {', '.join(wrong)} to be {what}", where=user_line(),
                          fix="its arguments are " + ", ".join(p.name for p in parameters))  # fmt: skip

    def _check_hashable(self, where: int | str, value: object) -> None:
        try:
            hash(value)
        except TypeError:
            name = self.argument(where)
            raise TraceError(
                f"the static argument {name} of {self.name} is a {type(value).__name__}, which cannot be hashed",
                fix="pass a hashable value (a tuple instead of a list), or do not declare it static",
            ) from None


def _listed_names(names: Names) -> frozenset[str]:
    """One name or several as a set."""
    found = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not all(isinstance(name, str) for name in found):
        raise ArgumentError(f"static_argnames is {names!r}, no name of an argument", where=user_line(),
                            fix="give a name, or a tuple of names")  # fmt: skip
    return frozenset(found)


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        return list(signature_of(function).parameters.values())
    except (TypeError, ValueError):  # builtins and ufuncs do not say
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
