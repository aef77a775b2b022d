"""The ``reference`` backend: the interpreter, with NumPy, in place of an executable."""
