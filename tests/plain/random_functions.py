"""Random Python functions of two arrays and numbers: loops, branches, writes, slices, exits, names that share arrays.

All numbers are small multiples of powers of two, so that sums of them are exact in any order and no condition hangs on
rounding.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial

from tests.plain.random_algebra import SETTLE, compute
from tests.plain.random_lists import collect
from tests.plain.random_lookups import look_up
from tests.plain.random_sequences import join

FLOATS = ("s", "t", "r")
INTS = ("k", "m")
ARRAYS = ("u", "v", "w")


@dataclass
class Writer:
    """The text of one function; ``counters`` are the loops' variables, which are integers, and ``items`` numbers."""

    random: random.Random
    lines: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    loops: int = 0
    budget: int = 26  # of statements
    number: int = 0
    shares: bool = False
    recurs: bool = False
    resizes: bool = False
    collects: bool = False
    raises: bool = False
    asks: bool = False
    holds: bool = False
    looks: bool = False
    computes: bool = False
    joins: bool = False

    def pick(self, *choices: str) -> str:
        """One of some texts."""
        return self.random.choice(choices)

    def line(self, depth: int, text: str) -> None:
        """A line of the function."""
        self.lines.append("    " * (depth + 1) + text)

    # --- expressions ---

    def integer(self) -> str:
        """An integer, which stays small."""
        names = [*INTS, "n", *self.counters]
        a, b = self.random.choice(names), self.random.choice(names)
        return self.pick(
            a, str(self.random.randint(-2, 5)), f"({a} + {b}) % 7", f"{a} - {self.random.randint(0, 3)}",
            f"abs({a}) % 5", f"({a} * 3 + {b}) // 2 % 11", f"min({a}, {b})", f"max({a}, {self.random.randint(0, 4)})",
            f"int(np.clip({self.random.choice(FLOATS)}, -1e9, 1e9)) % 6", f"({a} if {self.condition(1)} else {b})",
            f"small[{self.random.randint(0, 5)}]", f"small[{a} % 6] - 1",
        )  # fmt: skip

    def index(self) -> str:
        """An index of an array of at least four elements."""
        return self.pick("0", "1", "-1", "3", f"({self.integer()}) % len(u)", f"({self.integer()}) % 4", *(
            f"{c} % len(u)" for c in self.counters
        ))  # fmt: skip

    def part(self) -> str:
        """A slice, whose size may differ from turn to turn, or depend on values."""
        c = self.random.choice(self.counters or ["n"])
        i = self.integer()
        return self.pick(
            f":{c}", f"{c}:", f"{c} + 1:", f":n - {c}", f"{c}:{c} + 2", f"max(0, {c} - 1):{c} + 2", f":{i}", f"{i}:",
            f"{i}:{self.integer()}", f"-2:{c}", f":{c} // 2", f"{c}::2", f"{c} + 1:0:-1",
            f"small[2]:n - small[{c} % 6]",
        )  # fmt: skip

    def sum_of_part(self) -> str:
        """A sum over a part of an array."""
        a, b, part = self.random.choice(ARRAYS), self.random.choice(ARRAYS), self.part()
        return "0.125 * " + self.pick(
            f"{a}[{part}].sum()", f"np.sum({a}[{part}] - {b}[{part}])", f"np.sort({a}[{a} > 0.5]).sum()",
            f"np.sum({a}[np.nonzero({a} > {b})[0]])", f"len({a}[{a} <= 0.25])", f"np.flatnonzero({a} > 0.0).sum()",
            f"np.sum({a}[{part}][::-1])", f"np.concatenate(({a}[{part}], {b}[:2])).sum()",
        )  # fmt: skip

    def number_(self, deep: int = 0) -> str:
        """A float."""
        names = [*FLOATS, *self.items, "a"]
        a, b = self.random.choice(names), self.random.choice(names)
        simple = [a, b, f"{self.random.choice(ARRAYS)}[{self.index()}]", str(self.random.randint(-4, 4) * 0.5)]
        if deep > 1:
            return self.random.choice(simple)
        return self.pick(
            *simple, f"0.5 * ({self.number_(deep + 1)} - {self.number_(deep + 1)})", f"abs({a}) - 1.0",
            f"min({a}, {self.number_(deep + 1)})", f"max({a}, {b}, 0.25)",
            f"{self.random.choice(ARRAYS)}.sum() * 0.125",
            f"({a} if {self.condition(1)} else {self.number_(deep + 1)})", f"choose({a}, {self.number_(deep + 1)})",
            f"float({self.integer()})", self.sum_of_part(),
        )  # fmt: skip

    def array(self) -> str:
        """An array as long as the others."""
        a, b = self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        return self.pick(
            f"{a} * 0.5", f"0.5 * ({a} - {b})", f"{a}[::-1].copy()", f"np.where({a} > {b}, {a}, 1.0)", f"{a}.copy()",
            f"np.minimum({a}, {self.number_(1)})", "np.zeros(len(u))", f"np.roll({a}, 1)", f"abs({a}) - 1.0",
        )  # fmt: skip

    def condition(self, deep: int = 0) -> str:
        """A condition."""
        compared = self.pick("<", ">", "<=", ">=", "==", "!=")
        names = [*FLOATS, *self.items]
        simple = self.pick(
            f"{self.random.choice(names)} {compared} {self.random.randint(-3, 3) * 0.5}",
            f"{self.random.choice(INTS)} % {self.random.randint(2, 3)} == 0",
            f"{self.random.choice([*INTS, *self.counters])} {compared} {self.random.randint(0, 4)}",
            f"{self.random.choice(ARRAYS)}[{self.random.randint(0, 3)}] {compared} {self.random.choice(names)}",
        )
        if deep:
            return simple
        other = self.condition(1)
        return self.pick(
            simple, simple, f"{simple} and {other}", f"{simple} or {other}", f"not ({simple})",
            f"-1.0 < {self.random.choice(names)} <= 1.5", f"{self.random.choice(INTS)} in (0, 2, 3)",
        )  # fmt: skip

    # --- statements ---

    def block(self, depth: int, least: int = 1) -> None:
        """Some statements."""
        for _ in range(self.random.randint(least, 3)):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement(depth)
        if self.budget <= 0:
            self.line(depth, "pass")

    def statement(self, depth: int) -> None:
        """A statement of one line, or a loop or branch."""
        compound = [self.branch, self.for_loop, self.for_loop, self.while_loop] if depth < 3 else []
        simple = [self.assign, self.assign, self.write, self.write, self.select, *[self.share] * self.shares]
        simple += [self.recur] * self.recurs + [self.resize, self.resize] * self.resizes
        simple += [partial(collect, self), partial(collect, self)] * (self.collects and depth < 2)
        simple += [self.hold, self.hold] * self.holds
        simple += [partial(look_up, self), partial(look_up, self)] * (self.looks and depth < 2)
        simple += [partial(compute, self), partial(compute, self)] * (self.computes and depth < 2)
        simple += [partial(join, self), partial(join, self)] * (self.joins and depth < 2)
        jumps = [self.jump] if depth else []
        simple += [self.check] * self.raises + [self.ask] * (self.asks and depth < 2)
        self.random.choice([*compound, *simple, *jumps])(depth)

    def assign(self, depth: int) -> None:
        """A number or an array gets another value."""
        self.line(depth, self.pick(
            f"{self.random.choice(FLOATS)} = {self.number_()}", f"{self.random.choice(FLOATS)} += {self.number_()}",
            f"{self.random.choice(INTS)} = {self.integer()}", f"{self.random.choice(INTS)} += 1",
            f"{self.random.choice(ARRAYS)} = {self.array()}", "s, t = t, s",
            f"k, s = {self.integer()}, {self.number_()}",
        ))  # fmt: skip

    def write(self, depth: int) -> None:
        """Elements of an array change."""
        a = self.random.choice(ARRAYS)
        self.line(depth, self.pick(
            f"{a}[{self.index()}] = {self.number_()}", f"{a}[{self.index()}] += {self.number_()}",
            f"{a}[1:3] = {self.number_()}", f"{a}[:] = {self.array()}", f"{a} += {self.number_()}",
            f"{a}[1:] = 0.5 * {self.random.choice(ARRAYS)}[:-1]", f"{a}[{a} > 1.0] -= 1.0",
            f"touch({a}, {self.integer()})", f"{a}[{self.part()}] = {self.number_(1)}", f"{a}[{self.part()}] *= 0.5",
            f"{a}[{self.part()}] -= {self.number_(1)}",
            f"{a}[0], {a}[-1] = {a}[-1], {a}[0]", f"{a} *= 0.5", f"{a}[::2] -= 0.5",
            f"{a}[:4] = {a}[:4][::-1]", f"{a}[1:] = {a}[:-1]", f"{a}[::2] = {a}[::-1][::2]", f"{a}.sort()",
            f"{a}[{a} > 0.25] = {self.random.choice(ARRAYS)}[{a} > 0.25]", f"{a}[{a} > 0.5] = np.sort({a}[{a} > 0.5])",
        ))  # fmt: skip

    def select(self, depth: int) -> None:
        """What a mask selects is written, then read."""
        self.number += 1
        y, a, b = f"y{self.number}", self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        mask = self.pick(f"{a} > 0.25", f"{a} > {b}", f"abs({b}) <= 1.0", f"np.nonzero({a} != {b})[0]")
        self.line(depth, f"{y} = {a}[{mask}]")
        for _ in range(self.random.randint(0, 3)):
            self.line(depth, self.pick(
                f"{y}[:] = {self.number_(1)}", f"{y} *= 0.5", f"{y}[1:] -= 0.5", f"{y}.sort()", f"{y} = {y}[::-1]",
                f"{y}[::-1][:2] = 0.25", f"{y}[{y} > 0.5] = 0.5", f"z{y} = {y}[1:]; z{y} += 1.0",
                f"if len({y}) > 1: {y}[-1] -= {self.number_(1)}", f"if len({y}): {y}[0] = 0.5", f"{a}[{mask}] = {y}",
                f"{y}[:2] = {y}[:2][::-1]", f"{y} = np.concatenate(({y}, {b}[:2]))",
            ))  # fmt: skip
        self.line(depth, self.pick(
            f"s += 0.125 * {y}.sum()", f"k = len({y})", f"t = 1.0 if len({y}) == len({b}[{b} > 0.0]) else r",
            f"r = {y}[{self.integer()} % len({y})] if len({y}) else 0.25", f"m = len({y}) % 3",
            f"k = min(len({y}), m)", f"for e{y} in {y}: t = 0.5 * (t + e{y})",
            f"r = {y}[-3:].sum() if len({y}) - 2 else 0.25",
        ))  # fmt: skip

    def resize(self, depth: int) -> None:
        """An array becomes shorter or longer in a branch or loop."""
        self.number += 1
        y, a, i = f"y{self.number}", self.random.choice(ARRAYS), f"i{self.number}"
        self.line(depth, f"{y} = {self.pick(self.array(), f'{a}[{a} > -0.5]', f'{a}[1:]', a, 'np.zeros(0)')}")
        head = self.pick(
            f"if {self.condition()}:", f"for {i} in range({self.pick('n', '3', 'abs(k) % 4', f'len({y})')}):",
            f"for {i} in {a}:", f"while len({y}) > {self.random.randint(1, 3)}:",
        )  # fmt: skip
        self.line(depth, head)
        if head.startswith("while"):
            self.line(depth + 1, f"{y} = {y}[{self.pick('1:', ':-1', '::2', f'1:][{y}[1:] <= {y}[0]')}]")
        for _ in range(self.random.randint(1, 2)):
            self.line(depth + 1, self.pick(self.resized(y, a, head), self.resized(y, a, head), self.used(y)))
        if head.startswith("if") and self.random.random() < 0.5:
            self.line(depth, "else:")
            self.line(depth + 1, self.resized(y, a, head))
        self.line(depth, self.used(y))

    def resized(self, y: str, a: str, head: str) -> str:
        """An assignment after which an array may have another size; in a ``while`` it has no more elements."""
        kept = self.pick(f"{y} > {self.number_(2)}", f"np.nonzero({y})[0]", "1:", ":-1", f"abs({y}) != 0.5", "::-1")
        same = self.pick(f"0.5 * {y}", f"{y} - 0.25", f"{y}[{kept}]", f"np.sort({y})")
        if head.startswith("while"):
            return f"{y} = {same}"
        longer = self.pick(f"np.append({y}, {self.number_(2)})", f"np.concatenate(({y}, {a}[:2]))")
        return self.pick(
            f"{y} = {same}", f"{y} = {longer}", f"if {self.condition(1)}: {y} = {self.pick(same, longer)}",
            f"{y} = ({same} if {self.condition(1)} else {y})", f"{y}[:2] -= 0.5",
            f"{y} = np.r_[{y}, {self.number_(2)}]",
        )  # fmt: skip

    def used(self, y: str) -> str:
        """What is read of an array of any size."""
        return self.pick(
            f"s = 0.5 * s + 0.125 * {y}.sum()", f"k = len({y})", f"t = {y}[-1] if len({y}) else 0.25",
            f"if len({y}) > 1: t = {y}[1] - {y}[:2].min()", f"m = np.count_nonzero({y} > s)",
        )  # fmt: skip

    def share(self, depth: int) -> None:
        """Names come to share an array, or change places."""
        a, b = self.random.sample(ARRAYS, 2)
        self.line(depth, self.pick(
            f"{a}, {b} = {b}, {a}", f"{a} = {b}", f"view = {a}[1:]; view[0] = {self.number_()}",
            f"{a} = {b}[::-1]", f"{a}[:] = {b}", f"{a} = {b}.copy()",
        ))  # fmt: skip

    def recur(self, depth: int) -> None:
        """A loop that makes what a kernel of its own rests on: recurrences, counters, quotients, circles, windows."""
        self.number += 1
        i, a, b = f"i{self.number}", self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        self.random.choice([self.sweep, self.sweep, self.counted, self.halving, self.circle, self.windows])(
            depth, i, a, b
        )

    def sweep(self, depth: int, i: str, a: str, b: str) -> None:
        """Turns read what the ones before have stored."""
        head, before = self.random.choice([
            (f"range(1, len({a}))", f"{a}[{i} - 1]"), (f"range(len({a}))", f"{a}[({i} - 1) % len({a})]"),
            (f"range(len({a}) - 2, -1, -1)", f"{a}[{i} + 1]"),
        ])  # fmt: skip
        self.line(depth, f"for {i} in {head}:")
        self.line(depth + 1, self.pick(
            f"{a}[{i}] = 0.5 * ({before} + {b}[{i}])", f"np.add.at({a}, {i}, -0.5 * {before})",
            f"if {i} > 1: {a}[{i}] = {before} - 0.5", f"{a}[0] = 0.5 * {a}[0] + {a}[{i}]",
            f"{a}[{i}] = ({before} if {i} > 0 and {i} < len({a}) - 1 else 0.0) - 0.25",
            f"{b}[{i}] = {before}; {a}[{i}] = 0.5 * {before} - {b}[{i}]",
            f"{a}[{i}] = 0.5 * np.exp(-abs({before})) - np.sin({b}[{i}])", f"s = 0.5 * np.cos(s) + {before}",
        ))  # fmt: skip

    def nest(self, depth: int, i: str, a: str, b: str) -> None:
        """Loops in each other, of other lengths, in which the counters of the outer ones are used."""
        names = [f"{i}_{k}" for k in range(self.random.randint(2, 3))]
        for k, counter in enumerate(names):
            first, last = self.pick("", "1, "), self.pick(f"len({a})", f"len({b})", "4", "n", *names[:k])
            self.line(depth + k, f"for {counter} in range({first}{last}):")
        used = self.random.choice(names)
        self.line(depth + len(names), self.pick(
            f"s = 0.5 * s + {a}[{used} % len({a})]", f"s = 0.5 * s - {a}[{used}]",
            f"{b}[{used}] = 0.5 * {a}[{used}] - s",
        ))  # fmt: skip

    def counted(self, depth: int, i: str, a: str, b: str) -> None:
        """A counter that the loop moves, and what is left of it."""
        self.line(depth, f"{i} = {self.integer()} % 3")
        self.line(depth, f"while {i} < {self.pick('n', '9')}:")
        self.line(depth + 1, self.pick(f"s += 0.125 * (n - {i})", f"{a}[{i} % 4] -= 9 - {i}", f"r = n - {i} - 1.0"))
        self.line(depth + 1, f"{i} += 1")
        self.line(depth, self.pick(f"k = n - {i}", f"t = 9.0 - {i}", f"{b}[0] -= {i}"))

    def halving(self, depth: int, i: str, a: str, b: str) -> None:
        """Halves or thirds of an array, then of its first part."""
        parts = self.random.randint(2, 3)
        self.line(depth, f"h{i} = {self.pick(f'len({a})', 'n', self.integer())}")
        self.line(depth, f"while h{i} > {self.random.randint(0, 1)}:")
        self.line(depth + 1, f"h{i} = h{i} // {parts}")
        self.line(depth + 1, f"for {i} in range(h{i}):")
        self.line(depth + 2, self.pick(
            f"{a}[{i}] = 0.5 * ({b}[{parts} * {i}] - {b}[{parts} * {i} + 1])", f"{a}[h{i} + {i}] -= 0.5 * {b}[{i}]",
            f"{a}[{parts} * h{i} - 1 - {i}] = {b}[{i}] - 0.5", f"s = 0.5 * s + {a}[{i} // {parts}]",
        ))  # fmt: skip
        self.line(depth, f"{a}[h{i}] += 0.25")

    def circle(self, depth: int, i: str, a: str, b: str) -> None:
        """Neighbours on a circle."""
        period = self.pick(f"len({a})", f"len({a})", "n", "3")
        offset = self.pick(f"{i} + 1", f"{i} - 1", f"{i} - 2", f"2 * {i}", f"{i} + k", f"3 - {i}")
        self.line(depth, f"for {i} in range({self.pick(f'len({a})', '4', 'n')}):")
        if self.random.random() < 0.4:  # what is known there is not known after it
            self.line(depth + 1, f"if {i} >= 2:")
            self.line(depth + 2, f"s = 0.5 * s + {a}[{self.pick(f'({i} - 2) // 2', f'5 % ({i} - 1) % 3', f'{i} - 2')}]")
            offset = self.pick(offset, f"{i} - 2")
            period = self.pick(period, f"len({a})")
            self.line(depth + 1, f"s = 0.5 * s - {a}[{i} - 2]")
        self.line(depth + 1, self.pick(
            f"s = 0.5 * s - {a}[({offset}) % {period}]", f"{b}[({offset}) % {period}] = 0.5 * {a}[{i}]",
            f"{a}[({offset}) % {period}] -= 0.5 * {a}[{i} % {period}]",
        ))  # fmt: skip

    def windows(self, depth: int, i: str, a: str, b: str) -> None:
        """Reductions of windows of a matrix."""
        size, table, j = self.pick("2", "3", "n // 2", "n - 1"), f"m{i}", f"j{i}"
        self.line(depth, f"{table} = {a}.reshape(-1, 1) * {b}[1:] - 0.5")
        self.line(depth, f"for {i} in range(max(0, len({a}) - {size})):")
        self.line(depth + 1, f"for {j} in range(max(0, len({a}) - 1 - {size})):")
        window = f"{table}[{i} : {i} + {size}, {j} : {j} + {size}]"
        self.line(depth + 2, self.pick(
            f"s = 0.5 * s + 0.125 * {window}.sum()", f"{table}[{i}, {j}] = 0.125 * np.sum({window} * {window})",
            f"{table}[{i}, {j}] = {table}[{i}, {j}] - 0.125 * np.sum({table}[{i}] * {table}[0])",
        ))  # fmt: skip
        self.line(depth, f"{b}[0] += 0.125 * {table}.sum()")

    def branch(self, depth: int) -> None:
        """An ``if``, perhaps with ``elif`` and ``else``."""
        self.line(depth, f"if {self.condition()}:")
        self.block(depth + 1)
        if self.random.random() < 0.25:
            self.line(depth, f"elif {self.condition()}:")
            self.block(depth + 1)
        if self.random.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1)

    def for_loop(self, depth: int) -> None:
        """A ``for`` over a range or arrays."""
        self.number += 1
        i, q = f"i{self.number}", f"q{self.number}"
        a, b = self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        counters, items = list(self.counters), list(self.items)
        kind = self.random.randrange(9)
        head = (
            f"{i} in range({self.pick('n', 'len(u)', '3', '10', 'abs(k) % 4', 'n - 2', *self.counters)})",
            f"{i} in range({self.pick('1', 'm % 3', *self.counters)}, {self.pick('n', '5', *self.counters)})",
            f"{i} in range(n - 1, -1, -1)",
            f"{i} in range(0, {self.pick('n', '9')}, 2)", f"{q} in {a}", f"{i}, {q} in enumerate({a})",
            f"{q}, {i} in zip({a}, range(n))", f"{i} in reversed(range(n))", f"{q}, p{self.number} in zip({a}, {b})",
        )[kind]  # fmt: skip
        self.line(depth, f"for {head}:")
        self.counters += [i] if kind not in (4, 8) else []
        self.items += [q] if kind in (4, 5, 6, 8) else []
        self.loop_body(depth, counters, items)

    def while_loop(self, depth: int) -> None:
        """A ``while`` that ends, since it counts."""
        self.number += 1
        c = f"c{self.number}"
        counters, items = list(self.counters), list(self.items)
        self.line(depth, f"{c} = 0")
        bound = self.pick("5", "n", "abs(k) % 6")
        test = self.pick(f"{c} < {bound}", f"{c} < {bound} and {self.condition(1)}", f"({c} := {c} + 1) < {bound}")
        self.line(depth, f"while {test}:")
        if ":=" not in test:
            self.line(depth + 1, f"{c} += 1")
        self.counters.append(c)
        self.loop_body(depth, counters, items)

    def loop_body(self, depth: int, counters: list[str], items: list[str]) -> None:
        """The body of a loop, after which its names may not be set."""
        self.loops += 1
        self.block(depth + 1)
        self.loops -= 1
        self.counters, self.items = counters, items
        if self.random.random() < 0.15:
            self.line(depth, "else:")
            self.block(depth + 1)

    def jump(self, depth: int) -> None:
        """An exit, if a condition holds."""
        self.line(depth, f"if {self.condition()}:")
        raised = [self.raised()] if self.raises else []
        self.line(depth + 1, self.pick(*(["break", "continue"] if self.loops else []), *raised, "return s, k, u * 1.0"))

    def ask(self, depth: int) -> None:
        """Python's functions of sequences."""
        a, b = self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        s, k = self.random.choice(FLOATS), self.random.choice(INTS)
        self.line(depth, self.pick(
            f"{s} = 0.5 if any(q > {self.number_(2)} for q in {a}) else -0.5", f"{k} = int(all(q != {s} for q in {a}))",
            f"{s} = 0.25 if all({a}[j] <= {b}[j] for j in range(len({a})) if {a}[j] > 0) else {s}",
            f"{s} = sorted({a})[{self.pick('0', '-1', '2')}]", f"{k} = max(range(len({a})), key=lambda j: {a}[j])",
            f"{k} = sorted(range(len({a})), key=lambda j: abs({a}[j]), reverse={self.pick('True', 'False')})[1]",
            f"{s} = min({a}, key=lambda q: abs(q - {s}))", f"{s} = 0.5 * sum(map(lambda q: 0.25 * q, {a}))",
            f"for q, p in sorted(zip({a}, {b})): {s} = 0.5 * {s} + q - 0.5 * p",
            f"{k} = len(list(filter(lambda q: q > {self.number_(2)}, {a})))",
            f"{s} = max((q, j) for j, q in enumerate({a}))[1] * 0.5",
        ))  # fmt: skip

    def hold(self, depth: int) -> None:
        """Names of objects that are no arrays, bools that are counted, and what Python's numbers alone do."""
        s, k = self.random.choice(FLOATS), self.random.choice(INTS)
        word, truth = self.pick("'high'", "'low'"), self.pick("True", "False")
        self.line(depth, self.pick(
            f"if {self.condition()}: word = {word}", f"word = {word}", f"if word == {word}: {s} = 0.5 * {s} - 0.25",
            f"{k} = len(word) % 3", f"held = {self.pick(self.number_(1), 'None')}",
            f"if held is None: held = {self.number_(1)}", f"if held is not None: {s} = 0.5 * held",
            f"if {self.condition()}: held = {self.pick(self.number_(1), 'None')}",
            f"flag = {self.pick('True', 'False', f'({self.condition(1)})')}", f"if flag is {truth}: {k} += 1",
            f"if {self.condition()}: flag = not flag", f"{k} = bool({k}) + bool({k} > 2) - bool({s} > 0.5)",
            f"{k} = 2 ** ({k} % 3) - 1", f"{s} = 2 ** -2 * {s}", f"{k} = round({self.number_(1)}) % 5",
            f"{k} = np.argmax([{self.number_(1)}, {self.number_(1)}, 0.25])",
            f"{s} = np.max([{s}, {self.number_(1)}]) * 0.5",
        ))  # fmt: skip

    def raised(self) -> str:
        """A ``raise``, of a message with values."""
        shown = self.pick(f"{{{self.random.choice(FLOATS)}:.3f}} of {{n}}", f"{{{self.random.choice(INTS)}}}", "no")
        kind = self.pick("RuntimeError", "ArithmeticError", "LookupError")
        k = self.random.choice(INTS)
        return self.pick(f"raise {kind}(f'{shown}')", f"raise {kind}", f"raise {kind}('k is', {k})")

    def check(self, depth: int) -> None:
        """An exception where a condition does not hold, here or in a function that is called."""
        self.line(depth, self.pick(
            f"assert {self.condition()}", f"assert {self.condition()}, f'not {{k}}'",
            f"if {self.condition()}: {self.raised()}", f"positive({self.number_()})",
            f"{self.random.choice(FLOATS)} = positive({self.number_(1)})",
            f"{self.random.choice(ARRAYS)}[{self.index()}] = positive({self.number_(1)})",
        ))  # fmt: skip


def random_function(seed: int) -> str:
    """The text of a function ``f(u, v, a, k, n)``, which changes ``u`` and ``v`` unless it makes others of them."""
    writer = Writer(random.Random(seed), budget=5 + seed * 7 % 19)
    writer.recurs = seed % 3 == 2
    writer.resizes, writer.collects, writer.raises = seed % 4 == 1, seed % 4 == 3, seed % 5 == 4
    writer.asks, writer.holds, writer.looks = seed % 7 == 3, seed % 6 == 4, seed % 8 == 6
    writer.computes, writer.joins = seed % 9 == 7, seed % 11 == 5
    writer.shares = writer.random.random() < 0.3
    copied = writer.random.random() < 0.6
    writer.line(0, "def choose(p, q):")
    writer.line(1, f"if {writer.pick('p > q', 'p + q > 0.5', 'abs(p) < 1.0')}:")
    writer.line(2, "return p - 0.5")
    writer.line(1, "return q")
    writer.line(0, "def touch(array, j):")
    writer.line(1, "if j > 1:")
    writer.line(2, "array[j % len(array)] = 0.5")
    writer.line(1, "else:")
    writer.line(2, "array[0] -= 1.0")
    if writer.raises:
        writer.line(0, "def positive(p):")
        writer.line(1, f"if p < {writer.pick('0', '-1.5')}:")
        writer.line(2, "raise ArithmeticError(f'{p:.2f}')")
        writer.line(1, "return 0.5 * p")
    if writer.computes:
        writer.lines += SETTLE.strip("\n").splitlines()
    for name in ARRAYS[:2] if copied else ():
        writer.line(0, f"{name} = {name}.copy()")
    writer.line(0, "w = np.zeros(len(u))")
    writer.line(0, "small = np.arange(6, dtype=np.uint8)")
    writer.line(0, "s, t, r, m = a, 0.5, 0.0, 1")
    if writer.holds:
        writer.line(0, "word, held, flag = 'low', None, False")
    while writer.budget > 0:
        writer.block(0, least=2)
    writer.line(0, "return s, k, u * 1.0")
    body = "\n".join(writer.lines)
    return f"import itertools\n\nimport numpy as np\n\n\ndef f(u, v, a, k, n):\n{body}\n"
