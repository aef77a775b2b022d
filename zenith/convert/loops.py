"""Loops whose turns the program counts: the body is traced once, with what it changes as carried values.

Carried are the numbers and arrays of the names that the body assigns, and the arrays around it that it writes, which
show while it is traced (:mod:`zenith.trace.stands`). The types of what is carried follow from tracing: Python numbers
take those that the body gives them, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from zenith import tree
from zenith.control.trees import record
from zenith.convert.bodies import Names, TracedBody, parent, snapshot
from zenith.convert.bounded import Carried, Counts, common_space, own_sizes, padded, sliced, taken
from zenith.convert.chosen import Choices
from zenith.convert.conditions import as_truth, facts, granted
from zenith.convert.expressions import and_
from zenith.convert.list_items import need_plain_lists
from zenith.convert.lists import LIST
from zenith.convert.optional import Optional, is_mixed, lifted, number_type
from zenith.convert.sharing import Sharing
from zenith.convert.turn_limits import CarriedInteger, KnownTurns, limits, most_turns, names_of
from zenith.convert.turns import Turns
from zenith.convert.values import Opened, Unset, common, keeps_value, open_value, zeros
from zenith.errors import TraceError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Value
from zenith.ir.primitive import get as primitive
from zenith.ir.types import ArrayType, int64
from zenith.numpy.operands import lift, strong
from zenith.numpy.typing import Array
from zenith.trace.bind import b, graph_value
from zenith.trace.bodies import Body, close
from zenith.trace.conditions import request_compared
from zenith.trace.memory import ARGUMENT, KEPT, NUMBER, write
from zenith.trace.numbers import most_of
from zenith.trace.recorder import resumed
from zenith.trace.size_relations import Counter, Relation, VaryingSize
from zenith.trace.sizes import size_dim
from zenith.trace.stands import StandIn
from zenith.trace.tracer import Tracer

_ATTEMPTS = 24  # a body is traced again for each name that turns out to be carried, or whose type changes


class TypeChange(TraceError):
    """A carried value has another type or structure after a turn."""


@dataclass(frozen=True)
class Loop:
    """A loop: its turns (None: ``while``), what a turn does, its further condition, its names.

    ``rebound`` are the names that a turn binds to other objects, and not only by operators that may work in place.
    Sizes that depend on values may differ from turn to turn, and with ``counts_sizes`` others, too. A loop of
    unknown turns that ``enters`` has a first one.
    """

    turns: Turns | None
    turn: Callable[..., None]
    test: Callable[[], object] | None
    names: Names
    rebound: frozenset[str]
    counts_sizes: bool = False
    enters: bool = False


Form = list[Carried]  # of the arrays of one name


def convert_loop(loop: Loop, chosen: Choices) -> str:
    """Record a loop in the current trace and set its names; the primitive it is. TraceError where it cannot be one.

    ``chosen`` takes the lists and dicts that it gives names.
    """
    start = loop.names.start()
    traced = _Tracing(loop, start).settled()
    values = traced.values(traced.recorded())
    loop.names.set(values)
    chosen.add(values, start, traced.body.values)
    return traced.primitive


class _Tracing:
    """The search for what a loop carries, and its result."""

    def __init__(self, loop: Loop, start: tuple[object, ...]) -> None:
        self.loop, self.start = loop, snapshot(list(start))
        self._reports = len(parent().loops)
        self.opened = [_opened(n, v) for n, v in zip(loop.names.names, start, strict=True)]
        self.forms = {k: _form(o) for k, o in enumerate(self.opened) if o is not None and self._is_guessed(k, o)}
        self.counts = Counts()
        self._forced: set[int] = set()
        self._dropped: dict[int, Unset] = {}
        self.unset: dict[int, Unset] = {}
        self._left_open: list[Tracer] = []
        self._sharing: Sharing
        self.body: TracedBody
        self.given: dict[int, list[Tracer]]
        self.after: list[Opened] = []

    def _is_guessed(self, k: int, opened: Opened) -> bool:
        arrays = any(isinstance(a, Tracer) and a.memory.access != NUMBER for a in opened.leaves)
        return bool(opened.arrays) and (not arrays or self.loop.names.names[k] in self.loop.rebound)

    def settled(self) -> _Tracing:
        """Trace the body until what is carried no longer changes."""
        for _ in range(_ATTEMPTS):
            forget = parent().assumptions()
            self._trace()
            if not self._compare():
                self._check_shared()
                return self
            forget()
        raise TypeChange(
            "the types of a loop's values do not settle", where=user_line(), fix="set them before the loop"
        )

    def _trace(self) -> None:
        del parent().loops[self._reports :]  # of loops inside, which are traced again
        self.body = TracedBody("step", self.loop.names)
        self.counter = self.body.argument(ArrayType(int64, ()), True) if self.loop.turns is not None else None
        if self.counter is not None and self.loop.turns is not None and not self.loop.turns.is_computed:
            self.body.recorder.counter = Counter(self.counter.value, size_dim(self.loop.turns.count) - 1)
        start = self._arguments(self.body)
        self._facts: list[Relation] = []
        if self.counts.all and self.loop.turns is None:
            self.body.recorder.conditions.numbers = names_of(integer.begin for integer in self._integers())
        turns, counter = self.loop.turns, self.counter
        item = [] if turns is None or counter is None else [partial(turns.item, counter)]
        held = [tree.flatten(value) for value in start]
        self.body.run(self._turn(), start, *item)
        self._check_unchanged(start, held)
        self.after = self.body.opened()

    def _check_unchanged(self, start: tuple[object, ...], held: list[tuple[list[object], tree.TreeDef]]) -> None:
        """TraceError where a list or dict that a turn begins with changes in it: it is a copy of another one."""
        for name, value, (leaves, treedef) in zip(self.loop.names.names, start, held, strict=True):
            if not self._is_copied(value):
                continue
            found, structure = tree.flatten(value)
            if structure != treedef or any(a is not b for a, b in zip(found, leaves, strict=True)):
                raise TraceError(
                    f"a loop changes what {name} holds, and gives the name other ones", where=user_line(),
                    fix="use arrays, or names that the loop assigns, for what changes in it",
                )  # fmt: skip

    def _is_copied(self, value: object) -> bool:
        return not tree.is_leaf(value) and not any(value is old for old in self.start)

    def _turn(self) -> Callable[..., object]:
        """A turn, in which is known what the condition says of sizes."""
        turn, test = self.loop.turn, self.loop.test
        if self.loop.turns is not None or test is None:
            return turn

        def run() -> None:
            before = self._lists()
            del self.body.recorder.compared[:]
            tested = test()
            if any(rows is not old for rows, old in zip(self._lists(), before, strict=True)):
                need_plain_lists()  # a condition is computed once more than turns begin
            self._facts = facts(tested, True)
            with granted(tested, True):
                turn()

        run.runs = (turn, test)  # type: ignore[attr-defined]
        return run

    def _arguments(self, body: TracedBody) -> tuple[object, ...]:
        """The values that names begin a turn with: arguments where they are carried."""
        values = [self._dropped.get(k, value) for k, value in enumerate(self.start)]
        numbers = [body.argument(ArrayType(int64, ()), False).value for _ in self.counts.carried]
        arrays = {
            k: [body.argument(c.stored(self.counts.bounds), c.weak) for c in form] for k, form in self.forms.items()
        }
        given: dict[int, list[Tracer]] = {}
        with resumed(body.recorder):
            turn = body.recorder.index() if len(numbers) < len(self.counts.all) else None
            sizes = self.counts.sizes(body.recorder, numbers, turn)
            for k, form in self.forms.items():
                if self._is_list(k):
                    body.recorder.growable.update(array.value for array in arrays[k])
                given[k] = [sliced(a, c.sized(sizes)) for a, c in zip(arrays[k], form, strict=True)]
                values[k] = self._shape(k).closed(list(given[k]))
        if body is self.body:
            self.given = given
            self.counts.begin(sizes)
        self._began = tuple(values)
        return self._began

    def _shape(self, k: int) -> Opened:
        """The structure of a carried value: that from before the loop, or what the body gives where nothing was set."""
        found = self.opened[k]
        return found if found is not None else self.after[k]

    def _compare(self) -> bool:
        """Whether the body has to be traced again, since what is carried has changed."""
        again, self.unset = False, {}
        for k, name in enumerate(self.loop.names.names):
            if self._meets_none(k, name):
                again = True
                continue
            value = self.body.values[k]
            if isinstance(value, Unset):
                self.unset[k] = value
                held = self.forms.pop(k, None) is not None or not isinstance(self.start[k], Unset)
                if held and k not in self._dropped:  # the turns after the first begin without it
                    self._dropped[k], again = value, True
            elif self._varies(k):
                again |= k not in self._dropped
                self._drop(k, name)
            elif k in self.forms:
                again |= self._compare_carried(k, name)
            elif value is not self._began[k]:
                again |= self._discover(k, name)
        return self._settle_counts() or again

    def _meets_none(self, k: int, name: str) -> bool:
        """Make of None and numbers values that may be None; whether the loop begins with another one now."""
        start, value, opened = self.start[k], self.body.values[k], self.opened[k]
        if value is self._began[k] or opened is None or not is_mixed([start, value]):
            return False
        type = number_type([start, value], [opened, self.after[k]])
        if type is None or type[0].size.symbols() & own_sizes(self.body.recorder).keys():
            return False
        with resumed(self.body.recorder):
            self.after[k] = open_value(name, lifted(value, *type))
        if isinstance(start, Optional):
            return False
        self.start[k] = lifted(start, *type)
        self.opened[k] = found = open_value(name, self.start[k])
        self.forms[k] = _form(found)
        return True

    def _settle_counts(self) -> bool:
        """Whether the bound of a size that is counted has been raised, so that the body has to be traced again."""
        known = self._known_turns()
        try:
            settled = [count.settle(self.body.recorder, known) for count in self.counts.all]
        except VaryingSize:
            request_compared(self.body.recorder)
            raise
        return not all(settled)

    def _known_turns(self) -> KnownTurns:
        """What is known of the number of turns."""
        turns = self._turns()
        exact = turns if self.loop.test is None or self._holds_always() else None
        most = limits(self._facts)
        if self.loop.turns is not None and turns is None:
            assert isinstance(self.loop.turns.count, Tracer)
            turns = most_of(self.loop.turns.count)
        elif turns is None:
            last = limits(fact for k in self._flags() for fact in self._facts_of_flag(k))
            flags = [self.body.values[k] for k in self._flags()]
            unset = [flag.value for flag in flags if isinstance(flag, Tracer)]
            unset += [
                self.body.recorder.conditions.flags[flag]
                for flag in unset
                if flag in self.body.recorder.conditions.flags
            ]
            turns = most_turns(self.body.recorder, self._integers(), most, last, unset)
        return KnownTurns(exact, turns, most)

    def _facts_of_flag(self, k: int) -> list[Relation]:
        """What is known at the end of a turn that leaves a flag unset, so that there is another one."""
        with resumed(self.body.recorder):
            return facts(self.body.values[k], False)

    def _turns(self) -> Dim | None:
        """The number of turns; None where only the program knows it."""
        turns = self.loop.turns
        return None if turns is None or turns.is_computed else size_dim(turns.count)

    def _integers(self) -> list[CarriedInteger]:
        """The integers that are carried."""
        found: list[CarriedInteger] = []
        for k, given in self.given.items():
            if len(given) == 1 and given[0].type == ArrayType(int64, ()):
                ends, opened = self.after[k].leaves if self.after else [], self.opened[k]
                start = None if opened is None else opened.leaves[0]
                found.append(CarriedInteger(start, given[0].value, ends[0] if ends else None))
        return [integer for integer in found if integer.start is not None]

    def _varies(self, k: int) -> bool:
        """Whether a turn leaves an array in a name whose size is another one in each turn."""
        counter = self.body.recorder.counter
        index = "" if counter is None else counter.index
        types = self.after[k].types
        forms: Sequence[Carried | None] = self.forms.get(k) or [None] * len(types)
        if len(forms) != len(types):
            return False  # its structure has changed, which :meth:`_compare_carried` tells
        return any(
            index in size.symbols()
            for type, form in zip(types, forms, strict=True)
            for axis, size in enumerate(type.shape)
            if not (self._is_list(k) and not axis) and (form is None or axis not in dict(form.counted))
        )

    def _is_list(self, k: int) -> bool:
        """Whether it is a list of the program's, whose items are counted."""
        return self.loop.names.names[k].startswith(LIST)

    def _lists(self) -> list[object]:
        """The items of the program's lists."""
        return [value for k, value in enumerate(self.loop.names.get()) if self._is_list(k)]

    def _drop(self, k: int, name: str) -> None:
        """Have no value in a name when a turn begins, and after the loop: none could be carried."""
        self._dropped[k] = self.unset[k] = Unset(name, "its size differs from turn to turn of a loop", user_line())
        if self.unset[k].is_made:
            raise VaryingSize("a loop returns an array whose size differs from turn to turn", where=user_line(),
                              fix="return the numbers of its elements, and slice after the call")  # fmt: skip
        self.forms.pop(k, None)

    def _compare_carried(self, k: int, name: str) -> bool:
        before, after = self._shape(k), self.after[k]
        if not before.alike(after):
            raise self._changed(name, before, after)
        if k not in self._forced and all(a is b for a, b in zip(self.given[k], after.leaves, strict=True)):
            del self.forms[k]  # nothing changes it
            return True
        rows = zip(self.forms[k], self.given[k], after.types, after.weak, strict=True)
        found = [self._met(name, form, given.type, type, weak) for form, given, type, weak in rows]
        met = [m for m in found if m is not None]
        if len(met) < len(found) or not all(_keeps_values(opened, met) for opened in (before, after)):
            raise self._changed(name, before, after)
        again = met != self.forms[k]
        self.forms[k] = met
        return again

    def _met(self, name: str, form: Carried, given: ArrayType, type: ArrayType, weak: bool) -> Carried | None:
        """How an array is carried that begins a turn with one type and ends it with another; None where it is not."""
        is_list = name.startswith(LIST)
        called, every = "a list" if is_list else name, is_list or self.loop.counts_sizes
        counted = self.counts.met(self.body.recorder, called, form, given, type, every)
        if counted is None:
            return None
        found = common(name, [(given, form.weak), (type.with_shape(given.shape), weak)])
        return None if found is None else Carried.of(*found, counted, form.space)

    def _discover(self, k: int, name: str) -> bool:
        """A name that the body changes, though it was not taken for one."""
        opened, after = self.opened[k], self.after[k]
        if opened is None:
            started = self.start[k]
            assert isinstance(started, Unset)
            if not (started.is_guarded or (self._runs() and not started.is_made)):
                self.unset[k] = Unset(name, started.why or "the loop that sets it may have no turn", user_line())
                return False
            made = [self.counts.first_made(self.body.recorder, name, type) for type in after.types]
            self.forms[k] = list(map(Carried.of, after.types, after.weak, made))
        elif opened.alike(after) and opened.arrays:
            self.forms[k] = _form(opened)
        else:
            raise self._changed(name, opened, after)
        self._forced.add(k)
        return True

    def _runs(self) -> bool:
        """Whether there is a turn for sure."""
        turns = self.loop.turns
        if turns is None or turns.is_computed:
            return self.loop.enters
        try:
            return parent().holds(size_dim(turns.count), ">=", 1)
        except VaryingSize:
            return False

    @staticmethod
    def _changed(name: str, before: Opened, after: Opened) -> TypeChange:
        return TypeChange(
            f"{name} is {before.text()} before a turn of the loop and {after.text()} after it", where=user_line(),
            fix=f"give {name} the type and shape before the loop that it has after a turn",
        )  # fmt: skip

    def _check_shared(self) -> None:
        """TraceError where carried names share an array that is written: each is carried as an array of its own."""
        self._sharing = Sharing.of(self)
        for name, root in self._sharing.check():
            if any(m.access in (ARGUMENT, KEPT) for m in root.memory.related()):
                raise TraceError(
                    f"a loop writes into the argument {root.memory.name} under the name {name}, which it gives to "
                    "other arrays, too", where=user_line(), types=(root.type,),
                    fix=f"copy it before the loop: {name} = {name}.copy()",
                )  # fmt: skip
            self._left_open.append(root)

    # --- recording ---

    def recorded(self) -> list[Tracer]:
        """Record the loop; give the carried values of names, and write the arrays around it."""
        before = [self._started(k, j) for k, form in self.forms.items() for j in range(len(form))]
        body, stands, going = self._finished()
        counts = [] if self.counter is None else [np.int64(0)]
        counts += [b.size(value=count.start) for count in self.counts.carried]
        arrays = [s.outer.value for s in stands]
        start = [*counts, *before, *arrays]
        condition = self._condition(stands, going)
        self.primitive = "scan" if condition is None else "while_loop"
        counter = body.recorder.counter
        index, last = ("", dim(0)) if counter is None else (counter.index, counter.last)
        if condition is None:
            assert self.loop.turns is not None
            found = record(
                primitive("scan"), [*body.captured, *start], body=close(body, body.captured),
                length=size_dim(self.loop.turns.count), captured=len(body.captured), carried=len(start), reverse=False,
                index=index,
            )  # fmt: skip
        else:
            found = record(
                primitive("while_loop"), [*condition.captured, *body.captured, *start],
                condition=close(condition, condition.captured), body=close(body, body.captured),
                condition_captured=len(condition.captured), body_captured=len(body.captured), index=index, most=last,
            )  # fmt: skip
        results = found[len(counts) - len(self.counts.carried) :]
        for stand, result in zip(stands, found[len(counts) + len(before) :], strict=True):
            write(stand.outer, graph_value(parent(), result))
        for root in self._left_open:
            for memory in root.memory.related():
                memory.clobbered = memory.clobbered or ("", user_line())
        return cast("list[Tracer]", results[: len(self.counts.carried) + len(before)])

    def _started(self, k: int, j: int) -> Array:
        type = self.forms[k][j].stored(self.counts.bounds)
        opened = self.opened[k]
        return zeros(type) if opened is None else padded(opened.arrays[j], type)

    def _finished(self) -> tuple[Body, list[StandIn], bool]:
        """The body with its results, the arrays that it carries, and whether its further condition is known to hold."""
        body = self.body
        going = True
        if self.loop.test is not None and self.loop.turns is not None:
            going = self._holds_always()
        outputs: list[Value] = []
        if self.counter is not None:
            counter = self.counter
            outputs.append(body.output(partial(np.add, counter, 1)))
        for count in self.counts.carried:
            outputs.append(body.output(partial(b.size, value=count.end or count.at)))
        for k, form in self.forms.items():
            for array, carried in zip(self.after[k].arrays, form, strict=True):
                outputs.append(body.output(partial(padded, array, carried.stored(self.counts.bounds))))
        stands = [body.carry(s) for s in body.written()]
        outputs += [s.result for s in stands]
        return body.finish(outputs), stands, going

    def _holds_always(self) -> bool:
        """Whether no turn sets a flag that ends the loop."""
        return not any(k in self.forms or k in self.unset for k in self._flags())

    def _flags(self) -> list[int]:
        """The numbers of the flags that end loops."""
        names = enumerate(self.loop.names.names)
        return [k for k, name in names if name.startswith(("_zenith_broke", "_zenith_returned"))]

    def _condition(self, stands: list[StandIn], going: bool) -> Body | None:
        """The condition of a loop that is no count alone."""
        turns, test = self.loop.turns, self.loop.test
        if turns is not None and not turns.is_computed and (test is None or going):
            return None
        condition = TracedBody("condition", self.loop.names)
        counter = condition.argument(ArrayType(int64, ()), True) if turns is not None else None
        start = self._arguments(condition)
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
        found = list(self.start)
        rest = iter(results)
        numbers = [next(rest).value for _ in self.counts.carried]
        sizes = self.counts.sizes(parent(), numbers, self._turns())
        made: dict[tuple[int, int], Tracer] = {}
        for k, form in self.forms.items():
            own = [taken(next(rest), carried, sizes) for carried in form]
            for j, (tracer, carried) in enumerate(zip(own, form, strict=True)):
                tracer.weak = carried.weak
                made[k, j] = tracer
            found[k] = self._shape(k).closed(own)
        for k, unset in self.unset.items():
            found[k] = unset
        self._sharing.note(made, self._runs())
        return tuple(found)


def _opened(name: str, value: object) -> Opened | None:
    return None if isinstance(value, Unset) else open_value(name, value)


def _form(opened: Opened) -> Form:
    rows = zip(opened.arrays, opened.types, opened.weak, strict=True)
    return [Carried(type, weak, space=common_space([array])) for array, type, weak in rows]


def _bool(value: object) -> object:
    found = as_truth(value)
    return np.bool_(found) if isinstance(found, bool) else strong(lift(found))


def _keeps_values(opened: Opened, forms: Form) -> bool:
    """Whether Python's integers among leaves are the same numbers in the types of forms."""
    rows = zip(opened.leaves, opened.weak, forms, strict=True)
    return all(keeps_value(leaf, weak, form.type) for leaf, weak, form in rows)
