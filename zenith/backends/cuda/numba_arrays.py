"""Numba-CUDA with a NumPy that is newer than itself.

Loading its compiler declares implementations of NumPy's functions, one by one. Numba-CUDA 0.30 names ``np.row_stack``,
which NumPy 2.5 no longer has: no kernel compiles, though none uses it. Its module is loaded here without declarations
of functions that NumPy lacks. NumPy itself stays as it is.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib.machinery import SourceFileLoader

import numpy as np

MODULE = "numba.cuda.np.arrayobj"
_DECLARATION = re.compile(r"^( *)overload\(np\.(\w+)\)\(\w+\)$", re.MULTILINE)


def load_arrays() -> None:
    """Load the module, unless it is loaded already or loads by itself."""
    if MODULE in sys.modules or hasattr(np, "row_stack"):
        return
    spec = importlib.util.find_spec(MODULE)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        return  # another arrangement of the package: it says itself what it lacks
    module = importlib.util.module_from_spec(spec)
    text = without_lost(spec.loader.get_source(MODULE) or "")
    sys.modules[MODULE] = module
    try:
        exec(compile(text, spec.loader.path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[MODULE]
        raise
    package, _, name = MODULE.rpartition(".")
    setattr(sys.modules[package], name, module)


def without_lost(source: str) -> str:
    """A module's source without declarations of functions that NumPy does not have; lines keep their numbers."""
    return _DECLARATION.sub(lambda found: found[0] if hasattr(np, found[2]) else f"{found[1]}pass", source)
