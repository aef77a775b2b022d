"""Launches: how many blocks and threads a kernel runs on, and its parameters as the driver takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zenith.backends.cuda.forms import WARP, KernelForm, block_threads, is_block, is_team
from zenith.backends.cuda.register_rows import THREADS as LARGEST_ROW_TEAM
from zenith.backends.cuda.register_rows import row_team
from zenith.backends.cuda.shared import dynamic_shared
from zenith.backends.kernel import Fold, Kernel, Loop, runs, walk

THREADS = 256  # of a block in which each thread, or each warp, has its own tasks
LARGEST_TEAM = 1024
RESIDENT = 1 << 18  # threads that fill the largest GPUs
SERIAL = 16  # iterations of a fold that a thread has before more threads share them
COST = 8  # simple operations of an iteration, about
GRID = 1 << 20  # blocks at most; threads walk on in steps of the grid


@dataclass(frozen=True, slots=True)
class Geometry:
    """A launch: blocks, threads of each, threads of a team where the launch chooses that, dynamic shared memory."""

    blocks: int
    threads: int
    team: int | None = None
    shared: int = 0


def most_threads(kernel: Kernel, form: KernelForm) -> int:
    """The threads of the largest block that a kernel is launched with: they have to share the registers."""
    if form.iterations:
        return LARGEST_ROW_TEAM
    return block_threads(kernel) if is_block(kernel) else LARGEST_TEAM if is_team(kernel) else THREADS


def geometry(kernel: Kernel, form: KernelForm, tasks: int, sizes: Mapping[str, int]) -> Geometry:
    """The launch for ``tasks`` tasks of a call with these sizes. As only sizes decide, they fix the order of sums."""
    if is_block(kernel):
        return Geometry(max(1, min(tasks, GRID)), block_threads(kernel), None, dynamic_shared(kernel))
    if not is_team(kernel):
        groups = -(-tasks // form.width)
        return Geometry(max(1, min(-(-groups // THREADS), GRID)), THREADS)
    longest = _longest_fold(kernel, sizes)
    own = form.team or (row_team(longest, form.width, form.iterations) if form.iterations else None)
    team = own or _team(longest // form.width, tasks)
    threads = max(team, THREADS) if team == WARP else team
    return Geometry(max(1, min(-(-tasks * team // threads), GRID)), threads, team)


def _team(iterations: int, tasks: int) -> int:
    """Threads for a task: a warp, doubled while each has enough iterations and the GPU has room, or very many."""
    team = WARP
    while (
        team < LARGEST_TEAM
        and iterations >= 2 * team * SERIAL
        and (tasks * team < RESIDENT or iterations >= 2 * team * SERIAL**2)
    ):
        team *= 2
    return team


def _longest_fold(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """The iterations of the longest fold, or of the longest loop with a running value (a prefix).

    Where limits do not follow from the sizes, an estimate from the cost of a task.
    """
    loops = [s for s in walk(kernel.body) if isinstance(s, Fold) or (isinstance(s, Loop) and runs(s.body))]
    folds = [s.stop - s.start for s in loops]
    known = [f.evaluate(sizes) if f.symbols() <= sizes.keys() else kernel.cost.evaluate(sizes) // COST for f in folds]
    return max(known, default=0)


def parameters(kernel: Kernel) -> list[str]:
    """The names of an entry point's parameters, in order."""
    team = ["team"] if is_team(kernel) and not is_block(kernel) else []
    return ["tasks", *team, "status", *(b.name for b in kernel.buffers), *kernel.sizes]


def own_words(kernel: Kernel, form: KernelForm, tasks: int, shape: Geometry) -> dict[str, int]:
    """The parameters of a launch alone. In the wide form of a thread's kernel tasks come in groups."""
    words = {"tasks": tasks if is_team(kernel) else tasks // form.width}
    return words if shape.team is None else words | {"team": shape.team}


class LaunchArguments:
    """The parameters of a kernel in memory, and the table of their addresses that a launch takes.

    Several threads must not set and launch the same arguments at once.
    """

    def __init__(self, kernel: Kernel, form: KernelForm) -> None:
        self.names = parameters(kernel)
        self._words = (ctypes.c_uint64 * len(self.names))()
        start = ctypes.addressof(self._words)
        self._table = (ctypes.c_uint64 * len(self.names))(*(start + 8 * i for i in range(len(self.names))))
        self.address = ctypes.addressof(self._table)
        self._first = self.names.index("status") + 1
        self._form, self._kernel = form, kernel

    def set_sizes(self, tasks: int, shape: Geometry, sizes: Mapping[str, int]) -> None:
        """Write what follows from a call's sizes."""
        words = own_words(self._kernel, self._form, tasks, shape)
        words |= {name: sizes[name] for name in self._kernel.sizes}
        for name, value in words.items():
            self._words[self.names.index(name)] = value

    def set_addresses(self, status: int, buffers: Sequence[int]) -> None:
        """Write the addresses of the status word and of the buffers."""
        self._words[self._first - 1 : self._first + len(buffers)] = [status, *buffers]

    def value(self, name: str) -> int:
        """The current value of a parameter."""
        return self._words[self.names.index(name)]
