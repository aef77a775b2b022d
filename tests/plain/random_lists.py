"""Lists in random functions: what loops and branches append, what is read of it, names that share lists or items."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plain.random_functions import Writer

ARRAYS = ("u", "v", "w")


def collect(w: Writer, depth: int) -> None:
    """A list to which a loop or branch appends numbers, pairs or arrays."""
    w.number += 1
    y, a, i = f"y{w.number}", w.random.choice(ARRAYS), f"i{w.number}"
    kind = w.random.choice(["number", "number", "pair", "array"])
    if kind == "number" and w.random.random() < 0.3:
        kept = w.pick("", "", f" if q{i} > 0.25", f" if {w.condition(1)}")
        w.line(depth, f"{y} = [{w.pick(f'q{i} * 0.5', f'q{i}', w.number_(2))} for q{i} in {a}{kept}]")
    else:
        w.line(depth, f"{y} = {w.pick('[]', '[]', f'[{_item(w, kind, a)}]')}")
        _filled(w, depth, y, a, i, kind)
    if w.random.random() < 0.3:
        item = _item(w, kind, a)
        w.line(depth, w.pick(
            f"z{y} = {y}; z{y}.append({item})", f"{y}.append({item})", f"{y} = {y}[1:]", f"{y}.pop() if {y} else None",
            f"{y} += [{item}]",
        ))  # fmt: skip
    for _ in range(w.random.randint(1, 2)):
        w.line(depth, _used(w, y, kind))


def _filled(w: Writer, depth: int, y: str, a: str, i: str, kind: str) -> None:
    head = w.pick(
        f"for {i} in range({w.pick('n', '10', 'abs(k) % 4', f'len({a})', *w.counters)}):", f"for {i} in range(n):",
        f"for q{i} in {a}:", f"if {w.condition()}:", f"while len({y}) < {w.pick('n', '4')}:",
        f"for {i}, q{i} in enumerate({a}):",
    )  # fmt: skip
    w.line(depth, head)
    if head.startswith("while"):
        w.line(depth + 1, f"{y}.append({_item(w, kind, a)})")
    for _ in range(w.random.randint(1, 3)):
        w.line(depth + 1, w.pick(
            f"{y}.append({_item(w, kind, a)})", f"{y}.append({_item(w, kind, a)})",
            f"if {w.condition(1)}: {y}.append({_item(w, kind, a)})",
            f"for j{i} in range({w.pick('2', 'k % 3', 'len(u)')}): {y}.append({_item(w, kind, a)})",
            f"{a}[0] = {w.number_(2)}", f"{a} = {w.pick(f'0.5 * {a}', f'{a} - 0.25')}", f"{a} *= 0.5",
            _used(w, y, kind),
        ))  # fmt: skip
    if head.startswith("for") and w.random.random() < 0.25:
        w.line(depth + 1, f"if {w.condition(1)}: {w.pick('break', 'continue')}")


def _item(w: Writer, kind: str, a: str) -> str:
    if kind == "pair":
        return f"({w.pick(w.number_(2), '1.5')}, {w.pick(f'{a}[1]', w.number_(2))})"
    if kind == "array":
        return w.pick(a, f"{a}.copy()", f"{a}[::-1]", f"0.5 * {a}", f"{a}[1:]", f"{a}[:2]")
    return w.number_(1)


def _used(w: Writer, y: str, kind: str) -> str:
    """What is read of a list."""
    k = w.integer()
    if kind == "pair":
        return w.pick(
            f"s = 0.5 * s + 0.125 * sum([p[1] for p in {y}])", f"t = {y}[-1][0] if len({y}) else 0.25",
            f"for p, o in {y}: r = 0.5 * r + p - o", f"s += 0.125 * np.array({y}).sum()", f"k = len({y})",
        )  # fmt: skip
    if kind == "array":
        return w.pick(
            f"s += 0.125 * np.array({y}).sum() if len({y}) else 0.5", f"t = {y}[-1][0] if {y} else 0.25",
            f"for p in {y}: r = 0.5 * r + 0.125 * p.sum()", f"k = len({y})",
            f"s -= 0.125 * np.stack({y})[0].sum() if len({y}) else 0.5",
            f"t = 0.125 * np.concatenate({y}).sum() if len({y}) else 0.25",
        )  # fmt: skip
    return w.pick(
        f"s += 0.125 * np.array({y}).sum()", f"s = 0.5 * s + 0.125 * sum({y})", f"k = len({y})",
        f"t = {y}[-1] if len({y}) else 0.25", f"t = {y}[({k}) % len({y})] if {y} else 0.25",
        f"r = max({y}) if len({y}) else 0.25", f"for p in {y}: r = 0.5 * r + p",
        f"s += sum(p * o for p, o in zip({y}, {y}[1:])) * 0.125", f"m = len([p for p in {y} if p > 0.25]) % 3",
    )  # fmt: skip
