"""A grid of threads in plain Python: runs the very source that is printed for the GPU, undecorated.

Each thread of a block is a Python thread; lanes of a warp meet in their shuffles and all threads of a block in its
barriers, so they are in step there as on the device. Small grids make every thread walk several tasks.
"""

import threading
from types import SimpleNamespace

import numpy as np

from zenith.backends.cuda.emit import CudaPrinter, parameters
from zenith.backends.cuda.forms import BLOCK, Form, fits, forms, is_block, is_team
from zenith.backends.lanes import LanesExecutable
from zenith.backends.scalars import NAMESPACE, checked
from zenith.ir.types import DTYPES

WARP = 32
BLOCKS = 2
ATOMIC = threading.Lock()


def run_grid(kernel, tasks, buffers, sizes, form=None, team=WARP):
    """Run a kernel's source in one of its forms on flat arrays; returns the status word."""
    form = form or Form()
    source, status, failures = CudaPrinter(form).kernel(kernel), np.zeros(1, np.int64), []
    team = form.team or team
    threads = BLOCK if is_block(kernel) else max(team, WARP)
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


class _Block:
    def __init__(self, number, threads):
        self.number, self.count = number, threads
        self.barrier = threading.Barrier(threads, timeout=60)
        self.warps = [threading.Barrier(min(WARP, threads), timeout=60) for _ in range(0, threads, WARP)]
        self.words, self.shared, self.lock = [None] * threads, {}, threading.Lock()

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
            for barrier in (self.barrier, *self.warps):
                barrier.abort()

    def scope(self, number):
        x = {"blockIdx": self.number, "blockDim": self.count, "gridDim": BLOCKS, "threadIdx": number}
        cuda = SimpleNamespace(**{name: SimpleNamespace(x=value) for name, value in x.items()})
        cuda.syncthreads, cuda.syncwarp = self.barrier.wait, self.warps[number // WARP].wait
        scope = {**NAMESPACE, "cuda": cuda, "u8": np.uint8, "u64": np.uint64}
        scope["shuffle"] = lambda value, distance: self.shuffle(number, value, distance)
        scope["atomic_add"] = self.atomic_add
        scope["checked"] = lambda place, size, status: checked(place, size, [status])
        kinds = {str(d): d.numpy for d in DTYPES} | {"u8": np.uint8}
        made = []
        for kind, dtype in kinds.items():
            scope[f"{kind}_local"] = lambda length, dtype=dtype: np.zeros(length, dtype)
            scope[f"{kind}_shared"] = lambda length, dtype=dtype: self.shared_array(made, length, dtype)
        for width in (2, 4, 8):
            scope[f"load_{width}"] = lambda buffer, at, n=width: buffer[_aligned(at, n) : int(at) + n].copy()
            scope[f"strip_{width}"] = lambda buffer, n=width: np.zeros(n, buffer.dtype)
            scope[f"store_{width}"] = lambda buffer, at, strip, n=width: buffer.__setitem__(
                slice(_aligned(at, n), int(at) + n), strip
            )
        return scope

    def atomic_add(self, buffer, at, value):
        with ATOMIC:
            buffer[int(at)] += value

    def shared_array(self, made, length, dtype):
        """The n-th array that a thread asks for is that of all threads; it holds rubbish at first."""
        with self.lock:
            array = self.shared.setdefault(len(made), np.full(length, 123, dtype))
        made.append(array)
        return array

    def shuffle(self, number, value, distance):
        warp = self.warps[number // WARP]
        self.words[number] = value
        warp.wait()
        other = self.words[number ^ distance]
        warp.wait()
        return other


def _aligned(at, width):
    assert int(at) % width == 0, "a wide access is aligned"
    return int(at)
