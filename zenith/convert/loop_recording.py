"""Loops whose turns the program counts, recorded as a ``scan`` or a ``while_loop``.

The body is traced once, with what it changes as carried values (:mod:`zenith.convert.loop_carried`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np

from zenith.control.trees import record
from zenith.convert.bodies import TracedBody, parent
from zenith.convert.bounded import padded, taken
from zenith.convert.chosen import Choices
from zenith.convert.conditions import as_truth
from zenith.convert.expressions import and_
from zenith.convert.loop_carried import LoopCarried
from zenith.convert.loop_tracing import Loop
from zenith.convert.values import zeros
from zenith.errors import user_line
from zenith.ir.dims import dim
from zenith.ir.graph import Value
from zenith.ir.primitive import get as primitive
from zenith.ir.types import ArrayType, int64
from zenith.numpy.operands import lift, strong
from zenith.numpy.typing import Array
from zenith.trace.bind import b, graph_value
from zenith.trace.bodies import Body, close
from zenith.trace.memory import write
from zenith.trace.sizes import size_dim
from zenith.trace.stands import StandIn
from zenith.trace.tracer import Tracer


def convert_loop(loop: Loop, chosen: Choices) -> str:
    """Record a loop in the current trace and set its names; the primitive it is. TraceError where it cannot be one.

    ``chosen`` takes the lists and dicts that it gives names.
    """
    start = loop.names.start()
    carried = LoopCarried(loop, start).settled()
    recording = _Recording(carried)
    values = recording.values(recording.results())
    loop.names.set(values)
    chosen.add(values, start, carried.body.values)
    return recording.primitive


class _Recording:
    """A loop of which is known what it carries, as a primitive."""

    def __init__(self, carried: LoopCarried) -> None:
        self._carried, self._loop, self._body, self._counts = carried, carried.loop, carried.body, carried.counts
        self.primitive = ""

    def results(self) -> list[Tracer]:
        """Record the loop; give the carried values of names, and write the arrays around it."""
        before = [self._started(k, j) for k, form in self._carried.forms.items() for j in range(len(form))]
        body, stands, going = self._finished()
        counter: list[object] = [] if self._carried.counter is None else [np.int64(0)]
        counts = [b.size(value=count.start) for count in self._counts.carried]
        start = [*counter, *counts, *before, *(stand.outer.value for stand in stands)]
        found = self._recorded(body, self._condition(stands, going), start)[len(counter) :]
        own = len(counts) + len(before)
        for stand, result in zip(stands, found[own:], strict=True):
            write(stand.outer, graph_value(parent(), result))
        for root in self._carried.left_open:
            for memory in root.memory.related():
                memory.clobbered = memory.clobbered or ("", user_line())
        return found[:own]

    def _recorded(self, body: Body, condition: Body | None, start: Sequence[object]) -> list[Tracer]:
        """The results of the primitive, which begins with values of what it carries."""
        counter = body.recorder.counter
        index, last = ("", dim(0)) if counter is None else (counter.index, counter.last)
        if condition is None:
            self.primitive = "scan"
            assert self._loop.turns is not None
            found = record(
                primitive("scan"), [*body.captured, *start], body=close(body, body.captured),
                length=size_dim(self._loop.turns.count), captured=len(body.captured), carried=len(start), reverse=False,
                index=index,
            )  # fmt: skip
        else:
            self.primitive = "while_loop"
            found = record(
                primitive("while_loop"), [*condition.captured, *body.captured, *start],
                condition=close(condition, condition.captured), body=close(body, body.captured),
                condition_captured=len(condition.captured), body_captured=len(body.captured), index=index, most=last,
            )  # fmt: skip
        return cast("list[Tracer]", found)

    def _started(self, k: int, j: int) -> Array:
        type = self._carried.forms[k][j].stored(self._counts.bounds)
        opened = self._carried.opened[k]
        return zeros(type) if opened is None else padded(opened.arrays[j], type)

    def _finished(self) -> tuple[Body, list[StandIn], bool]:
        """The body with its results, the arrays that it carries, and whether its further condition is known to hold."""
        body = self._body
        going = self._loop.test is None or self._loop.turns is None or self._carried.holds_always()
        outputs: list[Value] = []
        if self._carried.counter is not None:
            outputs.append(body.output(partial(np.add, self._carried.counter, 1)))
        for count in self._counts.carried:
            outputs.append(body.output(partial(b.size, value=count.end or count.at)))
        for k, form in self._carried.forms.items():
            for array, carried in zip(self._carried.after[k].arrays, form, strict=True):
                outputs.append(body.output(partial(padded, array, carried.stored(self._counts.bounds))))
        stands = [body.carry(s) for s in body.written()]
        outputs += [s.result for s in stands]
        return body.finish(outputs), stands, going

    def _condition(self, stands: list[StandIn], going: bool) -> Body | None:
        """The condition of a loop that is no count alone."""
        turns, test = self._loop.turns, self._loop.test
        if turns is not None and not turns.is_computed and (test is None or going):
            return None
        condition = TracedBody("condition", self._loop.names)
        counter = condition.argument(ArrayType(int64, ()), True) if turns is not None else None
        start = self._carried.arguments(condition)
        for stand in stands:
            condition.carry(stand)

        def holds() -> object:
            further = [test] if test is not None and not (turns is not None and going) else []
            if counter is None or turns is None:
                return further[0]()
            within = counter < turns.count
            return and_(within, further[0]) if further else within

        holds.runs = [test] if test is not None else []  # type: ignore[attr-defined]
        found = condition.run(holds, start)
        return condition.finish([condition.output(lambda: _bool(found))])

    def values(self, results: list[Tracer]) -> tuple[object, ...]:
        """The values of the names after the loop."""
        found = list(self._carried.start)
        rest = iter(results)
        numbers = [next(rest).value for _ in self._counts.carried]
        sizes = self._counts.sizes(parent(), numbers, self._carried.turns())
        made: dict[tuple[int, int], Tracer] = {}
        for k, form in self._carried.forms.items():
            own = [taken(next(rest), carried, sizes) for carried in form]
            for j, (tracer, carried) in enumerate(zip(own, form, strict=True)):
                tracer.weak = carried.weak
                made[k, j] = tracer
            found[k] = self._carried.shape(k).closed(own)
        for k, unset in self._carried.unset.items():
            found[k] = unset
        self._carried.sharing.note(made, self._carried.runs())
        return tuple(found)


def _bool(value: object) -> object:
    found = as_truth(value)
    return np.bool_(found) if isinstance(found, bool) else strong(lift(found))
