"""What a loop carries from turn to turn: its body is traced until that no longer changes.

The types follow from tracing: Python numbers take those that the body gives them, and sizes that a turn changes are
counted (:mod:`zenith.convert.bounded`).
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.convert.bodies import parent
from zenith.convert.bounded import Carried, own_sizes
from zenith.convert.lists import LIST
from zenith.convert.loop_tracing import Form, Loop, LoopTracing, form_of
from zenith.convert.optional import Optional, is_mixed, lifted, number_type
from zenith.convert.sharing import Sharing
from zenith.convert.values import Opened, Unset, common, keeps_value, open_value
from zenith.errors import TraceError, user_line
from zenith.ir.types import ArrayType
from zenith.trace.conditions import request_compared
from zenith.trace.memory import ARGUMENT, KEPT
from zenith.trace.recorder import resumed
from zenith.trace.size_relations import VaryingSize
from zenith.trace.tracer import Tracer

_ATTEMPTS = 24  # a body is traced again for each name that turns out to be carried, or whose type changes


class TypeChange(TraceError):
    """A carried value has another type or structure after a turn."""


class LoopCarried(LoopTracing):
    """The search for what a loop carries, and its result.

    ``left_open`` are arrays from before the loop that it writes, so that nothing may read them after it.
    """

    def __init__(self, loop: Loop, start: tuple[object, ...]) -> None:
        super().__init__(loop, start)
        self.left_open: list[Tracer] = []
        self.sharing: Sharing
        self._forced: set[int] = set()  # names that were found to be carried, and stay it

    def settled(self) -> LoopCarried:
        """Trace the body until what is carried no longer changes."""
        for _ in range(_ATTEMPTS):
            forget = parent().assumptions()
            self.trace_body()
            if not self._compare():
                self._check_shared()
                return self
            forget()
        raise TypeChange(
            "the types of a loop's values do not settle", where=user_line(), fix="set them before the loop"
        )

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
                if held and k not in self.dropped:  # the turns after the first begin without it
                    self.dropped[k], again = value, True
            elif self._varies(k):
                again |= k not in self.dropped
                self._drop(k, name)
            elif k in self.forms:
                again |= self._compare_carried(k, name)
            elif value is not self.began[k]:
                again |= self._discover(k, name)
        return self._settle_counts() or again

    def _meets_none(self, k: int, name: str) -> bool:
        """Make of None and numbers values that may be None; whether the loop begins with another one now."""
        start, value, opened = self.start[k], self.body.values[k], self.opened[k]
        if value is self.began[k] or opened is None or not is_mixed([start, value]):
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
        self.forms[k] = form_of(found)
        return True

    def _settle_counts(self) -> bool:
        """Whether the bound of a size that is counted has been raised, so that the body has to be traced again."""
        known = self.known_turns()
        try:
            settled = [count.settle(self.body.recorder, known) for count in self.counts.all]
        except VaryingSize:
            request_compared(self.body.recorder)
            raise
        return not all(settled)

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
            if not (self.is_list(k) and not axis) and (form is None or axis not in dict(form.counted))
        )

    def _drop(self, k: int, name: str) -> None:
        """Have no value in a name when a turn begins, and after the loop: none could be carried."""
        self.dropped[k] = self.unset[k] = Unset(name, "its size differs from turn to turn of a loop", user_line())
        if self.unset[k].is_made:
            raise VaryingSize("a loop returns an array whose size differs from turn to turn", where=user_line(),
                              fix="return the numbers of its elements, and slice after the call")  # fmt: skip
        self.forms.pop(k, None)

    def _compare_carried(self, k: int, name: str) -> bool:
        before, after = self.shape(k), self.after[k]
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
            if not (started.is_guarded or (self.runs() and not started.is_made)):
                self.unset[k] = Unset(name, started.why or "the loop that sets it may have no turn", user_line())
                return False
            made = [self.counts.first_made(self.body.recorder, name, type) for type in after.types]
            self.forms[k] = list(map(Carried.of, after.types, after.weak, made))
        elif opened.alike(after) and opened.arrays:
            self.forms[k] = form_of(opened)
        else:
            raise self._changed(name, opened, after)
        self._forced.add(k)
        return True

    @staticmethod
    def _changed(name: str, before: Opened, after: Opened) -> TypeChange:
        return TypeChange(
            f"{name} is {before.text()} before a turn of the loop and {after.text()} after it", where=user_line(),
            fix=f"give {name} the type and shape before the loop that it has after a turn",
        )  # fmt: skip

    def _check_shared(self) -> None:
        """TraceError where carried names share an array that is written: each is carried as an array of its own."""
        self.sharing = Sharing.of(self)
        for name, root in self.sharing.check():
            if any(m.access in (ARGUMENT, KEPT) for m in root.memory.related()):
                raise TraceError(
                    f"a loop writes into the argument {root.memory.name} under the name {name}, which it gives to "
                    "other arrays, too", where=user_line(), types=(root.type,),
                    fix=f"copy it before the loop: {name} = {name}.copy()",
                )  # fmt: skip
            self.left_open.append(root)


def _keeps_values(opened: Opened, forms: Form) -> bool:
    """Whether Python's integers among leaves are the same numbers in the types of forms."""
    rows = zip(opened.leaves, opened.weak, forms, strict=True)
    return all(keeps_value(leaf, weak, form.type) for leaf, weak, form in rows)
