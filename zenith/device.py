"""Waiting for GPUs: their kernels run later than the calls that launch them.

>>> import zenith
>>> zenith.synchronize()  # where no GPU was used there is nothing to wait for
"""

from __future__ import annotations


def synchronize() -> None:
    """Wait until everything that was launched is done, on all GPUs that were used, and raise what it has reported.

    Raises OutOfBoundsError when an index was outside its axis, with the line of the program. An error that was met is
    also raised by the next call of that program on the same stream, whichever comes first.
    """
    from zenith.backends.cuda import status

    status.synchronize()
