"""How the entry point of a kernel on a GPU begins: shared memory, and which tasks a thread or a team has."""

from __future__ import annotations

from zenith.backends.cuda import team_reduction, team_scan, tiles, warp_tiles
from zenith.backends.cuda.forms import is_block
from zenith.backends.cuda.shared import divided, scheduled
from zenith.backends.cuda.thread_emit import TASK, memory_type
from zenith.backends.kernel import Fold, Kernel, LastOf, Running, Scratch, walk
from zenith.backends.tiles import SharedProduct

THIS_THREAD = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
ALL_THREADS = "cuda.gridDim.x * cuda.blockDim.x"


def prologue(kernel: Kernel, team: str, index: str) -> list[str]:
    """A comment for each buffer, shared memory, and the first task of this thread or team with its stride.

    ``team`` is the number of threads of a team as text, empty where each thread has tasks of its own; ``index`` the
    type of indices.
    """
    statements = tuple(walk(kernel.body))
    lines = [f"# {b.name}: {b.role}, {b.size} elements of {b.dtype}" for b in kernel.buffers]
    lines += _scratch(kernel)
    products = [s for s in statements if isinstance(s, SharedProduct) and s.schedule is None]
    if products:
        types = {b.name: b.dtype for b in kernel.buffers}
        types |= {s.name: s.dtype for s in statements if isinstance(s, Scratch)}
        lines += tiles.staging(products, types[products[0].target.buffer])
    if any(isinstance(s, LastOf) for s in statements):
        lines.append("ticket = i32_shared(1)")
    if team:
        exchange = team_reduction.shared(a for s in statements if isinstance(s, Fold) for a in s.accumulators)
        exchange += team_scan.shared([s for s in statements if isinstance(s, Running)])
        lines += dict.fromkeys(exchange)
    return lines + _tasks(kernel, team, index)


def _scratch(kernel: Kernel) -> list[str]:
    """Scratch buffers: an array each, or ranges of one array that a launch requests."""
    memory, scratch = divided(kernel), [s for s in walk(kernel.body) if isinstance(s, Scratch)]
    if memory is None:
        return [f"{s.name} = {memory_type(s.dtype)}_shared({s.length})" for s in scratch]
    lines = [f"tile_memory = u8_{'dynamic' if memory.dynamic else 'shared'}({memory.bytes})"]
    for s in scratch:
        lines.append(f"{s.name} = {memory_type(s.dtype)}_within(tile_memory, {memory.scratch[s.name]})")
    return [*lines, *warp_tiles.staging(scheduled(kernel), memory.staged)]


def _tasks(kernel: Kernel, team: str, u: str) -> list[str]:
    """The first task, and how far it is to the next one."""
    if not team:
        return [f"{TASK} = {u}({THIS_THREAD})", f"stride = {u}({ALL_THREADS})"]
    if is_block(kernel):
        return [f"lane = {u}(cuda.threadIdx.x)", f"{TASK} = {u}(cuda.blockIdx.x)", f"stride = {u}(cuda.gridDim.x)"]
    return [
        f"lane = {u}(cuda.threadIdx.x % {team})",
        f"{TASK} = {u}(({THIS_THREAD}) // {team})",
        f"stride = {u}(({ALL_THREADS}) // {team})",
    ]
