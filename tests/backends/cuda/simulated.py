"""Printed kernels on Numba's simulator of CUDA, in a process of its own: Numba reads the switch when it is imported.

Reads a pickle from standard input, a list of programs, each its memory by name and its launches, and writes the
memories after their launches. The simulator has threads, blocks, barriers and shared memory. It has no intrinsics,
so conversions and functions are the NumPy twins of their names (:mod:`zenith.backends.scalars`); nor has it shuffles,
so no kernel here joins the results of a team.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import config, cuda

from zenith.backends.scalars import NAMESPACE, checked
from zenith.ir.types import DTYPES

KINDS = {str(d): d.numpy for d in DTYPES}


def simulate(memory: dict[str, Any], launches: Sequence[tuple[str, str, int, int, Sequence[Any]]]) -> dict[str, Any]:
    """Run launches, each a kernel's name, source, blocks, threads and arguments; names stand for memory."""
    for name, source, blocks, threads, arguments in launches:
        kernel = cuda.jit(_function(name, source))
        with np.errstate(all="ignore"):
            kernel[blocks, threads](*(memory[a] if isinstance(a, str) else a for a in arguments))
    return memory


def _function(name: str, source: str) -> Any:
    """A kernel as a Python function."""
    scope = {**NAMESPACE, "cuda": cuda}
    scope["checked"] = lambda index, size, code, status: checked(index, size, code, [status])
    scope |= {f"{kind}_memory": dtype for kind, dtype in KINDS.items()}
    for width in (2, 4, 8, 16):
        scope |= _wide(width)
    # The simulator distinguishes arrays by the line of the call, so that has to be in the kernel itself.
    source = re.sub(r"= (\w+)_(shared|local)\((\d+)\)", r"= cuda.\2.array(\3, \1_memory)", source)
    exec(compile(source, f"<{name}>", "exec"), scope)
    return scope[name]


def _wide(width: int) -> dict[str, Any]:
    """Accesses to several neighbours; a strip is an array of the thread's own."""

    def store(buffer: Any, at: Any, strip: Any) -> None:
        for i in range(width):
            buffer[int(at) + i] = strip[i]

    return {
        f"load_{width}": lambda buffer, at: np.array([buffer[int(at) + i] for i in range(width)], buffer.dtype),
        f"strip_{width}": lambda buffer: np.zeros(width, buffer.dtype),
        f"store_{width}": store,
    }


if __name__ == "__main__":
    assert config.ENABLE_CUDASIM, "set NUMBA_ENABLE_CUDASIM=1"
    pickle.dump([simulate(*program) for program in pickle.load(sys.stdin.buffer)], sys.stdout.buffer)
