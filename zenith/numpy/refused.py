"""NumPy functions whose result has a size that depends on values: what the user is told about each."""

from __future__ import annotations

import numpy as np

from zenith.trace.dispatch import refuse

_VALUES = "the size of its result depends on values, which exist only when the program runs"

refuse(
    (np.nonzero, np.flatnonzero, np.argwhere, np.extract, np.compress),
    _VALUES,
    "keep the shape: numpy.where(mask, x, 0), or count with numpy.count_nonzero",
)
refuse(
    (np.unique, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values, np.union1d, np.intersect1d,
     np.setdiff1d, np.setxor1d, np.trim_zeros, np.bincount),
    _VALUES,
    "call it before the traced function and pass the result as an argument",
)  # fmt: skip
refuse(
    (np.put, np.putmask, np.place, np.copyto, np.fill_diagonal, np.put_along_axis),
    "it writes into an array, and a traced array cannot be changed in place",
    "make a new array: numpy.where(mask, new, x)",
)
refuse(
    (np.array2string, np.array_repr, np.array_str, np.save, np.savetxt, np.savez),
    "it needs the values of a traced array, which exist only when the program runs",
    "zenith.debug.print('{}', x) prints when the program runs; save what the function returns",
)
