"""Functions from outside: Python called in the middle of a program, and operations of your own."""

from zenith.outside.callback import pure_callback

__all__ = ["pure_callback"]
