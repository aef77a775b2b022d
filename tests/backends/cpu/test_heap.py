"""Freed memory goes back to the system when it is asked to."""

import sys

import numpy as np
import pytest

import zenith

BLOCK, COUNT = 1 << 16, 1000


def resident() -> int:
    """Bytes of this process that are in memory and no file's."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous"))


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_blocks_between_others_are_given_back() -> None:
    """The C library keeps what it got from the system below a block in use, such as every other block here."""
    blocks = [np.ones(BLOCK, np.uint8) for _ in range(2 * COUNT)]
    full = resident()
    del blocks[::2]
    zenith.memory.release()
    assert full - resident() > 0.8 * COUNT * BLOCK
    assert all(block.all() for block in blocks)
