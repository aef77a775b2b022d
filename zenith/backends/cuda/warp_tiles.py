"""Products on tensor cores, as code of a block of threads: operands through shared memory, sums in registers of warps.

A turn multiplies ``depth`` terms that stand in one part of shared memory, while copies of later ones are on their way
to the other parts (*stages*). A block's tile is cut into one for each warp, which reads fragments of it (``ldmatrix``)
and multiplies them (``mma``). Behind the last turn the sums go to the target in shared memory, from where all threads
apply what stands behind the product. The scheme is CUTLASS's for Ampere (A. Kerr and others, "CUTLASS: fast linear
algebra in CUDA C++", 2017, and its documentation, "Efficient GEMM in CUDA"); the instructions are those of
:mod:`zenith.backends.cuda.matrix`.

An operand stands in shared memory as it lies in global memory: along its terms, or along its rows (columns of the right
one), then transposed where it is read. It is copied 16 bytes at a time, a *chunk*. Chunks of a line are exchanged by
an exclusive or with a *key* of the line, so that the 8 lines that are read at once stand in different banks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zenith.backends.cuda.index import Indices
from zenith.backends.kernel import Folded, Operand, SharedProduct
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, symbol
from zenith.ir.target import LANES, MatrixInstruction, MatrixTile

CHUNK = 16  # bytes
SMALL = 8  # lines of a small matrix


def key(line: str, chunks: int) -> str:
    """What the numbers of the chunks of a line are changed by, so that the 8 lines read at once meet all banks."""
    together = max(1, SMALL // chunks)  # lines that stand side by side in all banks
    return f"{line} % {SMALL} // {together} % {min(chunks, SMALL)}"


@dataclass(frozen=True, slots=True)
class Side:
    """One operand in shared memory; its *lines* are rows of the left one and columns of the right one.

    ``operand`` has the strides of lines and terms, ``lines`` are the most that there can be and ``count`` those that
    there are; each warp has ``own``, from the line ``first`` on. A fragment of ``block`` lines takes ``words``
    registers.
    """

    name: str
    operand: Operand | Folded
    lines: int
    count: Dim
    own: int
    first: str
    block: int
    words: int
    tile: MatrixTile

    @property
    def along_terms(self) -> bool:
        """Whether neighbours in shared memory are terms of a line, not lines of a term."""
        return not (self.operand.strides[0] == 1 and self.operand.strides[1] != 1)

    @property
    def instruction(self) -> MatrixInstruction:
        return self.tile.instruction

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.instruction.element.itemsize

    @property
    def width(self) -> int:
        """Elements of a line of shared memory."""
        return self.tile.depth if self.along_terms else self.lines

    @property
    def length(self) -> int:
        """Elements of a stage."""
        return self.lines * self.tile.depth

    @property
    def by_words(self) -> bool:
        """Whether fragments are read word by word: ``ldmatrix`` transposes elements of 2 bytes only."""
        return not self.along_terms and self.instruction.element.itemsize != 2

    @property
    def fragments(self) -> int:
        """The fragments of a warp for the terms of one instruction."""
        return self.own // self.block

    def key(self, line: str) -> str:
        """What the numbers of the chunks of a line of shared memory are changed by."""
        chunks = self.width // self.chunk
        return f"{line} % 4 * 2 % {chunks}" if self.by_words else key(line, chunks)

    def place(self, line: str, chunk: str, key: str) -> str:
        """The position of a chunk of a line in its stage."""
        return f"({line}) * {self.width} + (({chunk}) ^ ({key})) * {self.chunk}"


def sides(tile: SharedProduct) -> tuple[Side, Side]:
    """Both operands of a product."""
    s = tile.schedule
    assert s is not None
    i, b = s.instruction, tile.b
    turned = Operand(b.buffer, b.at, b.strides[::-1])
    return (
        Side("a", tile.a, s.rows, tile.height, s.warp_rows, "tile_top", i.rows, i.left_words, s),
        Side("b", turned, s.panel, tile.width, s.warp_columns, "tile_side", i.columns, i.right_words, s),
    )


def staging(products: Sequence[SharedProduct], offset: int) -> Iterator[str]:
    """Where both operands stand in shared memory, as elements and, where fragments are read by words, as words."""
    for side in (side for tile in products[:1] for side in sides(tile)):
        kinds = {"tile": str(side.instruction.element)} | ({"tile_words": "u32"} if side.by_words else {})
        for name, kind in kinds.items():
            yield f"{name}_{side.name} = {kind}_within(tile_memory, {offset})"
        offset += side.tile.stages * side.length * side.instruction.element.itemsize


def product(tile: SharedProduct, wide: frozenset[str], scratch: bool, indices: Indices) -> Iterator[str]:
    """The lines of a product: operands in ``wide`` are copied in chunks; ``scratch`` says that its target is whole."""
    s, u = tile.schedule, indices.kind
    assert s is not None
    both, i = sides(tile), s.instruction
    copies = [side for side in both if side.name in wide and s.ahead]
    before = s.stages - 1
    across = s.panel // s.warp_columns
    left, right = both
    sign = "+=" if tile.onto != 0 else "="
    yield f"# {tile.target.buffer}[r, j] {sign} sum of {tile.a.buffer}[r, k] * {tile.b.buffer}[k, j], by {s.name}"
    yield f"tile_sums = f32_local({left.fragments * right.fragments * i.sums})"
    yield f"for tile_i in range({left.fragments * right.fragments * i.sums}):"
    yield "    tile_sums[tile_i] = f32(0)"
    yield f"tile_of_a = u32_local({left.fragments * i.left_words})"
    yield f"tile_of_b = u32_local({right.fragments * i.right_words})"
    yield f"tile_top = {u}(lane // {LANES} // {across} * {s.warp_rows})"
    yield f"tile_side = {u}(lane // {LANES} % {across} * {s.warp_columns})"
    yield f"tile_lane = {u}(lane % {LANES})"
    yield f"tile_turns = {u}(({indices.typed(tile.terms)} + {s.depth - 1}) // {s.depth})"
    yield f"for tile_stage in range({before}):"
    yield f"    tile_first_term = {u}({s.depth} * tile_stage)"
    yield f"    tile_part = {u}(tile_stage)"
    for line in _stage(tile, both, wide, copies, indices):
        yield f"    {line}"
    yield f"tile_turn = {u}(0)"
    yield "while tile_turn < tile_turns:"
    if copies:
        yield f"    wait_copies({before - 1})"
    yield "    cuda.syncthreads()"
    yield f"    tile_first_term = {u}({s.depth} * {u}(tile_turn + {before}))"
    yield f"    tile_part = {u}({u}(tile_turn + {before}) % {s.stages})"
    for line in _stage(tile, both, wide, copies, indices):
        yield f"    {line}"
    yield f"    tile_part = {u}(tile_turn % {s.stages})"
    for line in _multiply(left, right, s, u):
        yield f"    {line}"
    yield f"    tile_turn = {u}(tile_turn + 1)"
    if copies:
        yield "wait_copies(0)"
    yield "cuda.syncthreads()"
    yield from _add_to_target(tile, left, right, scratch, indices)


def _stage(
    tile: SharedProduct, both: tuple[Side, Side], wide: frozenset[str], copies: list[Side], indices: Indices
) -> Iterator[str]:
    """Copy terms from ``tile_first_term`` on to the part ``tile_part`` of shared memory, as far as there are any."""
    yield f"if tile_first_term < {indices.typed(tile.terms)}:"
    for side in both:
        for line in (_chunks if side.name in wide else _elements)(side, tile.terms, indices):
            yield f"    {line}"
    if copies:
        yield "commit_copies()"


def _inside(side: Side, terms: Dim, indices: Indices) -> str:
    return f"tile_line < {indices.typed(side.count)} and tile_term < {indices.typed(terms)}"


def _source(side: Side, indices: Indices) -> str:
    return indices.text(side.operand.position(symbol("tile_line"), symbol("tile_term")))


def _chunks(side: Side, terms: Dim, indices: Indices) -> Iterator[str]:
    """Each thread copies some chunks; those outside of the matrix become zeros."""
    u, name, chunk = indices.kind, side.name, side.chunk
    threads, per_line = side.tile.threads, side.width // chunk
    here, there = f"tile_number // {per_line}", f"tile_number % {per_line}"
    line, term = (here, f"{there} * {chunk}") if side.along_terms else (f"{there} * {chunk}", here)
    yield from _numbers(side.length // chunk, threads, u)
    yield f"    tile_line = {u}({line})"
    yield f"    tile_term = {u}(tile_first_term + {term})"
    yield f"    tile_at = {u}(tile_part * {side.length} + {side.place(here, there, side.key(f'({here})'))})"
    if side.tile.ahead:
        yield f"    tile_count = {u}(0)"
        yield f"    if {_inside(side, terms, indices)}:"
        yield f"        tile_count = {u}({chunk})"
        yield f"    copy_async(tile_{name}, tile_at, {side.operand.buffer}, {_source(side, indices)}, tile_count)"
        return
    yield f"    if {_inside(side, terms, indices)}:"
    yield f"        store_{chunk}(tile_{name}, tile_at, load_{chunk}({side.operand.buffer}, {_source(side, indices)}))"
    yield "    else:"
    yield f"        for tile_j in range({chunk}):"
    yield f"            tile_{name}[{u}(tile_at + tile_j)] = {side.instruction.element}(0)"


def _elements(side: Side, terms: Dim, indices: Indices) -> Iterator[str]:
    """The same element by element, for operands of any strides and alignment."""
    u, threads, chunk = indices.kind, side.tile.threads, side.chunk
    here, there = f"tile_number // {side.width}", f"tile_number % {side.width}"
    line, term = (here, there) if side.along_terms else (there, here)
    place = side.place(here, f"{there} // {chunk}", side.key(f"({here})"))
    yield from _numbers(side.length, threads, u)
    yield f"    tile_line = {u}({line})"
    yield f"    tile_term = {u}(tile_first_term + {term})"
    yield f"    tile_element = {side.instruction.element}(0)"
    yield f"    if {_inside(side, terms, indices)}:"
    yield f"        tile_element = {side.operand.buffer}[{_source(side, indices)}]"
    yield f"    tile_{side.name}[{u}(tile_part * {side.length} + {place} + tile_number % {chunk})] = tile_element"


def _numbers(count: int, threads: int, u: str) -> Iterator[str]:
    """The head of a loop over a thread's share of so many numbers; too few for all threads are those of the first."""
    if count < threads:
        yield f"if lane < {count}:"
        yield f"    tile_number = {u}(lane)"
        return
    if count % threads:
        raise UnsupportedError(f"{threads} threads cannot share {count} copies evenly",
                               fix="this is a defect of Zenith: report it with your program")  # fmt: skip
    yield f"for tile_i in range({count // threads}):"
    yield f"    tile_number = {u}(lane + {threads} * tile_i)"


def _multiply(left: Side, right: Side, s: MatrixTile, u: str) -> Iterator[str]:
    """The turn's terms: fragments of both operands, and each of the left one times each of the right one."""
    i = s.instruction
    yield f"for tile_k in range({s.depth // i.terms}):"
    for side, together in ((left, 1), (right, 4 // i.right_words)):
        for line in _words(side, u) if side.by_words else _matrices(side, together, u):
            yield f"    {line}"
        if i.rounds:
            yield f"    for tile_i in range({side.fragments * side.words}):"
            yield f"        tile_of_{side.name}[tile_i] = tf32(tile_of_{side.name}[tile_i])"
    yield f"    for tile_i in range({left.fragments}):"
    yield f"        for tile_j in range({right.fragments}):"
    sums = f"tile_sums, (tile_i * {right.fragments} + tile_j) * {i.sums}"
    yield f"            {i.name}({sums}, tile_of_a, tile_i * {i.left_words}, tile_of_b, tile_j * {i.right_words})"


def _matrices(side: Side, together: int, u: str) -> Iterator[str]:
    """Fragments by ``ldmatrix``: each lane names a line of a small matrix, of ``together`` neighbouring fragments."""
    i, chunk = side.instruction, side.chunk
    groups = side.block * together // SMALL  # small matrices along the lines
    matrices = side.words * together
    if together == 1:  # A: first those of all lines, then the next terms
        line_group, term_group = f"tile_lane // 8 % {groups}", f"tile_lane // 8 // {groups} % {side.words // groups}"
    else:  # B: all terms of a fragment, then the next fragment
        line_group, term_group = f"tile_lane // 8 // {side.words}", f"tile_lane // 8 % {side.words}"
    step = side.block * together
    if side.along_terms:
        line = f"{side.first} + {step} * tile_i + {line_group} * {SMALL} + tile_lane % 8"
        number = f"{i.terms // chunk} * tile_k + {term_group}"
    else:
        line = f"{i.terms} * tile_k + ({term_group}) * {chunk} + tile_lane % 8"
        number = f"{side.first} // {chunk} + {step // chunk} * tile_i + {line_group}"
    turned = "" if side.along_terms else "_turned"
    place = side.place(line, f"{u}({number})", side.key("tile_lane"))
    yield f"for tile_i in range({side.fragments // together}):"
    yield f"    tile_at = {u}(tile_part * {side.length} + {place})"
    yield f"    ldmatrix_{matrices}{turned}(tile_of_{side.name}, tile_i * {matrices}, tile_{side.name}, tile_at)"


def _words(side: Side, u: str) -> Iterator[str]:
    """Fragments of 4-byte elements that stand along the lines, each lane reading its own."""
    groups = side.block // SMALL
    yield f"for tile_i in range({side.fragments}):"
    yield f"    for tile_j in range({side.words}):"
    yield (f"        tile_line = {u}({side.first} + {side.block} * tile_i"
           f" + tile_j % {groups} * {SMALL} + tile_lane // 4)")  # fmt: skip
    yield f"        tile_term = {u}({side.instruction.terms} * tile_k + tile_j // {groups} * 4 + tile_lane % 4)"
    place = side.place("tile_term", f"{u}(tile_line // 4)", side.key("tile_term"))
    at = f"{u}(tile_part * {side.length} + {place} + tile_line % 4)"
    yield f"        tile_of_{side.name}[tile_i * {side.words} + tile_j] = tile_words_{side.name}[{at}]"


def _add_to_target(tile: SharedProduct, left: Side, right: Side, scratch: bool, indices: Indices) -> Iterator[str]:
    """A warp's sums to the target, neighbours together where it is scratch memory with lines of even length."""
    if scratch and tile.onto == 0:
        yield from _to_scratch(tile, left, right, indices)
        return
    u, target, i = indices.kind, tile.target, left.instruction
    at = target.at + symbol("tile_line") * target.strides[0] + symbol("tile_place") * target.strides[1]
    place = f"{target.buffer}[{indices.text(at)}]"
    yield f"for tile_i in range({left.fragments}):"
    yield f"    for tile_j in range({right.fragments}):"
    yield f"        for tile_k in range({i.sums}):"
    yield f"            tile_line = {u}(tile_top + {i.rows} * tile_i + tile_lane // 4 + tile_k // 2 * {SMALL})"
    yield f"            tile_place = {u}(tile_side + {i.columns} * tile_j + tile_lane % 4 * 2 + tile_k % 2)"
    yield f"            tile_value = tile_sums[(tile_i * {right.fragments} + tile_j) * {i.sums} + tile_k]"
    indent = " " * 12
    if not scratch:
        height, width = indices.typed(tile.height), indices.typed(tile.width)
        yield f"{indent}if tile_line < {height} and tile_place < {width}:"
        indent += "    "
    if tile.onto != 0:
        yield f"{indent}if {indices.typed(tile.onto)} != 0:"
        yield f"{indent}    tile_value = f32({place} + tile_value)"
    yield f"{indent}{place} = tile_value"


def _to_scratch(tile: SharedProduct, left: Side, right: Side, indices: Indices) -> Iterator[str]:
    u, target, i = indices.kind, tile.target, left.instruction
    at = target.at + symbol("tile_line") * target.strides[0] + symbol("tile_place") * target.strides[1]
    yield f"for tile_i in range({left.fragments}):"
    yield f"    for tile_j in range({right.fragments}):"
    yield f"        for tile_k in range({i.sums // 2}):"
    yield f"            tile_line = {u}(tile_top + {i.rows} * tile_i + tile_lane // 4 + tile_k * {SMALL})"
    yield f"            tile_place = {u}(tile_side + {i.columns} * tile_j + tile_lane % 4 * 2)"
    yield f"            tile_pair = strip_2({target.buffer})"
    for number in range(2):
        yield (f"            tile_pair[{number}] = "
               f"tile_sums[(tile_i * {right.fragments} + tile_j) * {i.sums} + 2 * tile_k + {number}]")  # fmt: skip
    yield f"            store_2({target.buffer}, {indices.text(at)}, tile_pair)"
