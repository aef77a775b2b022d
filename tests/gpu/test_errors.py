"""What a GPU finds is raised by the next call or by synchronize, with the user's line; the program goes on after."""

import numpy as np
import pytest

import zenith
from tests.gpu.device import download, upload
from zenith.backends.cuda.memory import OutOfMemoryError
from zenith.errors import OutOfBoundsError


def take():
    return zenith.jit(lambda x, i: x[i])


def test_synchronize_raises_an_index_outside_with_its_line():
    take()(upload(np.arange(3.0)), upload(np.array([0, 7])))
    with pytest.raises(OutOfBoundsError, match=r"test_errors\.py"):
        zenith.synchronize()
    zenith.synchronize()


def test_the_next_call_raises_it(real):
    run, x = take(), upload(np.arange(3.0))
    run(x, upload(np.array([0, 7])))
    real.cuda.Device().synchronize()  # now the kernel has surely written
    with pytest.raises(OutOfBoundsError):
        run(x, upload(np.array([0, 1])))
    assert download(run(x, upload(np.array([2, 1])))).tolist() == [2.0, 1.0]


def test_other_programs_are_not_blamed():
    run, other = take(), zenith.jit(lambda x: x + 1)
    run(upload(np.arange(3.0)), upload(np.array([-9])))
    assert download(other(upload(np.ones(2)))).tolist() == [2.0, 2.0]
    with pytest.raises(OutOfBoundsError):
        zenith.synchronize()


def test_negative_indices_count_from_the_end():
    assert download(take()(upload(np.arange(4.0)), upload(np.array([-1, -4])))).tolist() == [3.0, 0.0]
    zenith.synchronize()


def test_no_memory_says_what_was_requested_and_what_is_in_use(real):
    _, total = real.cuda.runtime.memGetInfo()
    count = int((total / 4) ** 0.5) + 1000
    outer = zenith.jit(lambda x: x[:, None] * x)
    with pytest.raises(OutOfMemoryError, match=r"no device memory for .* of results"):
        outer(real.ones(count, np.float32))
    assert float(outer(real.ones(5, np.float32)).sum()) == 25.0
