"""Donated arrays on a GPU, on a driver without a device: results in their memory, and nothing else changed."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host

cupy = pytest.importorskip("cupy")


def chain(a, b):
    return (np.sin(a) @ b) @ np.cos(b)


@pytest.fixture
def square(gpu, rng):
    return [rng.standard_normal((4, 4), dtype=np.float32) for _ in range(2)]


def test_a_result_takes_the_memory_of_a_donated_array(square):
    a, b = map(on_device, square)
    plain, giving = zenith.jit(chain), zenith.jit(chain, donate_argnums=0)
    wanted = on_host(plain(a, b))
    for iteration in range(3):
        given = on_device(square[0])
        allocated = zenith.memory.stats().allocations
        found = giving(given, b)
        assert found is given, iteration
        np.testing.assert_array_equal(on_host(found), wanted)
        if iteration:
            assert zenith.memory.stats().allocations == allocated, "neither a result nor an arena is new"
    assert "1 arguments are donated" in " ".join(str(giving.explain()).split())
    np.testing.assert_array_equal(on_host(b), square[1])


def test_a_slice_of_memory_an_unaligned_array_and_one_passed_twice_are_left_alone(square):
    giving, (a, b) = zenith.jit(chain, donate_argnums=0), square
    wanted = on_host(zenith.jit(chain)(on_device(a), on_device(b)))
    whole = on_device(np.concatenate([a, a]))
    offset = cupy.ndarray((4, 4), np.float32, whole.data + 4)  # dense, at an address for narrow accesses only
    shifted = np.concatenate([a.ravel(), a.ravel()])[1:17].reshape(4, 4)
    for x, values in ((whole[:4], wanted), (offset, on_host(zenith.jit(chain)(on_device(shifted), on_device(b))))):
        assert giving(x, on_device(b)) is not x
        np.testing.assert_array_equal(on_host(giving(x, on_device(b))), values)
    np.testing.assert_array_equal(on_host(whole), np.concatenate([a, a]))
    same = on_device(a)
    np.testing.assert_allclose(on_host(giving(same, same)), chain(a, a), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(on_host(same), a)


def test_a_result_waits_for_the_last_reader_of_the_memory_that_it_takes(square):
    def both(first, second):
        early = np.exp(second) @ second
        return early, (first @ early) + first

    wanted = zenith.jit(both)(*map(on_device, square))
    found = zenith.jit(both, donate_argnums=(0, 1))(*map(on_device, square))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(on_host(a), on_host(b))


def test_tensors_are_donated_too(cuda_tensors):
    torch = pytest.importorskip("torch")
    giving = zenith.jit(chain, donate_argnums=0)
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    wanted = (torch.sin(a) @ b) @ torch.cos(b)
    found = giving(a, b)
    assert found is a
    torch.testing.assert_close(found, wanted)


def refined(w, x):
    """As many kernels as a graph needs; the result may take the memory of the weight, which the first ones read."""
    for _ in range(4):
        w = np.tanh(w @ x) + w
    return w


def in_graphs(jitted):
    """How often calls were replayed, and how many graphs there are."""
    (program,) = jitted._specializer.specializations()
    setups = [s for lease in program.executable._leases for s in lease.setups.values() if s.graph is not None]
    return sum(s.graph.replays for s in setups), len(setups)


def test_donated_arrays_are_replayed_with(gpu, rng):
    """Argument and result are one address, in graphs too; a chain of calls stays in one array and one graph."""
    start, x = (rng.standard_normal((8, 8), dtype=np.float32) / 4 for _ in range(2))
    plain, giving, moved = zenith.jit(refined), zenith.jit(refined, donate_argnums=0), on_device(x)
    wanted, found = on_device(start), on_device(start)
    first = found
    for _ in range(6):
        wanted, found = plain(wanted, moved), giving(found, moved)
        assert found is first
        np.testing.assert_array_equal(on_host(found), on_host(wanted))
    replays, graphs = in_graphs(giving)
    assert replays >= 4 and graphs == 1
    np.testing.assert_array_equal(on_host(moved), x)


def test_another_donated_array_is_patched_into_the_graph(gpu, rng):
    """Which array is given changes from call to call, and once one cannot be taken: its result is elsewhere."""
    values, x = rng.standard_normal((5, 8, 8), dtype=np.float32) / 4, rng.standard_normal((8, 8), dtype=np.float32) / 4
    giving, moved = zenith.jit(refined, donate_argnums=0), on_device(x)
    whole = on_device(np.concatenate([values[0], values[0]]))
    saved = []
    for number, value in enumerate(values):
        given = whole[:8] if number == 3 else on_device(value)  # a slice of memory stays its owner's
        before = on_host(given).copy()
        found = giving(given, moved)
        assert (found is given) == (number != 3)
        np.testing.assert_array_equal(on_host(found), on_host(zenith.jit(refined)(on_device(before), moved)))
        saved.append((found, on_host(found).copy()))
    assert in_graphs(giving)[0] >= 3
    for array, then in saved:
        np.testing.assert_array_equal(on_host(array), then)  # replays write to the arrays of their own calls alone
    np.testing.assert_array_equal(on_host(whole), np.concatenate([values[0], values[0]]))
