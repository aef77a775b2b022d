"""Register-resident matrices and their products, for a block of threads: sums stay in registers between products.

A warp has ``BAND`` rows of every such matrix, in the layout of its instructions' sums: lane l has two neighbours in
every eight columns of the rows ``l // 4`` and ``l // 4 + 8`` (:mod:`zenith.backends.cuda.fragments`). So the four lanes
of a quad reduce a row, and a matrix of sums, rounded in pairs, is the left operand of the next product: neither needs
shared memory. The online softmax of FlashAttention-2 rests on this (Dao, 2023).

Tiles of operands are stored in shared memory as lines of 16-byte chunks, swizzled by an exclusive or with a key of the
line, as in :mod:`zenith.backends.cuda.operand_staging`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zenith.backends.cuda.index import Indices
from zenith.backends.cuda.operand_staging import CHUNK, SMALL, key
from zenith.backends.kernel import ForEachRegister
from zenith.backends.tensor_core_tiles import LANES
from zenith.backends.tiles import BAND, NOWHERE, FoldRegisters, RegisterMatrix, RegisterProduct, StageTile
from zenith.ir.dims import Dim, symbol
from zenith.ir.types import DType

HALVES = BAND // SMALL  # rows of a lane
QUAD = 4  # lanes that share a row
PAIR = 2  # neighbouring columns of a lane
ITEM = 2  # bytes of an element of a tile
WORDS = 4  # the most that one ldmatrix gives
PER_CHUNK = CHUNK // ITEM


def registers(matrix: RegisterMatrix) -> int:
    """The registers of a thread for its share of a matrix."""
    return HALVES * max(1, matrix.columns // SMALL * PAIR)


def threads(rows: int) -> int:
    """The threads of a team with so many rows in registers."""
    return rows // BAND * LANES


def each(loop: ForEachRegister, before: list[str], body: list[str], indices: Indices) -> Iterator[str]:
    """The lines of a loop over a lane's elements, in registers, whose numbers become literals by unrolling."""
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


def element_registers(loop: ForEachRegister, matrices: dict[str, RegisterMatrix]) -> dict[tuple[str, Dim], str]:
    """How the elements of this loop are written: those of matrices as wide as it, and of columns of its rows."""
    row, found = symbol(loop.row), dict[tuple[str, Dim], str]()
    for name, m in matrices.items():
        if not m.columns:
            found[name, row] = f"{name}[tile_half]"
        elif m.columns == loop.columns:
            number = f"tile_group * {HALVES * PAIR} + tile_half * {PAIR} + tile_side"
            found[name, row * m.columns + symbol(loop.column)] = f"{name}[{number}]"
    return found


def fold(s: FoldRegisters, combine: Callable[[str, str], str], initial: str) -> Iterator[str]:
    """The lines of a fold along rows: a lane's own elements, then those of its quad by shuffles."""
    yield f"for tile_half in range({HALVES}):"
    yield f"    tile_joined = {initial}"
    yield f"    for tile_group in range({s.columns // SMALL}):"
    yield f"        for tile_side in range({PAIR}):"
    element = f"{s.source}[tile_group * {HALVES * PAIR} + tile_half * {PAIR} + tile_side]"
    yield f"            tile_joined = f32({combine('tile_joined', element)})"
    for distance in (1, 2):
        yield f"    tile_other = shuffle(tile_joined, {distance})"
        yield f"    tile_joined = f32({combine('tile_joined', 'tile_other')})"
    yield f"    {s.target}[tile_half] = f32({combine(f'{s.target}[tile_half]', 'tile_joined')})"


# --- tiles in shared memory ---


def _position(line: str, chunk: str, columns: int, at: Dim, indices: Indices) -> str:
    """The position of a chunk of a line of the tile that begins at position ``at``."""
    first = "" if at == 0 else f"{indices.typed(at)} + "
    return f"{first}({line}) * {columns} + (({chunk}) ^ ({key(f'({line})', columns // PER_CHUNK)})) * {PER_CHUNK}"


def stage(s: StageTile, dtype: DType, team: int, wide: bool, indices: Indices) -> Iterator[str]:
    """The lines of a copy: 16 bytes at a time where ``wide``, asynchronous where the GPU can.

    Then a thread waits for its copies where it waits for the other threads: at the next barrier.
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
    position = _position("tile_line", f"tile_column // {PER_CHUNK}", s.columns, s.at, indices)
    yield f"    tile_at = {u}({position} + tile_column % {PER_CHUNK})"
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
    """The lines of a product; the loop over terms is unrolled where the left operand is in registers."""
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
    iteration = list(_iteration(p, together, indices))
    if p.a_in_registers:
        for number in range(p.terms // i.terms):
            yield from _rounded(p, number)
            yield f"tile_k = {u}({number})"
            yield from iteration
        return
    yield f"for tile_k in range({p.terms // i.terms}):"
    line = f"lane // {LANES} * {BAND} + tile_lane // {SMALL} % {HALVES} * {SMALL} + tile_lane % {SMALL}"
    chunk = f"tile_k * {i.terms // PER_CHUNK} + tile_lane // {BAND} % {i.terms // PER_CHUNK}"
    yield f"    tile_at = {u}({_position(line, f'{u}({chunk})', p.terms, NOWHERE, indices)})"
    yield f"    ldmatrix_{i.left_words}(tile_of_a, 0, {p.a}, tile_at)"
    yield from ("    " + line for line in iteration)


def _rounded(p: RegisterProduct, number: int) -> Iterator[str]:
    """The left operand's words for one iteration: pairs of neighbours, rounded to the instruction's element type."""
    i = p.instruction
    for word in range(i.left_words):
        first = (number * (i.terms // SMALL) + word // HALVES) * i.sums + word % HALVES * PAIR
        yield f"tile_of_a[{word}] = pair_{i.element}({p.a}[{first}], {p.a}[{first + 1}])"


def _iteration(p: RegisterProduct, together: int, indices: Indices) -> Iterator[str]:
    """The products of one iteration: right fragments, ``together`` at once, each product added to its sums."""
    i, u = p.instruction, indices.kind
    group = f"tile_j * {together}"
    if p.transposed:
        line = f"tile_k * {i.terms} + tile_lane // {SMALL} % {i.right_words} * {SMALL} + tile_lane % {SMALL}"
        chunk = f"{group} + tile_lane // {SMALL * i.right_words} % {together}"
        at = _position(line, f"{u}({chunk})", p.columns, p.at, indices)
    else:
        fragment = f"tile_lane // {SMALL * i.right_words} % {together}"
        line = f"({group} + {fragment}) * {SMALL} + tile_lane % {SMALL}"
        chunk = f"tile_k * {i.terms // PER_CHUNK} + tile_lane // {SMALL} % {i.right_words}"
        at = _position(line, f"{u}({chunk})", p.terms, p.at, indices)
    words = together * i.right_words
    yield f"for tile_j in range({p.columns // SMALL // together}):"
    yield f"    tile_at = {u}({at})"
    yield f"    ldmatrix_{words}{'_transposed' if p.transposed else ''}(tile_of_b, 0, {p.b}, tile_at)"
    yield f"    for tile_i in range({together}):"
    sums = f"{p.target}, (tile_j * {together} + tile_i) * {i.sums}"
    yield f"        {i.name}({sums}, tile_of_a, 0, tile_of_b, tile_i * {i.right_words})"
