"""What random functions look up: items of lists and dicts, the first that fits, ``match``, ``else`` of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plain.random_functions import Writer


def look_up(writer: Writer, depth: int) -> None:
    """A statement, or a few, that look something up."""
    writer.number += 1
    writer.random.choice([_item, _first, _match, _else_of_loop, _indexed, _table, _table])(writer, depth)


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


def _table(writer: Writer, depth: int) -> None:
    """A list, or a list of lists, whose items a loop sets, by one name or two."""
    y, i, a, s = f"y{writer.number}", f"i{writer.number}", writer.pick("u", "v", "w"), writer.pick("s", "t")
    rows = writer.random.random() < 0.3
    one = f"[{writer.pick('0.0', '0.5', s)}] * {writer.pick('n', f'len({a})', 'n', '5')}"
    writer.line(depth, f"{y} = [{one} for _ in range({writer.pick('n', '3')})]" if rows else f"{y} = {one}")
    of = f"{y}[{writer.integer()} % 3]" if rows else y
    if writer.random.random() < 0.3:
        writer.line(depth, f"z{y} = {writer.pick(of, y, f'{y}[:]')}")
        of = writer.pick(of, f"z{y}") if not rows else of
    writer.line(depth, f"for {i} in range({writer.pick('n', f'len({a})', 'm', '4')}):")
    if writer.random.random() < 0.4:
        writer.line(depth + 1, f"if {writer.condition()}:")
        other = f"{of}[{i} % 4] = {writer.number_(1)}"
        writer.line(depth + 2, writer.pick(f"{y} = {y}[:]", other, f"{y}[-1] = {y}[0]"))
    writer.line(depth + 1, writer.pick(
        f"{of}[{i} % 4] = 0.5 * {a}[{i} % 4]", f"{of}[{i} % len({of})] += 0.5", f"{of}[-1] = {of}[{i} % 4] - 0.5",
        f"{of}[{i} % 4], {of}[0] = {of}[0], {of}[{i} % 4]", f"{of}[({writer.integer()}) % 4] = {writer.number_(1)}",
    ))  # fmt: skip
    read = f"{y}[{writer.pick('0', '-1', '1')}]" if rows else y
    writer.line(depth, writer.pick(
        f"{s} = 0.5 * {s} + 0.125 * sum({read})", f"{s} = 0.5 * {read}[{writer.pick('0', '-1', f'k % len({read})')}]",
        f"{s} = min({read}) - 0.25", f"k = len({y}) + int({read}[0])",
    ))  # fmt: skip


def _indexed(writer: Writer, depth: int) -> None:
    """A list of numbers as an index."""
    a, b, y = writer.pick("u", "v", "w"), writer.pick("u", "v", "w"), f"y{writer.number}"
    writer.line(depth, f"{y} = [j for j in range(len({a})) if {a}[j] > {writer.number_(2)}]")
    writer.line(depth, writer.pick(
        f"s = 0.5 * s + 0.125 * {b}[{y}].sum()", f"{b}[{y}] = {writer.number_(2)}", f"{b}[{y}] *= 0.5",
    ))  # fmt: skip
