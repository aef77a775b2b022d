"""Leases: the frame of a program that one call at a time uses, filled for the sizes of the last one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zenith.arrays import NUMPY, Adapter
from zenith.backends.cpu.arenas import ArenaMemory, aligned
from zenith.backends.cpu.native import native
from zenith.backends.cpu.threads import team
from zenith.backends.cpu.word_layout import (
    FIRST,
    LAST_PATCH,
    LAST_STATUS,
    LAUNCHES,
    PATCHES,
    STATUS,
    STATUSES,
    TABLE,
    TEAM,
)
from zenith.backends.donation import Pairs, results_in
from zenith.ir.types import NDArray

if TYPE_CHECKING:
    from zenith.backends.cpu.executable import Executable


@dataclass(frozen=True, slots=True)
class FixedAddresses:
    """The addresses of what is the same in every call until weights change; a call that runs keeps ``arrays`` alive."""

    number: int
    at: NDArray
    addresses: NDArray
    arrays: tuple[NDArray, ...]


class Lease:
    """A frame, and while a call runs an arena; one call uses it at a time."""

    def __init__(self, executable: Executable) -> None:
        frame = self.frame = executable.frame
        self.owner, self.address = aligned(8 * frame.length)
        self.buffer = (ctypes.c_int64 * frame.length).from_address(self.address)
        self.words = np.ctypeslib.as_array(self.buffer)
        self.words[:] = 0
        self.words[[TEAM, TABLE, LAUNCHES]] = team().address, self.address + 8 * frame.table, len(frame.rows)
        patches = frame.patches.ctypes.data
        self.words[[PATCHES, LAST_PATCH]] = patches, patches + frame.patches.nbytes
        statuses = self.address + 8 * frame.status
        self.words[[STATUSES, LAST_STATUS]] = statuses, statuses + 8 * frame.statuses
        self._fill_table(executable)
        self.arena: ArenaMemory | None = None  # the one of the last call, whose addresses are in the frame
        self.slots: Any = None  # where in an arena the slots are
        self.length = 0  # the bytes of an arena that a call needs
        self.fixed = -1  # the number of the fixed memory whose addresses are in the frame
        self.sizes: Mapping[str, int] | None = None  # those that the frame is filled for
        self.shapes: Sequence[tuple[int, ...]] = ()  # of results
        self.results: Adapter | None = None
        self.own: Mapping[int, int] = {}  # results that are written to arguments, and these
        self.takes_arrays = False  # whether calls are of NumPy's arrays, with elements, and need nothing else
        self.makers: list[Callable[[], object]] = []  # one for each result
        self.donations: Pairs = ()  # results, and the arguments whose memory they take
        self.written: Mapping[int, int] = {}  # of these, the arguments that results are written to
        self.copies: list[tuple[int, ...]] = []  # of these, what would be copied: the word of its tasks, tasks

    def _fill_table(self, executable: Executable) -> None:
        """Kernels, and what no call changes: addresses inside the frame, counts."""
        frame = self.frame
        for word, name in frame.kernels:
            self.words[word] = executable.kernels[name].address
        at, values = frame.constants
        self.words[at] = values
        at, targets = frame.links
        self.words[at] = self.address + 8 * targets
        self.words[frame.status + 1 :: STATUS] = team().address

    def take(self, fixed: FixedAddresses) -> None:
        """Write the addresses of constants, weights and what was prepared from them."""
        self.words[fixed.at] = fixed.addresses
        self.fixed = fixed.number

    def take_arena(self, arena: ArenaMemory) -> None:
        """Write the addresses of slots in an arena."""
        self.words[self.frame.slots[0]] = self.slots + arena.address
        self.arena = arena

    def resize(
        self, sizes: Mapping[str, int], results: Adapter, executable: Executable, arrays: Sequence[object],
        adapters: Sequence[Adapter],
    ) -> None:  # fmt: skip
        """Write everything that follows from a call's sizes."""
        self.sizes, program = None, executable.program
        values = self.frame.sizes(*[sizes[s] for s in program.symbols])
        found = np.array(values, np.int64)
        at, which = self.frame.sized
        self.words[at] = found[which]
        self.slots, self.length, self.arena = found[self.frame.slots[1]], values[0], None
        shapes = self.shapes = [tuple([values[i] for i in shape]) for shape in self.frame.shapes]
        types = [type for _, type in program.outputs]
        self.makers = [results.maker(shape, type.dtype) for shape, type in zip(shapes, types, strict=True)]
        self._donate(sizes, executable)
        is_plain = len(self.own) == len(self.donations) and executable.is_one_run
        self.takes_arrays = is_plain and _all_have_elements(arrays, (*adapters, results), shapes)
        self.sizes, self.results = sizes, results

    def _donate(self, sizes: Mapping[str, int], executable: Executable) -> None:
        """Note which results take the memory of which arguments."""
        donation = executable.donation
        self.donations, self.written = (donation.pairs(sizes), donation.written) if donation else ((), {})
        words = [(*pair, executable.copying[pair]) for pair in self.donations if pair in executable.copying]
        self.copies = [(result, argument, word, self.buffer[word]) for result, argument, word in words]
        # No other argument has the memory of one that is written: whoever calls has checked that.
        self.own = {r: a for r, a in self.donations if self.written.get(r) == a}

    def run_on_arrays(self, arrays: Sequence[object], pack: Callable[..., None]) -> tuple[int, list[object]]:
        """Run on NumPy's arrays alone, of which native code reads the addresses: how that went, and the results."""
        own = self.own
        out = [arrays[own[i]] if i in own else make() for i, make in enumerate(self.makers)]
        for _, _, word, _ in self.copies:
            self.buffer[word] = 0  # what is in its place already is not copied
        pack(self.buffer, 8 * FIRST, *map(id, arrays), *map(id, out))
        return native().run_on_arrays(self.address), out

    def in_donated(
        self, arrays: Sequence[object], adapters: Sequence[Adapter], addresses: Sequence[int | None]
    ) -> list[object]:
        """Memory for results, of donated arguments where that is possible; what is there already is not copied."""
        out = results_in(self.donations, self.makers, arrays, adapters, addresses, self.results, written=self.written)
        for result, argument, word, tasks in self.copies:
            self.buffer[word] = 0 if out[result] is arrays[argument] else tasks
        return out


def _all_have_elements(arrays: Sequence[Any], adapters: Sequence[object], shapes: Iterable[tuple[int, ...]]) -> bool:
    """Whether arguments, and results of some shapes, are NumPy's arrays with elements."""
    if any(adapter is not NUMPY for adapter in adapters) or not all(map(all, shapes)):
        return False
    return all(array.size for array in arrays)
