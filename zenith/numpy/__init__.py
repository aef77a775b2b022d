"""The array namespace: NumPy's functions on traced arrays (recorded) and on concrete ones (computed at once).

Every function is implemented once, over primitives, in the chapters below. Plain NumPy calls on traced arrays arrive
at the same functions through ``__array_ufunc__`` and ``__array_function__``.

>>> import zenith.numpy as znp
>>> znp.maximum([1, -2], 0)
array([1, 0])
"""

# ruff: noqa: F403, F405 (each chapter's __all__ says what it gives)
from zenith.numpy import refused as _refused  # noqa: F401  registers what is refused, and why
from zenith.numpy.attention import *
from zenith.numpy.creation import *
from zenith.numpy.dynamic import *
from zenith.numpy.einstein import *
from zenith.numpy.elementwise import *
from zenith.numpy.indexing import *
from zenith.numpy.joining import *
from zenith.numpy.linear import *
from zenith.numpy.reductions import *
from zenith.numpy.scans import *
from zenith.numpy.selection import *
from zenith.numpy.shaping import *
from zenith.numpy.sorting import *
from zenith.numpy.types import *

# NumPy's other names of the same functions.
abs, acos, acosh, asin, asinh = absolute, arccos, arccosh, arcsin, arcsinh
atan, atan2, atanh, bitwise_invert, bitwise_not = arctan, arctan2, arctanh, invert, invert
bitwise_left_shift, bitwise_right_shift, conj, mod, pow = left_shift, right_shift, conjugate, remainder, power
true_divide, around, ascontiguousarray, asanyarray, bool = divide, round, asarray, asarray, bool_
