"""The array namespace: NumPy's functions on traced arrays (recorded) and on concrete ones (computed at once).

Every function is implemented once, over primitives, in the submodules below. Plain NumPy calls on traced arrays arrive
at the same functions through ``__array_ufunc__`` and ``__array_function__``.

>>> import zenith.numpy as znp
>>> znp.maximum([1, -2], 0)
array([1, 0])
"""

# ruff: noqa: F403, F405 (each submodule's __all__ lists what it exports)
import typing as _typing
from types import ModuleType as _ModuleType
from typing import NoReturn as _NoReturn

from zenith.numpy import fft, lib, linalg, special  # noqa: F401
from zenith.numpy import flat as _flat  # noqa: F401  registers x.flat
from zenith.numpy import folds as _folds  # noqa: F401  registers methods of ufuncs
from zenith.numpy import refused as _refused  # noqa: F401  registers what is refused, and why
from zenith.numpy.absent import refuse_name as _refuse_name
from zenith.numpy.along import *
from zenith.numpy.attention import *
from zenith.numpy.brackets import *
from zenith.numpy.calculus import *
from zenith.numpy.complex_numbers import *
from zenith.numpy.conditionals import *
from zenith.numpy.counting import *
from zenith.numpy.creation import *
from zenith.numpy.cumulative import *
from zenith.numpy.data_dependent import *
from zenith.numpy.dynamic_slices import *
from zenith.numpy.editing import *
from zenith.numpy.einstein import *
from zenith.numpy.elementwise import *
from zenith.numpy.float_parts import *
from zenith.numpy.in_place import *
from zenith.numpy.index_arrays import *
from zenith.numpy.indexing import *
from zenith.numpy.inspection import *
from zenith.numpy.joining import *
from zenith.numpy.linear import *
from zenith.numpy.missing import *
from zenith.numpy.packing import *
from zenith.numpy.padding import *
from zenith.numpy.polynomials import *
from zenith.numpy.products import *
from zenith.numpy.quantiles import *
from zenith.numpy.ranges import *
from zenith.numpy.reductions import *
from zenith.numpy.searching import *
from zenith.numpy.sets import *
from zenith.numpy.shaping import *
from zenith.numpy.sorting import *
from zenith.numpy.spreads import *
from zenith.numpy.stride_tricks import *
from zenith.numpy.types import *
from zenith.numpy.vectorized import *

# NumPy's other names of the same functions.
abs, acos, acosh, asin, asinh = absolute, arccos, arccosh, arcsin, arcsinh
atan, atan2, atanh, bitwise_invert, bitwise_not = arctan, arctan2, arctanh, invert, invert
bitwise_left_shift, bitwise_right_shift, conj, mod, pow = left_shift, right_shift, conjugate, remainder, power
true_divide, around, asanyarray, bool = divide, round, asarray, bool_

if not _typing.TYPE_CHECKING:  # which knows the names that there are

    def __getattr__(name: str) -> _NoReturn:
        _refuse_name(__name__, name, globals(), (linalg, fft, special))


def __dir__() -> list[str]:
    public = ("fft", "lib", "linalg", "special", "typing")
    found = (name for name, of in globals().items() if name in public or not isinstance(of, _ModuleType))
    return [name for name in found if name[0] != "_"]
