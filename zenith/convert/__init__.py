"""Plain NumPy programs: loops, branches and writes of Python functions become those of the program."""

from zenith.convert.convert import convert

__all__ = ["convert"]
