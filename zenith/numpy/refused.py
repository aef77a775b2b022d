"""NumPy functions whose result has a size that depends on values: what the user is told about each."""

from __future__ import annotations

import numpy as np

from zenith.trace.dispatch import refuse

_VALUES = "the size of its result depends on values, which exist only when the program runs"

refuse((np.trim_zeros,), _VALUES, "call it before the traced function and pass the result as an argument")
refuse(
    (np.array2string, np.array_repr, np.array_str, np.save, np.savetxt, np.savez),
    "it needs the values of a traced array, which exist only when the program runs",
    "zenith.debug.print('{}', x) prints when the program runs; save what the function returns",
)
refuse(
    (np.polydiv,),
    "it cuts off leading zeros, so that the size of its result depends on values",
    "divide with zenith.numpy.polyval, or call it before the traced function",
)
