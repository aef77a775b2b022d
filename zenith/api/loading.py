"""Loaded functions: what :mod:`zenith.api.saving` wrote, called like the function that was saved.

It has no Python function to trace any more, so a call finds one of the saved programs or is an error that lists them.
Programs run as they did: the same machine code on the same packed arrays, which are read from the mapped file.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zenith.api.binding import Binding
from zenith.api.forms import Form, Result, form_of
from zenith.api.inspection import Inspectable
from zenith.api.leaves import KEYS
from zenith.api.programs import Specialization
from zenith.api.recompilation import broken_assumptions
from zenith.api.saving import SavedFunction, SavedProgram
from zenith.api.specialize import Specializer
from zenith.backends.backend import MISS, CompilationReport, Executable
from zenith.backends.cpu.closed import adopt_runtime
from zenith.backends.table import backend_of
from zenith.cached import cached_property
from zenith.compile import lower_graph
from zenith.errors import ShapeError, TraceError, UnsupportedError, ValueTypeError, ZenithError
from zenith.ir.graph import Graph
from zenith.ir.text import parse
from zenith.tree import flatten


@dataclass
class Saved:
    """Where a loaded program came from. Its graph is read from the text when somebody asks; it has no lines."""

    binding: Binding
    result: Result
    text: str
    specialized: tuple[()] = ()
    residuals: tuple[()] = ()
    loops: tuple[()] = ()
    widenings: tuple[()] = ()
    plan: None = None

    @cached_property
    def graph(self) -> Graph:
        """The graph as it was traced."""
        return parse(self.text)


@dataclass(frozen=True)
class Given:
    """A flattened call: its key in this process, its leaves, and functions that refuse wrong ones and describe all."""

    key: Hashable
    leaves: Sequence[object]
    check: Callable[[], object]
    describe: Callable[[], tuple[str, ...]]


class Loaded(Inspectable, ABC):
    """What :func:`zenith.load` returns; safe to use from several threads."""

    def __init__(self, path: Path, saved: SavedFunction) -> None:
        self.__name__ = saved.name
        self.path = path
        self.given: str | None = None  # what zenith.load was asked for besides the path
        self._signature = saved.signature
        self._has_static = bool(self._signature.static_names or self._signature.static_numbers)
        self._specializer = Specializer(self.__name__)
        self._find_positional, self._inline_cache = self._specializer.find_positional, self._specializer.inline_cache
        self._forms: dict[Form, str] = {}  # the texts of forms that calls had and programs have
        self._kinds = self._key_functions()
        if saved.runtime is not None:
            adopt_runtime(saved.runtime)
        linker = cache(lambda backend: linker_of(backend, path))
        for program in saved.programs:
            self._add(program, linker(program.where.backend))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """The saved function's results.

        Raises TraceError for a call whose structure, types or static values no saved program has, ShapeError for sizes
        that none is valid for.
        """
        answer = self._inline_cache.function
        if answer is not None and not kwargs and (found := answer(*args)) is not MISS:
            return found
        if not (kwargs or self._has_static):
            found = self._find_positional(self._kinds, args)
            if found is not self._specializer:
                return found
        return self._call_any(args, kwargs)

    def __repr__(self) -> str:
        return f"<zenith {self.__name__} loaded from {self.path}>"

    @abstractmethod
    def _key_functions(self) -> Mapping[type, Callable[[object], Hashable]]:
        """How a positional argument of each type is described in keys."""

    @abstractmethod
    def _given(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Sequence[Given]:
        """A flattened call in every form in which programs may take it; the form that messages show comes first."""

    @abstractmethod
    def _result(self, program: SavedProgram) -> Result:
        """What a program returns."""

    def _add(self, program: SavedProgram, link: Callable[[str, object], Executable]) -> None:
        started = time.perf_counter()
        keys = tuple(kind.key for kind in program.leaves)
        origin = Saved(program.binding, self._result(program), program.graph)
        executable = link(program.graph, program.executable)
        seconds = 0.0, time.perf_counter() - started
        made = Specialization(origin, executable, program.leaves, seconds, program.where)
        key = keys if program.form is None else (program.form, keys)
        self._specializer.add(key, program.accepts, made, f"loaded from {self.path}")

    def _call_any(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        candidates = self._given(args, kwargs)
        for given in candidates:
            found = self._specializer.find(self._saved_key(given.key), given.leaves)
            if found is not self._specializer:
                return found
        candidates[0].check()
        raise self._missing(self._saved_key(candidates[0].key), candidates[0])

    def _saved_key(self, key: Any) -> Hashable:
        """A call's key with its form as text, which is the same in every process."""
        form = form_of(key)
        if form is None:
            return key
        if form in self._forms:
            return self._forms[form], key[1]
        try:
            text = form.text()
        except UnsupportedError:
            return key  # no file holds such a form
        if (text, key[1]) in dict(self._specializer.entries()):
            self._forms[form] = text
        return text, key[1]

    def _missing(self, key: Hashable, given: Given) -> ZenithError:
        """The error for a call that no saved program serves."""
        entries = dict(self._specializer.entries())
        saved = "".join(f"\n  saved: ({', '.join(entry.description)})" for entry in entries.values())
        words = given.describe()
        what = f"{self.__name__} was saved without a program for ({', '.join(words)})"
        fix = "have the function called so before it is saved: a loaded one cannot compile"
        if key not in entries:
            alike = words in [entry.description for entry in entries.values()]
            structure = " in this structure: by position or by name, with the keys of dicts in this order"
            structure = structure if alike else ""
            return ValueTypeError(what + structure + saved, fix=fix)
        false = [s.binding.first_false(given.leaves) for s in entries[key].specializations]
        return ShapeError(f"{what} of these sizes: {broken_assumptions(false, ()).why}{saved}", fix=fix)


class LoadedFunction(Loaded):
    """A function that :func:`zenith.jit` compiled and ``save`` wrote."""

    def _key_functions(self) -> Mapping[type, Callable[[object], Hashable]]:
        return KEYS

    def _given(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Sequence[Given]:
        call = self._signature.split(args, kwargs)
        if call.is_traced:
            raise TraceError(f"{self.__name__} was loaded from a file and cannot be traced: it is compiled already",
                             fix="transform or jit the function itself, and save the result")  # fmt: skip
        signature = self._signature
        key = call.key(lambda: signature.paths(call))
        return [Given(key, call.leaves, lambda: signature.check(call), lambda: signature.describe(call))]

    def _result(self, program: SavedProgram) -> Result:
        return Result.of(flatten(program.result)[1], program.numbers, program.of_python)


def linker_of(backend: str, path: Path) -> Callable[[str, object], Executable]:
    """A function that links a backend's programs of a saved file: ``(graph's text, record) -> executable``."""
    files = backend_of(backend).files
    assert files is not None, "a file has programs of backends that save them"
    link = files.reader(path, lambda graph, device, numerics: lower_graph(graph, backend, device, numerics))

    def linked(text: str, program: object) -> Executable:
        executable = link(text, program)
        executable.report = CompilationReport(groups=executable.groups, kernels=list(executable.linked), cached=True)
        return executable

    return linked
