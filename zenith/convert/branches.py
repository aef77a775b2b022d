"""Branches on conditions that the program computes: both sides are traced, and names get the chosen side's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from zenith.control.trees import record
from zenith.convert.bodies import Names, TracedBody, parent
from zenith.convert.bounded import Carried, common_space, counted_size, differ, larger_of, own_sizes, padded, taken
from zenith.convert.chosen import Choices
from zenith.convert.conditions import asked, granted, note_choice
from zenith.convert.list_items import Rows, need_plain_lists
from zenith.convert.list_names import stacking, with_lists
from zenith.convert.optional import granting, is_mixed, lifted, number_type, present, settled
from zenith.convert.sharing import note_branch
from zenith.convert.values import Opened, Unset, common, is_made, keeps_value, kind_of, open_value, same, zeros
from zenith.errors import SourceLine, user_line
from zenith.ir.bounds import extremes
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Value
from zenith.ir.primitive import get as primitive
from zenith.ir.types import ArrayType
from zenith.numpy.operands import convert, strong
from zenith.numpy.typing import Array
from zenith.trace.bind import b, graph_value
from zenith.trace.bodies import close
from zenith.trace.memory import write
from zenith.trace.recorder import resumed
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

Side = Callable[[], None]
INT32 = np.dtype(np.int32)


def branch(test: object, then: Side, orelse: Side, names: Names) -> None:
    """Trace both sides of a branch on what only the program knows, record them, and set the names."""
    test = asked(test)
    assert isinstance(test, (Tracer, TracedSize))
    chosen = Choices()
    stacking(lambda: _branch(test, then, orelse, with_lists(names, names.names), chosen), parent().assumptions)
    chosen.note()


def _branch(test: Tracer | TracedSize, then: Side, orelse: Side, names: Names, chosen: Choices) -> None:
    line, start = user_line(), names.start()
    sides = [TracedBody(word, names) for word in ("else", "then")]
    with granted(test, False), granting(test, False):
        sides[0].run(orelse, start)
    with granted(test, True), granting(test, True):
        sides[1].run(then, start)
    asked = test
    test = test.as_array() if isinstance(test, TracedSize) else test
    sizes = _Sizes(sides)
    merged = [
        _Merged(name, settled(no, present(asked, False)), settled(yes, present(asked, True)), sizes, line)
        if no is not yes
        else _Merged(name, no, yes, sizes, line)
        for name, no, yes in zip(names.names, sides[0].values, sides[1].values, strict=True)
    ]
    counts = sizes.outputs()
    results = _record(test, sides, [*counts, *(output.made for m in merged for output in m.outputs)])
    known, results = sizes.known(results[: len(counts)]), results[len(counts) :]
    values = tuple(m.value(results, known) for m in merged)
    for value, no, yes in zip(values, sides[0].values, sides[1].values, strict=True):
        note_choice(value, test, no, yes)
    names.set(values)
    chosen.add(values, sides[0].values, sides[1].values)


def _unlike(name: str, values: Sequence[object], opened: Sequence[Opened], line: SourceLine | None) -> Unset:
    """The value of a name that the sides of a branch give values of other kinds."""
    for inner in (r for o in opened for r in o.rest if isinstance(r, Unset)):
        return Unset(name, f"{inner.name} is in it, and {inner.why or 'nothing has set it'}", inner.line or line)
    kinds = [kind_of(v) for v in values]
    if kinds[0] == kinds[1]:
        kinds = [o.text() for o in opened]
    if kinds[0] == kinds[1]:
        kinds[1] = "another one"
    return Unset(name, f"one side of this branch makes it {kinds[0]}, and the other {kinds[1]}", line)


class _Sizes:
    """Sizes that differ between the sides of a branch, which are counted: a pair of them, and a bound, for each."""

    def __init__(self, sides: Sequence[TracedBody]) -> None:
        self.sides = sides
        self.pairs: list[tuple[Dim, Dim]] = []
        self.bounds: list[Dim] = []

    def number(self, no: Dim, yes: Dim) -> int:
        """The number of the count of a pair, which arrays may share."""
        if (no, yes) not in self.pairs:
            most = [extremes(n, own_sizes(s.recorder))[1] for n, s in zip((no, yes), self.sides, strict=True)]
            self.pairs.append((no, yes))
            self.bounds.append(larger_of(parent(), *most))
        return self.pairs.index((no, yes))

    def met(self, name: str, types: Sequence[ArrayType], weak: Sequence[bool], space: Dim | None) -> Carried | None:
        """How an array is given that has one type on each side; None where they do not fit together."""
        if types[0].rank != types[1].rank:
            return None
        pairs = [tuple(map(parent().canonical, pair)) for pair in zip(*(t.shape for t in types), strict=True)]
        counted = {axis: self.number(*pair) for axis, pair in enumerate(pairs) if differ(parent(), *pair)}
        found = common(name, [(type.with_shape(types[0].shape), w) for type, w in zip(types, weak, strict=True)])
        return None if found is None else Carried.of(*found, counted, space)

    def filled(self, type: ArrayType, weak: bool, side: int) -> Carried:
        """How an array is given that only one side has; sizes that are known there alone are 0 on the other one."""
        own = own_sizes(self.sides[side].recorder)
        pairs = [(size, dim(0)) if side == 0 else (dim(0), size) for size in map(parent().canonical, type.shape)]
        counted = {axis: self.number(*pair) for axis, pair in enumerate(pairs) if pair[side].symbols() & own.keys()}
        return Carried.of(type, weak, counted)

    def outputs(self) -> list[list[Value]]:
        """The numbers that the sides give."""
        return [
            [side.output(partial(b.size, value=size)) for side, size in zip(self.sides, pair, strict=True)]
            for pair in self.pairs
        ]

    def known(self, counts: Sequence[Tracer]) -> list[Dim]:
        """The sizes after the branch, which gives the counts."""
        return [counted_size(parent(), c.value, bound) for c, bound in zip(counts, self.bounds, strict=True)]


@dataclass(frozen=True)
class _Output:
    """An array that a branch gives: how, and what its sides make of it, as values and as leaves."""

    carried: Carried
    made: list[Value]
    leaves: Sequence[object]


class _Merged:
    """The value of one name after a branch: that of both sides, or arrays that the branch gives."""

    def __init__(self, name: str, no: object, yes: object, sizes: _Sizes, line: SourceLine | None) -> None:
        self.name, self.line = name, line
        self.outputs: list[_Output] = []
        self._fixed: object = None
        self._form: Opened | None = None
        self._slots: list[int | tuple[object]] = []
        self._sizes, self._sides = sizes, sizes.sides
        left = [side.recorder.diverged for side in sizes.sides]
        self._left = left.index(True) if left[0] != left[1] and not is_made(name) else None
        if no is yes:
            self._fixed = no
        else:
            self._merge([no, yes])

    def _merge(self, values: list[object]) -> None:
        unset = [v for v in values if isinstance(v, Unset)]
        if len(unset) == 1:
            (other,) = (i for i, v in enumerate(values) if v is not unset[0])
            if unset[0].is_guarded or self._left == 1 - other:
                self._fill(values, other)
                return
        if unset:
            why = "only one side of this branch sets it" if len(unset) == 1 else ""
            said = [u.why or "nothing has set it" for u in unset if not u.is_guarded]
            self._fixed = Unset(self.name, (unset[0].why or why) if len(unset) == 1 else "".join(said[:1]), self.line)
            return
        if any(isinstance(v, Rows) for v in values):
            values = self._lists(values)
        opened = self._opened(values)
        if is_mixed(values):
            values, opened = self._optional(values, opened)
        if not opened[0].alike(opened[1]):
            if self._left is not None:
                self._fill(values, 1 - self._left)
                return
            self._fixed = _unlike(self.name, values[::-1], opened[::-1], self.line)
            return
        self._choose(values, opened)

    def _opened(self, values: Sequence[object]) -> list[Opened]:
        return [_opened(side, self.name, value) for side, value in zip(self._sides, values, strict=True)]

    def _lists(self, values: Sequence[object]) -> list[object]:
        """The items of lists in one form; PlainListsNeeded where there is none."""
        rows = [v for v in values if isinstance(v, Rows)]
        if len(rows) < len(values):
            need_plain_lists()
        form = rows[0].form.joined(rows[1].form)
        if form is None:
            need_plain_lists()
        found: list[object] = []
        for side, own in zip(self._sides, rows, strict=True):
            with resumed(side.recorder):
                found.append(own.fitted(form))
        return found

    def _optional(self, values: list[object], opened: list[Opened]) -> tuple[list[object], list[Opened]]:
        """A number and None, as values that may be None on both sides."""
        type = number_type(values, opened)
        if type is None or any(type[0].size.symbols() & own_sizes(side.recorder).keys() for side in self._sides):
            return values, opened
        found = []
        for side, value in zip(self._sides, values, strict=True):
            with resumed(side.recorder):
                found.append(lifted(value, *type))
        return found, self._opened(found)

    def _fill(self, values: Sequence[object], other: int) -> None:
        """Where one side leaves the function, or a name of conversion's own unset, it may hold anything: zeros."""
        found = _opened(self._sides[other], self.name, values[other])
        self._form = found
        for array, type, weak in zip(found.arrays, found.types, found.weak, strict=True):
            arrays: list[Array | None] = [None, None]
            arrays[other] = array
            self._add(self._sizes.filled(type, weak, other), arrays, arrays)

    def _choose(self, values: Sequence[object], opened: list[Opened]) -> None:
        self._form = opened[1]
        for row in zip(*(zip(o.leaves, o.arrays, o.types, o.weak, strict=True) for o in opened), strict=True):
            leaves, arrays, types, weak = zip(*row, strict=True)
            if same(*leaves):
                self._slots.append((leaves[0],))
                continue
            carried = self._sizes.met(self.name, types, weak, common_space(arrays))
            if carried is None or not all(
                keeps_value(leaf, w, carried.type) for leaf, w in zip(leaves, weak, strict=True)
            ):
                self._form, self.outputs, self._slots = None, [], []
                if self._left is not None:
                    self._fill(values, 1 - self._left)
                    return
                why = f"one side of this branch makes it {types[1]}, and the other {types[0]}"
                why += "" if carried is None else f", a number of Python's that {carried.type} need not hold"
                self._fixed = Unset(self.name, why, self.line)
                return
            self._add(carried, arrays, leaves)

    def _add(self, carried: Carried, arrays: Sequence[Array | None], leaves: Sequence[object]) -> None:
        """An output, of what the sides have; where that is None, of zeros."""
        type = carried.stored([parent().extremes(bound)[1] for bound in self._sizes.bounds])  # those of loops around
        makers = [partial(zeros, type) if array is None else partial(padded, array, type) for array in arrays]
        made = [side.output(make) for side, make in zip(self._sides, makers, strict=True)]
        self._slots.append(len(self.outputs))
        self.outputs.append(_Output(carried, made, leaves))

    def value(self, results: list[Tracer], sizes: Sequence[Dim]) -> object:
        """The value, with the results of the branch in the order of ``outputs`` taken from the list."""
        if self._form is None:
            return self._fixed
        own, results[: len(self.outputs)] = results[: len(self.outputs)], []
        found = [taken(array, o.carried, sizes) for array, o in zip(own, self.outputs, strict=True)]
        for tracer, output in zip(found, self.outputs, strict=True):
            tracer.weak = output.carried.weak
            note_branch(tracer, [side.recorder for side in self._sides], output.leaves)
        return self._form.closed([slot[0] if isinstance(slot, tuple) else found[slot] for slot in self._slots])


def _opened(side: TracedBody, name: str, value: object) -> Opened:
    with resumed(side.recorder):
        return open_value(name, value)


def _record(test: Tracer, sides: Sequence[TracedBody], outputs: Sequence[list[Value]]) -> list[Tracer]:
    """Record the branch; write what its sides wrote, and give its other results."""
    written = {stand.outer.memory: stand.outer for side in sides for stand in side.written()}
    if not outputs and not written:
        return []
    bodies = []
    for number, side in enumerate(sides):
        ends = [side.recorder.stand_in(outer).result for outer in written.values()]
        bodies.append(side.finish([*(made[number] for made in outputs), *ends]))
    captured = list(dict.fromkeys(value for body in bodies for value in body.captured))
    graphs = tuple(close(body, captured) for body in bodies)
    truths = strong(test) if test.dtype.kind == "b" else np.not_equal(test, 0)
    results = cast(
        "list[Tracer]", record(primitive("switch"), [convert(strong(truths), INT32), *captured], branches=graphs)
    )
    for outer, result in zip(written.values(), results[len(outputs) :], strict=True):
        write(outer, graph_value(parent(), result))
    return results[: len(outputs)]
