"""Sequences in random functions: lists and tuples that are joined, repeated and compared; endless iterators; wrapping.

Also NumPy's integer types of Python's integers, and texts of sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plain.random_functions import Writer


def join(w: Writer, depth: int) -> None:
    """A statement of one of these kinds."""
    w.number += 1
    w.random.choice([_lists, _lists, _tuples, _endless, _integers])(w, depth)


def _list(w: Writer) -> str:
    """A list of numbers, some of which the program makes."""
    a, c = w.pick("u", "v", "w"), w.pick(*(w.counters or ["n"]))
    return w.pick(
        f"[q * 0.5 for q in {a}]", f"[{w.number_(1)}, {w.number_(1)}]", f"[0.25] * {w.pick('n', '3', 'len(u)')}",
        f"[q for q in {a} if q > {w.number_(2)}]", f"list({a}[1:])", f"{a}.tolist()", f"[float(j) for j in range({c})]",
    )  # fmt: skip


def _lists(w: Writer, depth: int) -> None:
    y, k = f"y{w.number}", w.integer()
    parts = [_list(w), f"[{w.number_(1)}]", *([_list(w)] if w.random.random() < 0.3 else [])]
    w.random.shuffle(parts)
    w.line(depth, f"{y} = {' + '.join(parts)}")
    if w.random.random() < 0.5:
        w.line(depth, w.pick(
            f"{y} = {y} + [{w.number_(1)}]", f"{y} = [{w.number_(1)}] + {y}[1:]", f"{y} = {y} + {y}",
            f"if {w.condition()}: {y} = {y} + [0.5]",
        ))  # fmt: skip
    w.line(depth, w.pick(
        f"s = 0.5 * s + 0.125 * sum({y})", f"k = len({y}) % 5", f"t = {y}[({k}) % len({y})]",
        f"r = 0.125 * np.array({y}).sum()", f"t = max({y}) - min({y})", f"for q in {y}: r = 0.5 * r + 0.125 * q",
        f"if not [q for q in {y} if q > 9]: k = 3",
    ))  # fmt: skip


def _tuples(w: Writer, depth: int) -> None:
    s, a, i = w.pick("s", "t", "r"), w.pick("u", "v", "w"), f"i{w.number}"
    one, other = (f"({w.number_(1)}, {w.pick('k', 'm', '2')})" for _ in range(2))
    order = w.pick("<", "<=", ">", ">=", "==", "!=")
    if w.random.random() < 0.5:
        w.line(depth, w.pick(
            f"if {one} {order} {other}: {s} = 0.5 * {s} - 0.25", f"k = 1 if {one} {order} {other} else m",
            f"{s} = max({one}, {other})[0] * 0.5", f"t, k = min({one}, {other})",
            f"{s} = sum((0.25,) * len({a}) + (0.5,))", "t = (s, t, r)[k % 3]",
        ))  # fmt: skip
        return
    w.line(depth, f"best{i} = ({w.number_(2)}, 0)")
    w.line(depth, f"for {i} in range({w.pick('n', f'len({a})', '9')}):")
    w.line(depth + 1, w.pick(
        f"best{i} = max(best{i}, ({a}[{i} % len({a})], {i}))",
        f"if ({a}[{i} % len({a})], -{i}) {order} best{i}: best{i} = ({a}[{i} % len({a})], -{i})",
    ))  # fmt: skip
    w.line(depth, w.pick(f"s = 0.5 * best{i}[0]", f"k = best{i}[1] % 4"))


def _endless(w: Writer, depth: int) -> None:
    """A loop that goes over an endless iterator, and is left."""
    a, i = w.pick("u", "v", "w"), f"i{w.number}"
    head, item = w.pick(f"for {i} in itertools.count():", f"for {i} in itertools.count({w.pick('1', 'k', '0, 2')}):",
                        f"for {i}, o{i} in enumerate(itertools.cycle({a})):",
                        f"for {i}, o{i} in zip(itertools.count(1), {a}):"), "0.25"  # fmt: skip
    item = f"o{i}" if "o" + i in head else f"{a}[{i} % len({a})]"
    w.line(depth, head)
    w.line(depth + 1, f"if {i} > {w.pick('5', 'n', 'abs(k) + 2')}: break")
    if w.random.random() < 0.6:
        w.line(depth + 1, f"if {item} > {w.number_(2)}: {w.pick('break', 'break', 'k = 2')}")
    w.line(depth + 1, w.pick(f"s = 0.5 * s + {item}", f"{a}[0] -= 0.25", f"t = {item} - 0.5 * t"))


def _integers(w: Writer, depth: int) -> None:
    h, k = f"h{w.number}", w.integer()
    kind = w.pick("np.uint32", "np.int64", "np.uint64", "np.int32")
    w.line(depth, f"{h} = {kind}(abs({k}))")
    if kind == "np.int64":
        w.line(depth, f"{h} = {h} + np.int64({w.pick('2**62', '2**63 - 4', '6364136223846793005')})")
    w.line(depth, w.pick(
        f"{h} = {h} * {kind}(1103515245) + {kind}(12345)", f"{h} = {h} * {h} + {kind}(7)", f"{h} = {h} + {h}",
        f"for j{h} in range({w.pick('3', 'n', '12')}): {h} = {h} * {kind}(31) + {kind}(j{h})",
    ))  # fmt: skip
    w.line(depth, w.pick(
        f"k = int({h} % {kind}(7))", f"if {h} + {kind}(5) < {h}: s = 0.5 * s",
        f"if {h} * {kind}(2) >= {kind}(9): k = 1",
        f"s = float({h} // {kind}(3) % {kind}(16)) * 0.25", "k = len(str(len(u))) + len(f'{len(v)}')",
    ))  # fmt: skip
