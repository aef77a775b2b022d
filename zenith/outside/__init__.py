"""Functions from outside: Python called in the middle of a program, and operations of your own."""

from zenith.outside.callback import pure_callback
from zenith.outside.operation import CustomOp, custom_op

__all__ = ["CustomOp", "custom_op", "pure_callback"]
