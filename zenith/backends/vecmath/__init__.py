"""Zenith's own elementary functions: written once, branch-free, for every backend; see ``ops`` for the idea."""

from zenith.backends.vecmath.functions import FUNCTIONS, ULP, ElementaryFunction
from zenith.backends.vecmath.numpy_ops import NumpyOps
from zenith.backends.vecmath.ops import Ops

__all__ = ["FUNCTIONS", "ULP", "ElementaryFunction", "NumpyOps", "Ops"]
