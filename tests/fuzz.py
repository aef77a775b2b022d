"""How many random programs a test takes: all of ZENITH_FUZZ_PROGRAMS, or a share where a program costs more.

Of an idle core a program takes about 1.2 seconds in every way of running it (``tests/test_programs.py``), as long with
calls of libraries in it (``tests/test_program_calls.py``) or in a stream of its own
(``tests/test_program_streams.py``), 1 under derivatives, 2.5 under second ones, 2 under what must not change its
results, 3 where bits are compared (``tests/test_same_bits.py``), and a nest of loops under derivatives takes 20. With
the tests' shares 20 000 programs take about 12 hours of a core, 7 of them for every way of running.
"""

import os


def programs(default: int, one_in: int = 1) -> int:
    """How many programs: ``default`` where nothing is said, else one in so many of what is said, and one at least."""
    said = os.environ.get("ZENITH_FUZZ_PROGRAMS")
    return default if said is None else max(int(said) // one_in, 1)
