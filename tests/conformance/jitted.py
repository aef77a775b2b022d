"""The array namespace of the standard's test suite: ``zenith.numpy``, every function of which is compiled.

Arrays are NumPy's. What has a shape that depends on values is computed at once, as are functions that take no arrays
of numbers: types, inspection, input and output. ``calls`` counts compiled calls, so that tests which made none can be
reported apart: methods and operators of arrays are NumPy's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import zenith
import zenith.numpy as znp
from zenith import tree

__version__ = zenith.__version__
__array_api_version__ = "2024.12"
calls = 0

AT_ONCE = {
    "__array_namespace_info__", "asarray", "can_cast", "finfo", "from_dlpack", "iinfo", "isdtype", "nonzero",
    "repeat", "result_type", "unique_all", "unique_counts", "unique_inverse", "unique_values",
}  # fmt: skip
_PROGRAMS: dict[Hashable, Callable[..., Any]] = {}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled with its arrays as arguments and everything else as constants."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        global calls
        calls += 1
        leaves, treedef = tree.flatten((args, kwargs))
        arrays = [x for x in leaves if isinstance(x, np.ndarray)]
        key = (function, str(treedef), tuple(_mark(x) for x in leaves))
        if key not in _PROGRAMS:
            static = [None if isinstance(x, np.ndarray) else x for x in leaves]
            where = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
            _PROGRAMS[key] = zenith.jit(functools.partial(_with_arrays, function, treedef, static, where))
        return _PROGRAMS[key](*arrays)

    return call


def _with_arrays(function: Callable[..., Any], treedef: Any, static: list[Any], where: list[int], *arrays: Any) -> Any:
    leaves = list(static)
    for index, array in zip(where, arrays, strict=True):
        leaves[index] = array
    args, kwargs = tree.unflatten(treedef, leaves)
    return function(*args, **kwargs)


def _mark(leaf: Any) -> Hashable:
    return np.ndarray if isinstance(leaf, np.ndarray) else (type(leaf), repr(leaf))


def _namespace(module: Any, names: list[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        value = getattr(module, name)
        plain = name in AT_ONCE or isinstance(value, type) or not callable(value)
        found[name] = value if plain else _compiled(value)
    return found


_PUBLIC = [n for n in dir(znp) if not n.startswith("_") and not isinstance(getattr(znp, n), ModuleType)]
globals().update(_namespace(znp, _PUBLIC))
__array_namespace_info__ = znp.__array_namespace_info__
linalg = SimpleNamespace(**_namespace(znp.linalg, list(znp.linalg.__all__)))
fft = SimpleNamespace(**_namespace(znp.fft, list(znp.fft.__all__)))
