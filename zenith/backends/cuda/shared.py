"""The shared memory of a block: the offset of each array of a kernel in it.

On every GPU a kernel has 48 KB as arrays of fixed sizes (*static* shared memory); blocks that share a sum use some
bytes of them to find the last one. Kernels that need more, or whose arrays overlap, divide up one array; beyond 48 KB a
launch requests it (*dynamic* shared memory). The operands of products on tensor cores may overlap the target of their
sums: nothing is written there before the last term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zenith.backends.kernel import Kernel, Scratch, walk
from zenith.backends.tiles import STAGED, SharedProduct

EVERYWHERE = 48 * 1024 - 16  # bytes that every kernel may have on every GPU, less those to find the last block
ALIGNMENT = 128  # bytes: all banks


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One array of ``bytes``, with the offsets of the scratch buffers, and of the operands of products, in it."""

    bytes: int
    scratch: Mapping[str, int]
    staged: int

    @property
    def dynamic(self) -> int:
        """The bytes that a launch has to request."""
        return self.bytes if self.bytes > EVERYWHERE else 0


def divided(kernel: Kernel) -> SharedMemory | None:
    """How a kernel divides up its shared memory; None where arrays of fixed sizes are enough."""
    products = scheduled(kernel)
    lengths = {s.name: s.length * s.dtype.itemsize for s in _scratch(kernel)}
    if not products and sum(lengths.values()) <= EVERYWHERE:
        return None
    staged = max((p.schedule.staged for p in products if p.schedule), default=0)
    target = _overlaid(products, lengths)
    offsets, end = dict[str, int](), 0
    for name, length in lengths.items():
        offsets[name] = end
        end += _aligned(max(length, staged) if name == target else length)
    return SharedMemory(end if target else end + staged, offsets, offsets[target] if target else end)


def dynamic_shared(kernel: Kernel) -> int:
    """The bytes of dynamic shared memory that a launch has to request."""
    memory = divided(kernel)
    return 0 if memory is None else memory.dynamic


def shared_bytes(kernel: Kernel) -> int:
    """The shared memory of a block: scratch buffers, and the staged terms of its products."""
    memory = divided(kernel)
    sizes = {b.name: b.dtype.itemsize for b in kernel.buffers} | {s.name: s.dtype.itemsize for s in _scratch(kernel)}
    products = [s for s in walk(kernel.body) if isinstance(s, SharedProduct) and s.schedule is None]
    staged = sum(max((getattr(p, axis) for p in products), default=0) for axis in ("rows", "columns")) * STAGED
    widest = max((sizes[p.target.buffer] for p in products), default=0)
    scratch = sum(s.length * s.dtype.itemsize for s in _scratch(kernel)) if memory is None else memory.bytes
    return staged * widest + scratch


def scheduled(kernel: Kernel) -> list[SharedProduct]:
    """The products of a kernel that warps compute on tensor cores."""
    return [s for s in walk(kernel.body) if isinstance(s, SharedProduct) and s.schedule is not None]


def _scratch(kernel: Kernel) -> list[Scratch]:
    return [s for s in walk(kernel.body) if isinstance(s, Scratch)]


def _overlaid(products: list[SharedProduct], lengths: Mapping[str, int]) -> str:
    """The scratch buffer that may hold operands until it gets their sums; empty where there is none."""
    (target, *others) = {p.target.buffer for p in products} or {""}
    begins = all(p.onto == 0 for p in products)
    return target if begins and not others and target in lengths else ""


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT
