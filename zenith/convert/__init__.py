"""Plain NumPy programs: loops, branches and writes of Python functions become those of the program."""

from zenith.convert.callees import callee
from zenith.convert.convert import convert
from zenith.trace import conversion

conversion.register(callee)

__all__ = ["convert"]
