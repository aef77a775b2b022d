"""Control flow: loops and branches over traced values, with the signatures of ``jax.lax``.

The functions that they take are traced once each, into closed subgraphs. The program runs them without Python, and how
long compiling takes does not depend on how often they run. Outside of a trace they run at once, by the interpreter.
"""

from zenith.control.branches import cond, switch
from zenith.control.loops import associative_scan, fori_loop, map, scan, while_loop

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
