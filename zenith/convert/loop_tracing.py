"""A loop's body as it is traced once, with what is taken to be carried from turn to turn.

Carried are the numbers and arrays of the names that the body assigns, and the arrays around it that it writes, which
show while it is traced (:mod:`zenith.trace.stands`). What the body leaves says whether that was right
(:mod:`zenith.convert.loop_carried`), and what is known of the number of turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from zenith import tree
from zenith.convert.bodies import Names, TracedBody, parent, snapshot
from zenith.convert.bounded import Carried, Counts, common_space, sliced
from zenith.convert.conditions import facts, granted
from zenith.convert.list_items import need_plain_lists
from zenith.convert.lists import LIST
from zenith.convert.turn_limits import CarriedInteger, KnownTurns, limits, most_turns, names_of
from zenith.convert.turns import Turns
from zenith.convert.values import Opened, Unset, open_value
from zenith.errors import TraceError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import ArrayType, int64
from zenith.trace.memory import NUMBER
from zenith.trace.numbers import most_of
from zenith.trace.recorder import resumed
from zenith.trace.size_relations import Counter, Relation, VaryingSize
from zenith.trace.sizes import size_dim
from zenith.trace.tracer import Tracer


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


class LoopTracing:
    """The tracing of a loop's body, by what is carried so far.

    ``opened`` and ``forms`` say for each name, by its number, what it holds before the loop and how it is carried;
    ``given`` and ``after`` what a turn begins with, and leaves; ``dropped`` are names without a value when a turn
    begins, ``unset`` those without one after the loop.
    """

    def __init__(self, loop: Loop, start: tuple[object, ...]) -> None:
        self.loop, self.start = loop, snapshot(list(start))
        self._reports = len(parent().loops)
        self.opened = [_opened(n, v) for n, v in zip(loop.names.names, start, strict=True)]
        self.forms = {k: form_of(o) for k, o in enumerate(self.opened) if o is not None and self._is_guessed(k, o)}
        self.counts = Counts()
        self.dropped: dict[int, Unset] = {}
        self.unset: dict[int, Unset] = {}
        self.body: TracedBody
        self.given: dict[int, list[Tracer]]
        self.after: list[Opened] = []

    def _is_guessed(self, k: int, opened: Opened) -> bool:
        arrays = any(isinstance(a, Tracer) and a.memory.access != NUMBER for a in opened.leaves)
        return bool(opened.arrays) and (not arrays or self.loop.names.names[k] in self.loop.rebound)

    def trace_body(self) -> None:
        """Trace a turn, with the names that are carried as arguments."""
        del parent().loops[self._reports :]  # of loops inside, which are traced again
        self.body = TracedBody("step", self.loop.names)
        self.counter = self.body.argument(ArrayType(int64, ()), True) if self.loop.turns is not None else None
        if self.counter is not None and self.loop.turns is not None and not self.loop.turns.is_computed:
            self.body.recorder.counter = Counter(self.counter.value, size_dim(self.loop.turns.count) - 1)
        start = self.arguments(self.body)
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

    def arguments(self, body: TracedBody) -> tuple[object, ...]:
        """The values that names begin a turn with: arguments where they are carried."""
        values = [self.dropped.get(k, value) for k, value in enumerate(self.start)]
        numbers = [body.argument(ArrayType(int64, ()), False).value for _ in self.counts.carried]
        arrays = {
            k: [body.argument(c.stored(self.counts.bounds), c.weak) for c in form] for k, form in self.forms.items()
        }
        given: dict[int, list[Tracer]] = {}
        with resumed(body.recorder):
            turn = body.recorder.index() if len(numbers) < len(self.counts.all) else None
            sizes = self.counts.sizes(body.recorder, numbers, turn)
            for k, form in self.forms.items():
                if self.is_list(k):
                    body.recorder.growable.update(array.value for array in arrays[k])
                given[k] = [sliced(a, c.sized(sizes)) for a, c in zip(arrays[k], form, strict=True)]
                values[k] = self.shape(k).closed(list(given[k]))
        if body is self.body:
            self.given = given
            self.counts.begin(sizes)
        self.began = tuple(values)
        return self.began

    def shape(self, k: int) -> Opened:
        """The structure of a carried value: that from before the loop, or what the body gives where nothing was set."""
        found = self.opened[k]
        return found if found is not None else self.after[k]

    def is_list(self, k: int) -> bool:
        """Whether it is a list of the program's, whose items are counted."""
        return self.loop.names.names[k].startswith(LIST)

    def _lists(self) -> list[object]:
        """The items of the program's lists."""
        return [value for k, value in enumerate(self.loop.names.get()) if self.is_list(k)]

    # --- the number of turns ---

    def known_turns(self) -> KnownTurns:
        """What is known of the number of turns."""
        turns = self.turns()
        exact = turns if self.loop.test is None or self.holds_always() else None
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

    def turns(self) -> Dim | None:
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

    def _flags(self) -> list[int]:
        """The numbers of the flags that end loops."""
        names = enumerate(self.loop.names.names)
        return [k for k, name in names if name.startswith(("_zenith_broke", "_zenith_returned"))]

    def holds_always(self) -> bool:
        """Whether no turn sets a flag that ends the loop."""
        return not any(k in self.forms or k in self.unset for k in self._flags())

    def runs(self) -> bool:
        """Whether there is a turn for sure."""
        turns = self.loop.turns
        if turns is None or turns.is_computed:
            return self.loop.enters
        try:
            return parent().holds(size_dim(turns.count), ">=", 1)
        except VaryingSize:
            return False


def _opened(name: str, value: object) -> Opened | None:
    return None if isinstance(value, Unset) else open_value(name, value)


def form_of(opened: Opened) -> Form:
    """How the arrays of a name are carried that begins with these."""
    rows = zip(opened.arrays, opened.types, opened.weak, strict=True)
    return [Carried(type, weak, space=common_space([array])) for array, type, weak in rows]
