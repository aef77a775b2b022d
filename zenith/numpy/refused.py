"""NumPy functions that are refused on traced arrays: the reason and the alternative that each error gives."""

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
    (np.vectorize,),
    "it calls Python for each element",
    "zenith.numpy.vectorize(function)(x), or zenith.vmap(function)(x) for a function of slices",
)
refuse(
    (np.nditer, np.ndenumerate),
    "it is a loop of Python's over elements, which exist only when the program runs",
    "work on whole arrays, with zenith.vmap(function)(x) for a function of slices, or loop with zenith.scan",
)
refuse(
    (np.real_if_close,),
    "its result is real or complex by the values, which no program's is",
    "take the real part, numpy.real(x), or keep it complex",
)
refuse(
    (np.roots,),
    "it cuts off zero coefficients, so that the size of its result depends on values",
    "call it before the traced function, or zenith.pure_callback",
)
refuse(
    (np.asfortranarray,),
    "in a program all arrays are row-major, so that there is no column-major order",
    "leave it out, or make the order of a result outside of the traced function",
)
refuse(
    (np.polydiv,),
    "it cuts off leading zeros, so that the size of its result depends on values",
    "divide with zenith.numpy.polyval, or call it before the traced function",
)
