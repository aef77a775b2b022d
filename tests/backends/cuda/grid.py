"""A grid of threads in plain Python: runs the very source that is printed for the GPU, undecorated.

Each thread of a block is a Python thread; lanes of a warp meet in their collective operations (shuffles, products of
fragments) and all threads of a block in its barriers, so they are in step there as on the device. Asynchronous copies
arrive when their thread waits for them. Small grids make every thread walk several tasks.
"""

import threading
from types import SimpleNamespace

import numpy as np

from zenith.backends.cuda import fragments
from zenith.backends.cuda.access import WIDTHS
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import KernelForm, block_threads, fits, forms, is_block, is_team
from zenith.backends.cuda.instructions import INSTRUCTIONS
from zenith.backends.cuda.launch import parameters
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.scalars import NAMESPACE, checked
from zenith.backends.tf32 import tf32
from zenith.ir.types import DTYPES

WARP = 32
BLOCKS = 2
ATOMIC = threading.Lock()


def run_grid(kernel, tasks, buffers, sizes, form=None, team=WARP):
    """Run a kernel's source in one of its forms on flat arrays; returns the status word."""
    form = form or KernelForm()
    source, status, failures = CudaPrinter(form).kernel(kernel), np.zeros(1, np.int64), []
    team = form.team or team
    threads = block_threads(kernel) if is_block(kernel) else max(team, WARP)
    words = {"tasks": tasks if is_team(kernel) else tasks // form.width, "team": team}
    words |= dict(zip(kernel.sizes, sizes, strict=True))
    memory = {"status": status} | {b.name: a for b, a in zip(kernel.buffers, buffers, strict=True)}
    index = {"u32": np.uint32, "u64": np.uint64}[form.index]
    args = [memory[name] if name in memory else index(words[name]) for name in parameters(kernel)]
    for block in range(BLOCKS):
        _Block(block, threads).run(source, kernel.name, args, failures)
    if failures:
        raise next((f for f in failures if not isinstance(f, threading.BrokenBarrierError)), failures[0])
    return int(status[0])


class GridExecutable(LanesExecutable):
    """A plan whose kernels run on a grid of threads, in their widest form or the first, by teams of ``team``."""

    def __init__(self, plan, weights, widest=False, team=WARP):
        self.widest, self.team = widest, team
        super().__init__(plan, {}, weights)

    def _define(self, kernel, functions):
        form, count = forms(kernel)[-1 if self.widest else 0], len(kernel.buffers)

        def run(begin, tasks, block):
            (status, *buffers), sizes = block[: count + 1], block[count + 1 :]
            assert fits(kernel, form, dict(zip(kernel.sizes, sizes, strict=True)), [0] * count)
            status[0] = run_grid(kernel, tasks, buffers, sizes, form, self.team)

        self.sources[kernel.name], self._functions[kernel.name] = CudaPrinter(form).kernel(kernel), run


def run_block(source, name, args, threads=WARP):
    """Run a function's source by one block of threads, as the first of the grid."""
    failures = []
    _Block(0, threads).run(source, name, args, failures)
    if failures:
        raise next((f for f in failures if not isinstance(f, threading.BrokenBarrierError)), failures[0])


class _Warp:
    """The lanes of a warp, which meet in collective operations."""

    def __init__(self, threads):
        self.given, self.made = [None] * min(WARP, threads), None
        self.barrier = threading.Barrier(len(self.given), self._together, timeout=300)

    def meet(self, lane, operation, value=None):
        """A lane's result of an operation that all lanes have reached, each with a value."""
        self.given[lane] = operation, value
        self.barrier.wait()
        return self.made[lane]

    def _together(self):
        """Done by one of the threads while the others wait."""
        (operation, _), *others = self.given
        assert all(o is operation for o, _ in others), "the lanes of a warp do the same together"
        self.made = operation([value for _, value in self.given])


def _given(values):
    """Every lane gets the values of all lanes."""
    return [values] * len(values)


class _Block:
    def __init__(self, number, threads):
        self.number, self.count = number, threads
        self.barrier = threading.Barrier(threads, timeout=300)
        self.warps = [_Warp(threads) for _ in range(0, threads, WARP)]
        self.shared, self.lock = {}, threading.Lock()

    def run(self, source, name, args, failures):
        code = compile(source, f"<{name}>", "exec")
        threads = [
            threading.Thread(target=self.thread, args=(i, code, name, args, failures)) for i in range(self.count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def thread(self, number, code, name, args, failures):
        try:
            scope = self.scope(number)
            exec(code, scope)
            with np.errstate(all="ignore"):
                scope[name](*args)
        except Exception as error:  # reported by the caller, in whose thread a test can fail
            failures.append(error)
            for barrier in (self.barrier, *(warp.barrier for warp in self.warps)):
                barrier.abort()

    def scope(self, number):
        x = {"blockIdx": self.number, "blockDim": self.count, "gridDim": BLOCKS, "threadIdx": number}
        cuda = SimpleNamespace(**{name: SimpleNamespace(x=value) for name, value in x.items()})
        warp, lane = self.warps[number // WARP], number % WARP
        cuda.syncthreads, cuda.syncwarp = self.barrier.wait, lambda: warp.meet(lane, _given)
        scope = {**NAMESPACE, "cuda": cuda}
        scope["arrive"] = self.arrive
        scope["atomic_add"] = self.atomic_add
        scope["shuffle"] = lambda value, distance: warp.meet(lane, _given, value)[lane ^ distance]
        scope["checked"] = lambda index, size, code, status: checked(index, size, code, [status])
        kinds = {str(d): d.numpy for d in DTYPES}
        made = []
        scope["u8_dynamic"] = scope["u8_shared"] = lambda length: self.shared_array(made, length, np.uint8)
        for kind, dtype in kinds.items():
            scope[f"{kind}_within"] = lambda memory, offset, dtype=dtype: _within(memory, offset, dtype)
            scope[f"{kind}_local"] = lambda length, dtype=dtype: np.zeros(length, dtype)
            scope[f"{kind}_shared"] = lambda length, dtype=dtype: self.shared_array(made, length, dtype)
        for width in WIDTHS:
            scope[f"load_{width}"] = lambda buffer, at, n=width: buffer[_aligned(at, n) : int(at) + n].copy()
            scope[f"strip_{width}"] = lambda buffer, n=width: np.zeros(n, buffer.dtype)
            scope[f"store_{width}"] = lambda buffer, at, strip, n=width: buffer.__setitem__(
                slice(_aligned(at, n), int(at) + n), strip
            )
        return scope | _tensor_core(warp, lane)

    def atomic_add(self, buffer, at, value):
        with ATOMIC:
            buffer[int(at)] += value

    def shared_array(self, made, length, dtype):
        """The n-th array that a thread asks for is shared by all threads; its contents are garbage at first."""
        with self.lock:
            array = self.shared.setdefault(len(made), np.full(length, 123, dtype))
        made.append(array)
        return array

    def arrive(self, counters, at):
        with self.lock:
            before = counters[at]
            counters[at] += 1
        return before


def _tensor_core(warp, lane):
    """The intrinsics of tensor cores for one lane: their twins compute for the whole warp when it has met."""
    copies = fragments.Copies()
    scope = {"copy_async": copies.copy, "commit_copies": copies.commit, "wait_copies": copies.wait}
    scope["tf32"] = tf32
    for dtype in DTYPES:
        if dtype.is_narrow:
            scope[f"pair_{dtype}"] = lambda low, high, kind=dtype.numpy: fragments.pair(kind, low, high)
    for instruction in INSTRUCTIONS:
        scope[instruction.name] = _mma(instruction, warp, lane)
    for count in (1, 2, 4):
        for transposed in (False, True):
            scope[f"ldmatrix_{count}{'_transposed' if transposed else ''}"] = _ldmatrix(count, transposed, warp, lane)
    return scope


def _mma(instruction, warp, lane):
    counts = instruction.sums, instruction.left_words, instruction.right_words

    def mma(c, c_at, a, a_at, b, b_at):
        operands = zip((c, a, b), (c_at, a_at, b_at), counts, strict=True)
        mine = [array[int(at) : int(at) + count].copy() for array, at, count in operands]
        c[int(c_at) : int(c_at) + instruction.sums] = warp.meet(lane, together, mine)

    def together(given):
        return fragments.mma(instruction, *(np.stack(operand) for operand in zip(*given, strict=True)))

    together = _MEETINGS.setdefault(instruction.name, together)
    return mma


def _ldmatrix(count, transposed, warp, lane):
    def ldmatrix(words, first, buffer, at):
        size = fragments.LINE // buffer.dtype.itemsize
        line = buffer[_aligned(at, size) : int(at) + size]
        assert line.size == size, "every lane brings a line inside of the buffer"
        words[int(first) : int(first) + count] = warp.meet(lane, together, line.copy().view(np.uint32))

    def together(given):
        return fragments.ldmatrix(np.stack(given), count, transposed)

    together = _MEETINGS.setdefault((count, transposed), together)
    return ldmatrix


def _within(memory, offset, dtype):
    there = memory[offset:]
    return there[: there.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)


_MEETINGS = {}  # operations of whole warps by name: one function for all lanes


def _aligned(at, width):
    assert int(at) % width == 0, "a wide access is aligned"
    return int(at)
