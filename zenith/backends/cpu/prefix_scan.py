"""Prefixes of a strip of elements, here as ordinary functions on NumPy arrays.

``running_sum(LANES, to, to_at, source, at, count, before)`` writes what ``before`` and the elements up to each one join
to, and returns the last; so do ``running_product``, ``running_max``, ``running_min`` and ``running_logaddexp``. In
compiled code they are LLVM vectors (:mod:`zenith.backends.cpu.prefix_scan_code`); these are their twins, with which
kernels run undecorated.

Order: elements are taken LANES at a time, and each of these joined with those 1, 2, 4 ... positions before it in turn
(Hillis and Steele, "Data Parallel Algorithms", CACM 29, 1986), then with all before. What is left over goes one by one.
So an element's tree depends on its position in the strip and on LANES.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zenith.ir.types import NDArray


def _running(name: str, function: np.ufunc) -> Callable[..., NDArray]:
    def running(LANES: int, to: NDArray, to_at: int, source: NDArray, at: int, count: int, before: NDArray) -> NDArray:
        joined = [before]
        with np.errstate(all="ignore"):
            while len(joined) <= count:
                first = at + len(joined) - 1
                lanes = min(LANES, at + count - first)
                block = np.array(source[first : first + lanes])
                for step in _steps(lanes if lanes == LANES else 1):
                    block[step:] = function(block[:-step], block[step:])
                if lanes < LANES:
                    block = function.accumulate(np.append(joined[-1], block), dtype=to.dtype)[1:]
                else:
                    block = function(joined[-1], block)
                joined += list(block)
        to[to_at : to_at + count] = joined[1:]
        return joined[-1]

    running.__name__ = name
    running.__doc__ = f"Write what ``before`` and the elements up to each one join to by {function.__name__}."
    return running


def _steps(lanes: int) -> list[int]:
    """1, 2, 4 ... below the number of lanes."""
    return [1 << k for k in range((lanes - 1).bit_length())]


RUNNING = {
    "x + y": _running("running_sum", np.add),
    "x * y": _running("running_product", np.multiply),
    "maximum(x, y)": _running("running_max", np.maximum),
    "minimum(x, y)": _running("running_min", np.minimum),
    "logaddexp(x, y)": _running("running_logaddexp", np.logaddexp),
}
RUNNING_FUNCTIONS = {function.__name__: function for function in RUNNING.values()}
