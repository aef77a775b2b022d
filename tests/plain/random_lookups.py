"""What random functions look up: items of lists and dicts, the first that fits, ``match``, ``else`` of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plain.random_functions import Writer


def look_up(writer: Writer, depth: int) -> None:
    """A statement, or a few, that look something up."""
    writer.number += 1
    writer.random.choice([_item, _item, _first, _match, _else_of_loop, _indexed])(writer, depth)


def _item(writer: Writer, depth: int) -> None:
    """An item of a list, tuple or dict."""
    i, s, k = writer.integer(), writer.pick("s", "t", "r"), writer.pick("k", "m")
    writer.line(depth, writer.pick(
        f"{s} = (0.5, -1.0, {s})[({i}) % 3]", f"{k} = [1, 4, 2, 0][({i}) % 4]",
        f"{s} = {{0: 0.5, 1: -0.25, 2: 1.0}}[({i}) % 3]", f"s = {{1: {s}, 3: 0.5}}[1 + ({i}) % 2 * 2]",
        f"p, q = [(0, 1), (1, 0), (0, -1)][({i}) % 3]; {k} = {k} % 5 + p - 2 * q",
        f"{s} = (u, v)[({i}) % 2][0] * 0.5", f"{k} = int({i}).bit_length()",
        f"{s} = [[0.5, {s}], [1.0, -0.5]][({i}) % 2][({k}) % 2]",
    ))  # fmt: skip


def _first(writer: Writer, depth: int) -> None:
    """The first item that fits, or another value."""
    a, x, s, k = writer.pick("u", "v", "w"), writer.number_(2), writer.pick("s", "t"), writer.pick("k", "m")
    writer.line(depth, writer.pick(
        f"{k} = next((j for j, q in enumerate({a}) if q > {x}), -1)",
        f"{s} = next((0.5 * q for q in {a} if q < {x}), {writer.number_(2)})",
        f"{k} = next((j for j in range(len({a}) - 1) if {a}[j] > {a}[j + 1]), len({a}))",
    ))  # fmt: skip


def _match(writer: Writer, depth: int) -> None:
    """A ``match`` of a small integer."""
    writer.line(depth, f"match ({writer.integer()}) % 5:")
    second = writer.pick("case 1 | 3:", "case 2:", f"case j if j > {writer.pick('1', '3')}:")
    for case in ("case 0:", second, "case _:"):
        writer.line(depth + 1, case)
        writer.block(depth + 2)


def _else_of_loop(writer: Writer, depth: int) -> None:
    """A name that the ``break`` of a loop sets, or its ``else``."""
    a, s, g, i = writer.pick("u", "v", "w"), writer.pick("s", "t"), f"g{writer.number}", f"i{writer.number}"
    head = writer.pick(f"{i}, e in enumerate({a})", f"{i} in range({writer.pick('n', '4', 'k')})")
    writer.line(depth, f"for {head}:")
    writer.line(depth + 1, f"if {writer.condition()}:")
    writer.line(depth + 2, f"{g} = {writer.pick(f'0.5 * {i}', writer.number_(1))}")
    writer.line(depth + 2, "break")
    writer.line(depth + 1, f"{s} = 0.5 * {s} - {a}[{i} % 4]")
    writer.line(depth, "else:")
    writer.line(depth + 1, f"{g} = {writer.pick('-0.5', writer.number_(1))}")
    writer.line(depth, f"{s} = 0.5 * {g}")


def _indexed(writer: Writer, depth: int) -> None:
    """A list of numbers as an index."""
    a, b, y = writer.pick("u", "v", "w"), writer.pick("u", "v", "w"), f"y{writer.number}"
    writer.line(depth, f"{y} = [j for j in range(len({a})) if {a}[j] > {writer.number_(2)}]")
    writer.line(depth, writer.pick(
        f"s = 0.5 * s + 0.125 * {b}[{y}].sum()", f"{b}[{y}] = {writer.number_(2)}", f"{b}[{y}] *= 0.5",
    ))  # fmt: skip
