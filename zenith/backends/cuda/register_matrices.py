"""Held matrices and their products, as code of a block of threads: sums stay in registers from product to product.

A warp has ``BAND`` rows of every held matrix, in the layout of its instructions' sums: lane l has of the rows
``l // 4`` and ``l // 4 + 8`` two neighbours in every eight columns (:mod:`zenith.backends.cuda.fragments`). So a row is
joined by the four lanes of a quad, and a matrix of sums is, rounded in pairs, the left operand of the next product:
neither needs shared memory. This is what the online softmax of FlashAttention-2 rests on (Dao, 2023).

Tiles of operands stand in shared memory as lines of 16-byte chunks, exchanged by an exclusive or with a key of the
line, as in :mod:`zenith.backends.cuda.operand_staging`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zenith.backends.cuda.index import Indices
from zenith.backends.cuda.operand_staging import CHUNK, SMALL, key
from zenith.backends.kernel import (
    BAND,
    NOWHERE,
    FoldRegisters,
    ForEachRegister,
    RegisterMatrix,
    RegisterProduct,
    StageTile,
)
from zenith.ir.dims import Dim, symbol
from zenith.ir.target import LANES
from zenith.ir.types import DType

HALVES = BAND // SMALL  # rows of a lane
QUAD = 4  # lanes that share a row
PAIR = 2  # neighbouring columns of a lane
ITEM = 2  # bytes of an element of a tile
WORDS = 4  # the most that one ldmatrix gives
PER_CHUNK = CHUNK // ITEM


def registers(held: RegisterMatrix) -> int:
    """How many numbers of what is held a thread has."""
    return HALVES * max(1, held.columns // SMALL * PAIR)


def threads(rows: int) -> int:
    """The threads of a team that holds so many rows."""
    return rows // BAND * LANES


def each(loop: ForEachRegister, before: list[str], body: list[str], indices: Indices) -> Iterator[str]:
    """The lines of a loop over held elements: those of a lane, in registers, which all have literal numbers."""
    u, guard = indices.kind, loop.height.static is None or loop.height.static < loop.rows
    yield f"for tile_half in range({HALVES}):"
    yield f"    {loop.row} = {u}(lane // {LANES} * {BAND} + lane % {LANES} // {QUAD} + {SMALL} * tile_half)"
    indent = "    "
    if guard:
        yield f"    if {loop.row} < {indices.typed(loop.height)}:"
        indent += "    "
    yield from (indent + line for line in before)
    if not loop.columns:
        return
    yield f"{indent}for tile_group in range({loop.columns // SMALL}):"
    yield f"{indent}    for tile_side in range({PAIR}):"
    indent += "        "
    yield f"{indent}{loop.column} = {u}({SMALL} * tile_group + lane % {QUAD} * {PAIR} + tile_side)"
    if loop.width.static is None or loop.width.static < loop.columns:
        yield f"{indent}if {loop.column} < {indices.typed(loop.width)}:"
        indent += "    "
    yield from (indent + line for line in body)


def places(loop: ForEachRegister, held: dict[str, RegisterMatrix]) -> dict[tuple[str, Dim], str]:
    """How the elements of this loop are written: held matrices as wide as it is, and held numbers of its rows."""
    row, found = symbol(loop.row), dict[tuple[str, Dim], str]()
    for name, h in held.items():
        if not h.columns:
            found[name, row] = f"{name}[tile_half]"
        elif h.columns == loop.columns:
            place = f"tile_group * {HALVES * PAIR} + tile_half * {PAIR} + tile_side"
            found[name, row * h.columns + symbol(loop.column)] = f"{name}[{place}]"
    return found


def fold(s: FoldRegisters, combine: Callable[[str, str], str], initial: str) -> Iterator[str]:
    """The lines of a fold along rows: a lane's own elements, then those of its quad by shuffles."""
    yield f"for tile_half in range({HALVES}):"
    yield f"    tile_joined = {initial}"
    yield f"    for tile_group in range({s.columns // SMALL}):"
    yield f"        for tile_side in range({PAIR}):"
    place = f"{s.source}[tile_group * {HALVES * PAIR} + tile_half * {PAIR} + tile_side]"
    yield f"            tile_joined = f32({combine('tile_joined', place)})"
    for distance in (1, 2):
        yield f"    tile_other = shuffle(tile_joined, {distance})"
        yield f"    tile_joined = f32({combine('tile_joined', 'tile_other')})"
    yield f"    {s.target}[tile_half] = f32({combine(f'{s.target}[tile_half]', 'tile_joined')})"


# --- tiles in shared memory ---


def _place(line: str, chunk: str, columns: int, at: Dim, indices: Indices) -> str:
    """The position of a chunk of a line of the tile that begins at a place."""
    first = "" if at == 0 else f"{indices.typed(at)} + "
    return f"{first}({line}) * {columns} + (({chunk}) ^ ({key(f'({line})', columns // PER_CHUNK)})) * {PER_CHUNK}"


def stage(s: StageTile, dtype: DType, team: int, wide: bool, indices: Indices) -> Iterator[str]:
    """The lines of a copy: 16 bytes at a time where ``wide``, alongside other work where the GPU can.

    Then a thread waits for what it copies where it waits for the others: at the next barrier.
    """
    u, source = indices.kind, s.source
    inside = f"tile_line < {indices.typed(s.height)} and tile_column < {indices.typed(s.width)}"
    at = indices.text(source.at + symbol("tile_line") * source.strides[0] + symbol("tile_column") * source.strides[1])
    length = PER_CHUNK if wide else 1
    per_line = s.columns // length
    yield f"tile_number = {u}(lane)"
    yield f"while tile_number < {s.rows * per_line}:"
    yield f"    tile_line = {u}(tile_number // {per_line})"
    yield f"    tile_column = {u}(tile_number % {per_line} * {length})"
    place = _place("tile_line", f"tile_column // {PER_CHUNK}", s.columns, s.at, indices)
    yield f"    tile_at = {u}({place} + tile_column % {PER_CHUNK})"
    if wide and s.ahead:
        yield f"    tile_count = {u}(0)"
        yield f"    if {inside}:"
        yield f"        tile_count = {u}({length})"
        yield f"    copy_async({s.target}, tile_at, {source.buffer}, {at}, tile_count)"
    elif wide:
        yield f"    if {inside}:"
        yield f"        store_{length}({s.target}, tile_at, load_{length}({source.buffer}, {at}))"
        yield "    else:"
        yield f"        for tile_side in range({length}):"
        yield f"            {s.target}[{u}(tile_at + tile_side)] = {dtype}(0)"
    else:
        yield f"    tile_element = {dtype}(0)"
        yield f"    if {inside}:"
        yield f"        tile_element = {source.buffer}[{at}]"
        yield f"    {s.target}[tile_at] = tile_element"
    yield f"    tile_number = {u}(tile_number + {team})"
    if wide and s.ahead:
        yield "commit_copies()"


# --- products ---


def product(p: RegisterProduct, indices: Indices) -> Iterator[str]:
    """The lines of a product; where the left operand is held, turns of the loop over terms are written out."""
    i, u, groups = p.instruction, indices.kind, p.columns // SMALL
    together = min(WORDS // i.right_words, groups)
    sign = "+=" if p.onto else "="
    yield f"# {p.target}[r, j] {sign} sum of {p.a}[r, k] * {p.b}[{'k, j' if p.transposed else 'j, k'}]"
    yield f"tile_lane = {u}(lane % {LANES})"
    yield f"tile_of_a = u32_local({i.left_words})"
    yield f"tile_of_b = u32_local({together * i.right_words})"
    if not p.onto:
        yield f"for tile_i in range({groups * i.sums}):"
        yield f"    {p.target}[tile_i] = f32(0)"
    turn = list(_turn(p, together, indices))
    if p.a_in_registers:
        for number in range(p.terms // i.terms):
            yield from _rounded(p, number)
            yield f"tile_k = {u}({number})"
            yield from turn
        return
    yield f"for tile_k in range({p.terms // i.terms}):"
    line = f"lane // {LANES} * {BAND} + tile_lane // {SMALL} % {HALVES} * {SMALL} + tile_lane % {SMALL}"
    chunk = f"tile_k * {i.terms // PER_CHUNK} + tile_lane // {BAND} % {i.terms // PER_CHUNK}"
    yield f"    tile_at = {u}({_place(line, f'{u}({chunk})', p.terms, NOWHERE, indices)})"
    yield f"    ldmatrix_{i.left_words}(tile_of_a, 0, {p.a}, tile_at)"
    yield from ("    " + line for line in turn)


def _rounded(p: RegisterProduct, number: int) -> Iterator[str]:
    """The left operand's words for one turn: pairs of neighbours of what is held."""
    i = p.instruction
    for word in range(i.left_words):
        first = (number * (i.terms // SMALL) + word // HALVES) * i.sums + word % HALVES * PAIR
        yield f"tile_of_a[{word}] = pair_{i.element}({p.a}[{first}], {p.a}[{first + 1}])"


def _turn(p: RegisterProduct, together: int, indices: Indices) -> Iterator[str]:
    """The products of one turn: fragments of the right operand, some at once, each onto its sums."""
    i, u = p.instruction, indices.kind
    group = f"tile_j * {together}"
    if p.transposed:
        line = f"tile_k * {i.terms} + tile_lane // {SMALL} % {i.right_words} * {SMALL} + tile_lane % {SMALL}"
        chunk = f"{group} + tile_lane // {SMALL * i.right_words} % {together}"
        at = _place(line, f"{u}({chunk})", p.columns, p.at, indices)
    else:
        of = f"tile_lane // {SMALL * i.right_words} % {together}"
        line = f"({group} + {of}) * {SMALL} + tile_lane % {SMALL}"
        chunk = f"tile_k * {i.terms // PER_CHUNK} + tile_lane // {SMALL} % {i.right_words}"
        at = _place(line, f"{u}({chunk})", p.terms, p.at, indices)
    words = together * i.right_words
    yield f"for tile_j in range({p.columns // SMALL // together}):"
    yield f"    tile_at = {u}({at})"
    yield f"    ldmatrix_{words}{'_transposed' if p.transposed else ''}(tile_of_b, 0, {p.b}, tile_at)"
    yield f"    for tile_i in range({together}):"
    sums = f"{p.target}, (tile_j * {together} + tile_i) * {i.sums}"
    yield f"        {i.name}({sums}, tile_of_a, 0, tile_of_b, tile_i * {i.right_words})"
