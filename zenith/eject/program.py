"""The program of an ejected file: its constants, and what one call does, step by step, as Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zenith.backends.cpu.program import Launch, Program, Resize, Step
from zenith.backends.cpu.resizing import offset, stride
from zenith.backends.failures import Failure
from zenith.backends.steps import FIXED, Allocation, BranchStep, LoopStep, PreparedStep, walk
from zenith.eject import runtime
from zenith.eject.interface import BUILTINS, Interface, Writer
from zenith.errors import SourceLine, printable
from zenith.ir.types import ArrayType
from zenith.tree import identifier, unique

KERNELS, PROGRAM = "zenith.eject.made_kernels", "zenith.eject.made_program"
WIDTH = 110
_IMPORTED = frozenset({"np", "cache", "Path", "namedtuple", "math"})
_HELPERS = ("array", "structure", "same", "require", "address", "arena", "vector", "read", "launch", "is_true",
            "number", "branch", "copy", "turns")  # fmt: skip


class ProgramWriter:
    """Writes the module of one program: ``text`` of it, ``locals`` of its functions.

    ``kernels`` has the sizes that each kernel takes after its buffers.
    """

    def __init__(
        self,
        program: Program,
        interface: Interface,
        kernels: Mapping[str, Sequence[str]],
        sources: Mapping[str, Any],
    ) -> None:
        self.program, self.kernels, self._sources = program, kernels, sources
        found = dict.fromkeys(self._allocations())
        indices = {step.index for step in walk(program.steps) if isinstance(step, LoopStep)}
        taken = {*program.symbols, *indices, *kernels, *BUILTINS, *_IMPORTED, interface.name}
        self._variables = dict(
            zip(found, unique([identifier(p.name) for p in found], taken=[*taken, "fixed", "memory"]), strict=True)
        )
        self._count = 0
        self._taken = {*taken, *self._variables.values()}
        mine = {*interface.parameters, interface.variadic, *interface.kwargs, *self._taken}
        own = unique([*_HELPERS, "steps", "constants"], taken=mine)
        self._helpers = dict(zip([*_HELPERS, "steps", "constants"], own, strict=True))
        self.writer = Writer(interface, program.inputs, self._helpers.__getitem__)
        self.results = unique(
            [name for name, _ in program.outputs], taken=[*self.writer.variables, *interface.parameters]
        )
        self.locals = (mine | {*self.results, *self.writer.variables}) - _IMPORTED
        self.interface = interface

    @property
    def public(self) -> str:
        """The name of the public function."""
        return self.interface.name

    def text(self) -> str:
        """The module."""
        called, steps = self._public(), self._steps()
        constants = self._constants() if self._fixed else []
        lines = ['"""The program: the public function, what one call does, and what is read and prepared once."""']
        lines += ["import math"] * self.interface.counts_by_math()
        lines += ["import numpy as np", "from collections import namedtuple", "from functools import cache"]
        lines += ["from pathlib import Path"]
        lines += [f"from {runtime.__name__} import {n} as {self._helpers[n]}" for n in _HELPERS]
        lines += [f"from {KERNELS} import {name}" for name in self.kernels]
        lines += [*self.writer.classes.values(), "", *called, "", *steps, "", *constants]
        return "\n".join(lines) + "\n"

    # --- the public function ---

    def _public(self) -> list[str]:
        program = self.program
        body = [*self.writer.arrays()]
        for name, (_, type) in zip(self.results, program.outputs, strict=True):
            shape = ", ".join(map(str, type.shape)) + "," * (len(type.shape) == 1)
            body.append(f"{name} = np.empty(({shape}), {type.dtype.numpy_name!r})")
        given = [f"{self._helpers['address']}({name})" for name in (*self.writer.variables, *self.results)]
        body += _called(self._helpers["steps"], [*given, *program.symbols])
        result = self.writer.result(self.results)
        head = f"def {self.public}({self.interface.head()}):"
        return [head, *_indented([*self._doc(program.outputs), *body, f"return {result}"])]

    def _doc(self, outputs: Iterable[tuple[str, ArrayType]]) -> list[str]:
        own = [in_docstring(line) for line in self.interface.doc.strip().splitlines()]
        own = own or [f"What {self.public} computes."]
        types = ", ".join(str(type) for _, type in outputs)
        made = [f"Made for {self.writer.accepts()}. Gives {types}.",
                "Raises TypeError for other arguments, ValueError for sizes that do not fit."]  # fmt: skip
        return ['"""' + own[0], *own[1:], "", *map(in_docstring, made), '"""']

    # --- what a call does ---

    def _allocations(self) -> Iterator[Allocation]:
        yield from (Allocation("input", name) for name in self.program.inputs)
        yield from (Allocation("output", name) for name, _ in self.program.outputs)
        for step in walk(self.program.steps):
            yield from () if isinstance(step, Resize) else step.allocations
            if isinstance(step, LoopStep):
                yield from (p for c in step.carries for p in (c.current, c.following))
                yield from (s.element for s in step.slices)
        for prepared in self.program.prepared:
            yield from prepared.launch.allocations

    @property
    def _fixed(self) -> list[Allocation]:
        """The fixed allocations that steps read."""
        return [p for p in dict.fromkeys(p for s in walk(self.program.steps) for p in s.allocations) if p.kind in FIXED]

    def _steps(self) -> list[str]:
        program = self.program
        given = [Allocation("input", n) for n in program.inputs] + [Allocation("output", n) for n, _ in program.outputs]
        head = f"def {self._helpers['steps']}({', '.join([*map(self._at, given), *program.symbols])}):"
        body = ['"""One call, step by step; arguments are addresses of arrays, then sizes."""']
        body += [f"fixed = {self._helpers['constants']}()"] if self._fixed else []
        body += [f'{self._at(p)} = {self._helpers["address"]}(fixed["{self._key(p.name)}"])' for p in self._fixed]
        slots = {p.name: p for step in walk(program.steps) for p in step.allocations if p.kind == "slot"}
        if slots:
            body.append(f"memory, first = {self._helpers['arena']}({program.arena})  # shared by intermediate values")
            offsets = {slot.name: f" + {slot.offset}" if slot.offset != "0" else "" for slot in program.slots}
            body += [f"{self._at(p)} = first{offsets[name]}" for name, p in slots.items()]
        body += self._of_steps(program.steps)
        return [head, *_indented(body)]

    def _at(self, allocation: Allocation) -> str:
        return self._variables[allocation]

    def _of_steps(self, steps: Iterable[Step]) -> list[str]:
        lines = [line for step in steps for line in self._step(step)]
        return lines or ["pass"]

    def _step(self, step: Step) -> list[str]:
        match step:
            case Launch():
                return self._launch(step)
            case LoopStep():
                return self._loop(step)
            case Resize():
                return []  # sizes are expressions here, with the index as a variable
            case BranchStep():
                return self._branch(step)
        raise AssertionError("a program with calls into Python is refused before")

    def _launch(self, launch: Launch) -> list[str]:
        name = launch.kernel.name
        pointers = ", ".join(map(self._at, launch.allocations))
        sizes = ", ".join(self.kernels[name])
        words = [name, launch.tasks, launch.grain, f"[{pointers}]", f"[{sizes}]"]
        words += [repr({f.code: _failure_text(f) for f in launch.failures})] if launch.failures else []
        notes = [f"# {line}" for line in dict.fromkeys(map(_line, launch.lines))]
        return [*notes, *_called(self._helpers["launch"], words)]

    def _loop(self, loop: LoopStep[Step, str]) -> list[str]:
        """Carried values are double-buffered, slices of arrays advance; see ``zenith/backends/cpu/looping.py``."""
        count = self._new("count")
        lines = [f"# {_line(line)}" for line in dict.fromkeys(loop.lines)]
        lines += [f"{count} = {loop.count}"] if loop.count is not None else []
        for c in loop.carries:
            current, following, start, result, other = map(
                self._at, (c.current, c.following, c.start, c.result, c.other)
            )
            first = f"({result} if {count} % 2 else {other})" if loop.count is not None else result
            lines.append(f"{current}, {following} = {start}, {first}")
        lines += [f"{self._at(s.element)} = {self._at(s.whole)} + {offset(loop, s)}" for s in loop.slices]
        body: list[str] = []
        if loop.flag is not None:
            body += [*self._of_steps(loop.condition), f"if not {self._helpers['is_true']}({self._at(loop.flag)}):"]
            body += ["    break"]
        body += self._of_steps(loop.steps)
        for c in loop.carries:
            current, following = self._at(c.current), self._at(c.following)
            body.append(
                f"{current}, {following} = {following}, {self._at(c.result)} + {self._at(c.other)} - {following}"
            )
        body += [f"{self._at(s.element)} += {stride(loop, s)}" for s in loop.slices]
        lines += [self._head(loop, count), *_indented([*self._index(loop, count), *body])]
        for c in loop.carries:
            current, result = self._at(c.current), self._at(c.result)
            lines += [f"if {current} != {result}:", f"    {self._helpers['copy']}({result}, {current}, {c.length})"]
        return lines

    def _head(self, loop: LoopStep[Step, str], count: str) -> str:
        if loop.count is None:
            return f"for {loop.index} in {self._helpers['turns']}():" if loop.index else "while True:"
        return f"for {loop.index or '_'} in range({count}):"

    def _index(self, loop: LoopStep[Step, str], count: str) -> list[str]:
        """The index of a turn where it is not the number of turns before it."""
        if loop.source is not None:
            return [f"{loop.index} = {self._helpers['number']}({self._at(loop.source)})"]
        backwards = loop.index and loop.reverse and loop.count is not None
        return [f"{loop.index} = {count} - 1 - {loop.index}"] if backwards else []

    def _branch(self, branch: BranchStep[Step]) -> list[str]:
        which = self._new("which")
        lines = [f"# {_line(line)}" for line in dict.fromkeys(branch.lines)]
        lines.append(f"{which} = {self._helpers['branch']}({self._at(branch.index)}, {len(branch.branches)})")
        for number, steps in enumerate(branch.branches):
            lines += [f"{'elif' if number else 'if'} {which} == {number}:", *_indented(self._of_steps(steps))]
        return lines

    def _new(self, stem: str) -> str:
        self._count += 1
        (name,) = unique([f"{stem}{self._count}"], taken=self._taken)
        self._taken.add(name)
        return name

    # --- constants ---

    def _constants(self) -> list[str]:
        """The function that returns the arrays that are the same in every call."""
        lines = ["@cache", f"def {self._helpers['constants']}():"]
        body = ['"""Weights and constants, and what is prepared from them once."""']
        types = [f'"{name}": ("{array.dtype}", {array.shape}),' for name, array in self.stored().items()]
        body += ["types = {", *_indented(types), "}"] if types else []
        body.append(
            f'fixed = {self._helpers["read"]}(Path(__file__).with_suffix(".npz"), types)' if types else "fixed = {}"
        )
        for prepared in self.program.prepared:
            body += self._prepared(prepared)
        return [*lines, *_indented([*body, "return fixed"])]

    def stored(self) -> dict[str, Any]:
        """The constants and weights that the NPZ file contains, by name."""
        made = {name for p in self.program.prepared for name, _, _ in p.results}
        used = {p.name for p in self._fixed} | {p.name for q in self.program.prepared for p in q.launch.allocations}
        return {self._key(name): _storable(self._sources[name]) for name in sorted(used - made)}

    def _key(self, name: str) -> str:
        """The key of a fixed allocation: a weight's is its name in the module."""
        return self.program.weights[name].name if name in self.program.weights else name

    def _prepared(self, prepared: PreparedStep[Launch]) -> list[str]:
        launch = prepared.launch
        lines = [f'fixed["{name}"] = {self._helpers["vector"]}({size}, "{_stored_name(dtype.numpy_name)}")'
                 for name, dtype, size in prepared.results]  # fmt: skip
        pointers = ", ".join(f'{self._helpers["address"]}(fixed["{self._key(p.name)}"])' for p in launch.allocations)
        zeros = ", ".join("0" for _ in self.kernels[launch.kernel.name])
        return [
            *lines,
            *_called(
                self._helpers["launch"], [launch.kernel.name, launch.tasks, launch.grain, f"[{pointers}]", f"[{zeros}]"]
            ),
        ]


def _stored_name(dtype: str) -> str:
    """The NumPy type in which elements are stored: bfloat16, which NumPy does not have, as its bits."""
    return dtype if hasattr(np, dtype) else f"uint{8 * np.dtype(dtype).itemsize}"


def _storable(array: Any) -> Any:
    return np.ascontiguousarray(array).view(_stored_name(str(array.dtype))).reshape(array.shape)


def _called(function: str, words: Sequence[str]) -> list[str]:
    line = f"{function}({', '.join(words)})"
    if len(line) <= WIDTH:
        return [line]
    return [f"{function}(", *(f"    {word}," for word in words), ")"]


def in_docstring(text: str) -> str:
    """A text escaped for one line of a docstring, whatever it contains."""
    return printable(text.expandtabs()).replace("\\", "\\\\").replace('"""', "'''")


def _failure_text(failure: Failure) -> str:
    """The text of the error when a check does not hold."""
    why = failure.why or "an index is outside its axis"
    return ": ".join([why, *[" or ".join(map(_line, failure.lines))] * bool(failure.lines)])


def _line(line: SourceLine) -> str:
    return f"{line}: {line.code}" if line.code else str(line)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
