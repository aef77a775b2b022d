"""A grid of threads in plain Python: runs the very source that is printed for the GPU, undecorated.

Each thread of a block is a Python thread; the lanes of a warp meet in their shuffles, so they are in step there as on
the device. Small grids make every thread walk several tasks.
"""

import threading
from types import SimpleNamespace

import numpy as np

from zenith.backends.scalars import NAMESPACE, checked

WARP = 32
BLOCKS = 2


def run_grid(source, name, tasks, buffers, sizes):
    """Run a kernel's source on flat arrays with one warp a block; returns the status word."""
    status = np.zeros(1, np.int64)
    failures = []
    for block in range(BLOCKS):
        warp = _Warp(block)
        threads = [threading.Thread(target=warp.run, args=(source, name, lane, failures)) for lane in range(WARP)]
        warp.args = (np.uint32(tasks), status, *buffers, *map(np.uint32, sizes))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return int(status[0])


class _Warp:
    def __init__(self, block):
        self.block, self.args = block, ()
        self.barrier = threading.Barrier(WARP, timeout=20)
        self.words = [None] * WARP

    def run(self, source, name, lane, failures):
        scope = {**NAMESPACE, "cuda": self.built_in(lane), "u8": np.uint8, "u64": np.uint64}
        scope["shuffle"] = lambda x, distance: self.shuffle(lane, x, distance)
        scope["checked"] = lambda place, size, status: checked(place, size, [status])
        try:
            exec(compile(source, f"<{name}>", "exec"), scope)
            with np.errstate(all="ignore"):
                scope[name](*self.args)
        except Exception as error:  # reported by the caller, in whose thread a test can fail
            failures.append(error)
            self.barrier.abort()

    def built_in(self, lane):
        x = {"blockIdx": self.block, "blockDim": WARP, "gridDim": BLOCKS, "threadIdx": lane}
        return SimpleNamespace(**{name: SimpleNamespace(x=value) for name, value in x.items()})

    def shuffle(self, lane, x, distance):
        self.words[lane] = x
        self.barrier.wait()
        other = self.words[lane ^ distance]
        self.barrier.wait()
        return other
