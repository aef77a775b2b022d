"""Branches on conditions that the program computes: both sides are traced, and names get the chosen side's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from zenith.control.trees import record
from zenith.convert.bodies import Names, TracedBody, parent
from zenith.convert.sharing import note_branch
from zenith.convert.values import Opened, Unset, common, fitted, keeps_value, kind_of, open_value, same, zeros
from zenith.errors import SourceLine, ValueTypeError, user_line
from zenith.ir.graph import Value
from zenith.ir.primitive import get as primitive
from zenith.ir.types import ArrayType
from zenith.numpy.operands import convert, strong
from zenith.trace.bind import graph_value
from zenith.trace.bodies import close
from zenith.trace.memory import write
from zenith.trace.recorder import resumed
from zenith.trace.size_relations import VaryingSize
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

Side = Callable[[], None]
INT32 = np.dtype(np.int32)


def truth(test: object) -> bool | None:
    """Whether a condition holds, where that is known while tracing; None for one that the program computes."""
    if not isinstance(test, Tracer):
        try:
            return bool(test)
        except VaryingSize:  # of a size that the program computes, or of a turn
            return None
    if test.ndim:
        raise ValueTypeError(
            "the truth of an array with axes is ambiguous", where=user_line(), types=(test.type,),
            fix="use numpy.any or numpy.all of it, or numpy.where to choose elements",
        )  # fmt: skip
    known = test._of_sizes()
    return None if known is None else bool(known)


def branch(test: Tracer | TracedSize, then: Side, orelse: Side, names: Names) -> None:
    """Trace both sides of a branch, record them, and set the names."""
    line, start = user_line(), names.start()
    sides = [TracedBody(word, names) for word in ("else", "then")]
    sides[0].run(orelse, start)
    with test.asked.nonzero(test.dim) if isinstance(test, TracedSize) else nullcontext():
        sides[1].run(then, start)
    test = test.as_array() if isinstance(test, TracedSize) else test
    merged = [
        _Merged(name, no, yes, sides, line)
        for name, no, yes in zip(names.names, sides[0].values, sides[1].values, strict=True)
    ]
    results = _record(test, sides, [plan for m in merged for plan in m.outputs])
    names.set(tuple(m.value(results) for m in merged))


class _Merged:
    """The value of one name after a branch: that of both sides, or arrays that the branch gives."""

    def __init__(
        self, name: str, no: object, yes: object, sides: Sequence[TracedBody], line: SourceLine | None
    ) -> None:
        self.name, self.line = name, line
        self.outputs: list[tuple[ArrayType, bool, list[Value]]] = []
        self._fixed: object = None
        self._form: Opened | None = None
        self._slots: list[Any] = []
        self._sides = [side.recorder for side in sides]
        self._leaves: list[list[object]] = []  # of each output, what the sides give
        if no is yes:
            self._fixed = no
        else:
            self._merge([no, yes], sides)

    def _merge(self, values: list[Any], sides: Sequence[TracedBody]) -> None:
        unset = [v for v in values if isinstance(v, Unset)]
        if len(unset) == 1 and unset[0].is_guarded:
            (other,) = (i for i, v in enumerate(values) if v is not unset[0])
            self._fill(values, other, sides)
            return
        if unset:
            why = "only one side of this branch sets it" if len(unset) == 1 else unset[0].why
            self._fixed = Unset(self.name, unset[0].why or why, self.line)
            return
        opened = [_opened(side, self.name, value) for side, value in zip(sides, values, strict=True)]
        if not opened[0].alike(opened[1]):
            kinds = [kind_of(v) for v in values[::-1]]
            why = f"one side of this branch makes it {kinds[0]}, and the other {kinds[1]}"
            self._fixed = Unset(self.name, why, self.line)
            return
        self._choose(opened, sides)

    def _fill(self, values: list[Any], other: int, sides: Sequence[TracedBody]) -> None:
        """Where one side leaves a name of conversion's own unset, it may hold anything: zeros."""
        found = _opened(sides[other], self.name, values[other])
        self._form = found
        for array, type, weak in zip(found.arrays, found.types, found.weak, strict=True):
            made = [sides[1 - other].output(partial(zeros, type)), sides[other].output(partial(strong, array))]
            self._slots.append(len(self.outputs))
            self.outputs.append((type, weak, made if other else made[::-1]))
            self._leaves.append([array, None] if other == 0 else [None, array])

    def _choose(self, opened: list[Opened], sides: Sequence[TracedBody]) -> None:
        self._form = opened[1]
        rows = zip(*(zip(o.leaves, o.arrays, o.types, o.weak, strict=True) for o in opened), strict=True)
        for row in rows:
            if same(row[0][0], row[1][0]):
                self._slots.append((row[0][0],))
                continue
            type = common(self.name, [(t, w) for _, _, t, w in row])
            if type is None or not all(keeps_value(leaf, weak, type[0]) for leaf, _, _, weak in row):
                types = [str(t) for _, _, t, _ in row][::-1]
                self._form, self.outputs = None, []
                why = f"one side of this branch makes it {types[0]}, and the other {types[1]}"
                why += "" if type is None else f", a number of Python's that {type[0]} need not hold"
                self._fixed = Unset(self.name, why, self.line)
                return
            made = [s.output(partial(fitted, a, type[0])) for s, (_, a, _, _) in zip(sides, row, strict=True)]
            self._slots.append(len(self.outputs))
            self.outputs.append((*type, made))
            self._leaves.append([row[0][0], row[1][0]])

    def value(self, results: list[Any]) -> object:
        """The value, with the results of the branch in the order of ``outputs`` taken from the list."""
        if self._form is None:
            return self._fixed
        own, results[: len(self.outputs)] = results[: len(self.outputs)], []
        for tracer, (_, weak, _), leaves in zip(own, self.outputs, self._leaves, strict=True):
            tracer.weak = weak
            note_branch(tracer, self._sides, leaves)
        return self._form.closed([slot[0] if isinstance(slot, tuple) else own[slot] for slot in self._slots])


def _opened(side: TracedBody, name: str, value: object) -> Opened:
    with resumed(side.recorder):
        return open_value(name, value)


def _record(
    test: Tracer, sides: Sequence[TracedBody], outputs: Sequence[tuple[ArrayType, bool, list[Value]]]
) -> list[Any]:
    """Record the branch; write what its sides wrote, and give its other results."""
    written = {stand.outer.memory: stand.outer for side in sides for stand in side.written()}
    if not outputs and not written:
        return []
    bodies = []
    for number, side in enumerate(sides):
        ends = [side.recorder.stand_in(outer).result for outer in written.values()]
        bodies.append(side.finish([*(made[number] for _, _, made in outputs), *ends]))
    captured = list(dict.fromkeys(value for body in bodies for value in body.captured))
    graphs = tuple(close(body, captured) for body in bodies)
    truths = strong(test) if test.dtype.kind == "b" else np.not_equal(test, 0)
    results = record(primitive("switch"), [convert(strong(truths), INT32), *captured], branches=graphs)
    for outer, result in zip(written.values(), results[len(outputs) :], strict=True):
        write(outer, graph_value(parent(), result))
    return results[: len(outputs)]
