"""The shared memory of a block: what of a kernel stands where in it.

Every GPU gives a kernel 48 KB without asking, as arrays of fixed sizes; some bytes of them tell blocks that share a sum
which of them is the last. Kernels that need more, or whose arrays overlap, divide up one array; beyond 48 KB a launch
asks for it (*dynamic* shared memory). The operands of products on tensor cores may stand where their sums will: nothing
is written there before the last term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zenith.backends.kernel import STAGED, Kernel, Scratch, SharedProduct, walk

EVERYWHERE = 48 * 1024 - 16  # bytes that every kernel may have on every GPU, but for who is last
ALIGNMENT = 128  # bytes: all banks


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One array of ``bytes``: where the scratch buffers begin in it, and where the operands of products."""

    bytes: int
    scratch: Mapping[str, int]
    staged: int

    @property
    def dynamic(self) -> int:
        """The bytes that a launch has to ask for."""
        return self.bytes if self.bytes > EVERYWHERE else 0


def divided(kernel: Kernel) -> SharedMemory | None:
    """How a kernel divides up its shared memory; None where arrays of fixed sizes serve."""
    products = scheduled(kernel)
    lengths = {s.name: s.length * s.dtype.itemsize for s in _scratch(kernel)}
    if not products and sum(lengths.values()) <= EVERYWHERE:
        return None
    staged = max((p.schedule.staged for p in products if p.schedule), default=0)
    target = _overlaid(products, lengths)
    places, end = dict[str, int](), 0
    for name, length in lengths.items():
        places[name] = end
        end += _aligned(max(length, staged) if name == target else length)
    return SharedMemory(end if target else end + staged, places, places[target] if target else end)


def shared_bytes(kernel: Kernel) -> int:
    """The shared memory of a block: scratch buffers, and the terms that its products have at hand."""
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
    """The scratch buffer in which operands may stand until it gets their sums, where there is one."""
    (target, *others) = {p.target.buffer for p in products} or {""}
    begins = all(p.onto == 0 for p in products)
    return target if begins and not others and target in lengths else ""


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT
