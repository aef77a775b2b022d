"""NumPy functions whose result has a size that depends on values: what the user is told about each."""

from __future__ import annotations

import numpy as np

from zenith.trace.dispatch import refuse

_VALUES = "the size of its result depends on values, which exist only when the program runs"

refuse((np.trim_zeros, np.bincount), _VALUES, "call it before the traced function and pass the result as an argument")
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
