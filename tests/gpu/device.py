"""Which device tests marked ``gpu`` run on, and how arrays get there and back.

The environment variable ``ZENITH_GPU`` decides. ``required`` refuses to run without a GPU (``make gpu-tests``);
``fake`` replaces CUDA by the driver without a device, so that the tests themselves can be checked anywhere. When it
is not set they run where a GPU is, and are skipped with the reason elsewhere.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

MODE = os.environ.get("ZENITH_GPU", "")
FAKE = MODE == "fake"


@cache
def lack() -> str | None:
    """Why no kernel can run on a GPU here; None where one can."""
    if FAKE:
        return None
    from zenith.backends.cuda.compile import available
    from zenith.backends.cuda.presence import find, problem

    why = problem(find())
    if why is not None:
        return why.what
    return None if available() else "the CUDA compiler (numba-cuda) is not installed"


def upload(array: Any) -> Any:
    """A CuPy array with the elements of a NumPy array."""
    if FAKE:
        from tests.backends.cuda.arrays import on_device

        return on_device(np.ascontiguousarray(array))
    import cupy

    return cupy.asarray(array)


def download(array: Any) -> Any:
    """A NumPy array with the elements of a CuPy array, once its kernels are done."""
    if FAKE:
        from tests.backends.cuda.arrays import on_host

        return on_host(array)
    import cupy

    return cupy.asnumpy(array)
