"""Products on tensor cores, as code of a block of threads: operands through shared memory, sums in registers of warps.

An iteration multiplies ``depth`` terms in one stage of shared memory, while asynchronous copies of later terms to the
other *stages* are in flight (a software pipeline). A block's tile is split into one for each warp, which reads
fragments of it (``ldmatrix``) and multiplies them (``mma``). After the last iteration the sums go to the target in
shared memory, from where all threads apply the epilogue. The scheme is CUTLASS's for Ampere (A. Kerr and others,
"CUTLASS: fast linear algebra in CUDA C++", 2017, and its documentation, "Efficient GEMM in CUDA"). Instructions are in
:mod:`zenith.backends.cuda.matrix`, the layout of operands is in :mod:`zenith.backends.cuda.operand_staging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zenith.backends.cuda.index import Indices
from zenith.backends.cuda.operand_staging import SMALL, Side, sides
from zenith.backends.tensor_core_tiles import LANES, MatrixTile
from zenith.backends.tiles import SharedProduct
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, symbol


def staging(products: Sequence[SharedProduct], offset: int) -> Iterator[str]:
    """Pointers to both operands in shared memory: to elements and, where fragments are read by words, to words."""
    for side in (side for tile in products[:1] for side in sides(tile)):
        kinds = {"tile": str(side.instruction.element)} | ({"tile_words": "u32"} if side.by_words else {})
        for name, kind in kinds.items():
            yield f"{name}_{side.name} = {kind}_within(tile_memory, {offset})"
        offset += side.tile.stages * side.length * side.instruction.element.itemsize


def product(tile: SharedProduct, wide: frozenset[str], scratch: bool, indices: Indices) -> Iterator[str]:
    """The lines of a product: those in ``wide`` are copied in chunks; ``scratch`` says that its target is scratch."""
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
    yield f"tile_iterations = {u}(({indices.typed(tile.terms)} + {s.depth - 1}) // {s.depth})"
    yield f"for tile_stage in range({before}):"
    yield f"    tile_first_term = {u}({s.depth} * tile_stage)"
    yield f"    tile_buffer = {u}(tile_stage)"
    for line in _stage(tile, both, wide, copies, indices):
        yield f"    {line}"
    yield f"tile_iteration = {u}(0)"
    yield "while tile_iteration < tile_iterations:"
    if copies:
        yield f"    wait_copies({before - 1})"
    yield "    cuda.syncthreads()"
    yield f"    tile_first_term = {u}({s.depth} * {u}(tile_iteration + {before}))"
    yield f"    tile_buffer = {u}({u}(tile_iteration + {before}) % {s.stages})"
    for line in _stage(tile, both, wide, copies, indices):
        yield f"    {line}"
    yield f"    tile_buffer = {u}(tile_iteration % {s.stages})"
    for line in _multiply(left, right, s, u):
        yield f"    {line}"
    yield f"    tile_iteration = {u}(tile_iteration + 1)"
    if copies:
        yield "wait_copies(0)"
    yield "cuda.syncthreads()"
    yield from _add_to_target(tile, left, right, scratch, indices)


def _stage(
    tile: SharedProduct, both: tuple[Side, Side], wide: frozenset[str], copies: list[Side], indices: Indices
) -> Iterator[str]:
    """Copy terms from ``tile_first_term`` on to the stage ``tile_part`` of shared memory, as far as there are any."""
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
    """Each thread copies some chunks of an operand; those outside of the matrix become zeros."""
    u, name, chunk = indices.kind, side.name, side.chunk
    threads, per_line = side.tile.threads, side.width // chunk
    here, there = f"tile_number // {per_line}", f"tile_number % {per_line}"
    line, term = (here, f"{there} * {chunk}") if side.along_terms else (f"{there} * {chunk}", here)
    yield from _numbers(side.length // chunk, threads, u)
    yield f"    tile_line = {u}({line})"
    yield f"    tile_term = {u}(tile_first_term + {term})"
    yield f"    tile_at = {u}(tile_buffer * {side.length} + {side.position(here, there, side.key(f'({here})'))})"
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
    """The same copy element by element, for operands of any strides and alignment."""
    u, threads, chunk = indices.kind, side.tile.threads, side.chunk
    here, there = f"tile_number // {side.width}", f"tile_number % {side.width}"
    line, term = (here, there) if side.along_terms else (there, here)
    position = side.position(here, f"{there} // {chunk}", side.key(f"({here})"))
    yield from _numbers(side.length, threads, u)
    yield f"    tile_line = {u}({line})"
    yield f"    tile_term = {u}(tile_first_term + {term})"
    yield f"    tile_element = {side.instruction.element}(0)"
    yield f"    if {_inside(side, terms, indices)}:"
    yield f"        tile_element = {side.operand.buffer}[{_source(side, indices)}]"
    yield f"    tile_{side.name}[{u}(tile_buffer * {side.length} + {position} + tile_number % {chunk})] = tile_element"


def _numbers(count: int, threads: int, u: str) -> Iterator[str]:
    """The head of a loop over a thread's share of so many numbers; if there are too few, the first threads have one."""
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
    """One iteration's products: fragments of both operands, and each of the left one times each of the right one."""
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
    suffix = "" if side.along_terms else "_transposed"
    position = side.position(line, f"{u}({number})", side.key("tile_lane"))
    yield f"for tile_i in range({side.fragments // together}):"
    yield f"    tile_at = {u}(tile_buffer * {side.length} + {position})"
    yield f"    ldmatrix_{matrices}{suffix}(tile_of_{side.name}, tile_i * {matrices}, tile_{side.name}, tile_at)"


def _words(side: Side, u: str) -> Iterator[str]:
    """Fragments of 4-byte elements that are stored along the lines: each lane reads its own word by word."""
    groups = side.block // SMALL
    yield f"for tile_i in range({side.fragments}):"
    yield f"    for tile_j in range({side.words}):"
    yield (f"        tile_line = {u}({side.first} + {side.block} * tile_i"
           f" + tile_j % {groups} * {SMALL} + tile_lane // 4)")  # fmt: skip
    yield f"        tile_term = {u}({side.instruction.terms} * tile_k + tile_j // {groups} * 4 + tile_lane % 4)"
    position = side.position("tile_term", f"{u}(tile_line // 4)", side.key("tile_term"))
    at = f"{u}(tile_buffer * {side.length} + {position} + tile_line % 4)"
    yield f"        tile_of_{side.name}[tile_i * {side.words} + tile_j] = tile_words_{side.name}[{at}]"


def _add_to_target(tile: SharedProduct, left: Side, right: Side, scratch: bool, indices: Indices) -> Iterator[str]:
    """A warp's sums to the target, neighbours together where it is scratch memory with lines of even length.

    The target's earlier sums are added in a loop nest of their own, whose condition is around it: one inside would
    prevent the compiler from unrolling the nest, and so from placing the sums in registers.
    """
    if tile.onto != 0:
        yield f"if {indices.typed(tile.onto)} != 0:"
        for line in (_from_scratch if scratch else _from_matrix)(tile, left, right, indices):
            yield f"    {line}"
    yield from (_to_scratch if scratch else _to_matrix)(tile, left, right, indices)


def _sums(left: Side, right: Side, together: int, u: str) -> Iterator[str]:
    """Loops over a lane's sums, so many neighbours at a time, with their coordinates in the tile."""
    i, row, neighbour = left.instruction, "tile_k", ""
    if together == 1:
        row, neighbour = "tile_k // 2", " + tile_k % 2"
    yield f"for tile_i in range({left.fragments}):"
    yield f"    for tile_j in range({right.fragments}):"
    yield f"        for tile_k in range({i.sums // together}):"
    yield f"            tile_line = {u}(tile_top + {i.rows} * tile_i + tile_lane // 4 + {row} * {SMALL})"
    yield f"            tile_position = {u}(tile_side + {i.columns} * tile_j + tile_lane % 4 * 2{neighbour})"
    yield f"            tile_here = (tile_i * {right.fragments} + tile_j) * {i.sums} + {together} * tile_k"


def _position(tile: SharedProduct, indices: Indices) -> str:
    """The position of a sum in the target."""
    at, strides = tile.target.at, tile.target.strides
    return indices.text(at + symbol("tile_line") * strides[0] + symbol("tile_position") * strides[1])


def _matrix(tile: SharedProduct, left: Side, right: Side, indices: Indices) -> Iterator[str]:
    """Loops over the sums that are inside of the target."""
    yield from _sums(left, right, 1, indices.kind)
    yield f"            if tile_line < {indices.typed(tile.height)} and tile_position < {indices.typed(tile.width)}:"


def _from_matrix(tile: SharedProduct, left: Side, right: Side, indices: Indices) -> Iterator[str]:
    yield from _matrix(tile, left, right, indices)
    there = f"{tile.target.buffer}[{_position(tile, indices)}]"
    yield f"                tile_sums[tile_here] = f32({there} + tile_sums[tile_here])"


def _to_matrix(tile: SharedProduct, left: Side, right: Side, indices: Indices) -> Iterator[str]:
    yield from _matrix(tile, left, right, indices)
    yield f"                {tile.target.buffer}[{_position(tile, indices)}] = tile_sums[tile_here]"


def _from_scratch(tile: SharedProduct, left: Side, right: Side, indices: Indices) -> Iterator[str]:
    yield from _sums(left, right, 2, indices.kind)
    yield f"            tile_pair = load_2({tile.target.buffer}, {_position(tile, indices)})"
    for n in range(2):
        yield f"            tile_sums[tile_here + {n}] = f32(tile_pair[{n}] + tile_sums[tile_here + {n}])"


def _to_scratch(tile: SharedProduct, left: Side, right: Side, indices: Indices) -> Iterator[str]:
    yield from _sums(left, right, 2, indices.kind)
    yield f"            tile_pair = strip_2({tile.target.buffer})"
    for n in range(2):
        yield f"            tile_pair[{n}] = tile_sums[tile_here + {n}]"
    yield f"            store_2({tile.target.buffer}, {_position(tile, indices)}, tile_pair)"
