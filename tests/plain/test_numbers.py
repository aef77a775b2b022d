"""NumPy's functions of sizes, and its types of numbers: in a converted function they are the program's."""

import numpy as np
import pytest

import zenith

MADE = {
    "tri": lambda n: np.tri(n), "indices": lambda n: np.indices((n, 2)), "hanning": lambda n: np.hanning(n),
    "hamming": lambda n: np.hamming(n), "blackman": lambda n: np.blackman(n), "bartlett": lambda n: np.bartlett(n),
    "kaiser": lambda n: np.kaiser(n, 2.0), "logspace": lambda n: np.logspace(0, 1, n),
    "geomspace": lambda n: np.geomspace(1, 2, n), "broadcast_to": lambda n: np.broadcast_to(1.5, (n, 3)),
    "diag_indices": lambda n: np.diag_indices(n), "fftfreq": lambda n: np.fft.fftfreq(n, 0.1),
    "rfftfreq": lambda n: np.fft.rfftfreq(n), "float64": lambda n: np.float64(n) ** 0.5, "int64": lambda n: np.int64(n),
    "a size of int64": lambda n: np.zeros(np.int64(n)), "bool_": lambda n: np.bool_(n),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_functions_of_sizes_are_the_programs(name):
    def program(x):
        return MADE[name](x.shape[0]), x + 1

    compiled = zenith.jit(program)
    for n in (4, 7, 12):
        found, expected = compiled(np.ones(n))[0], program(np.ones(n))[0]
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, 1e-13, 1e-13)
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int32, np.uint8, np.bool_, np.complex64])
def test_types_of_numbers_convert_what_is_traced(kind):
    def program(x, k):
        return kind(x[0]), kind(k), kind(x), kind(3) + x[1], kind([x[0], x[1]])

    x = np.array([2.75, 3.5, 0.25])
    for found, expected in zip(zenith.jit(program)(x, 2.5), program(x, 2.5), strict=True):
        assert type(found) is type(expected) and found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_types_of_numbers_give_the_array_itself_where_numpy_does():
    def program(x):
        y, z = np.float64(x), np.float32(x)
        y[0], z[1] = 9, 7
        return z

    ours, plain = np.arange(3.0), np.arange(3.0)
    np.testing.assert_array_equal(zenith.jit(program)(ours), program(plain))
    np.testing.assert_array_equal(ours, plain)
    strong = zenith.jit(lambda x, k: x * np.float64(k))(np.float32([1, 2]), 2.0)
    assert strong.dtype == np.float64
    both = zenith.jit(lambda x: np.complex128(x[0], x[1]))(ours)
    assert both == 9 + 1j and type(both) is np.complex128


def test_numbers_that_a_type_need_not_hold_are_refused():
    with pytest.raises(zenith.ZenithError):
        zenith.jit(lambda k: np.float64(k * 1j))(3)


def test_arrays_of_repeated_numbers_are_not_written():
    def program(x):
        w = np.broadcast_to(1.0, (len(x), 2))
        w[0] = 5
        return w

    with pytest.raises(zenith.ZenithError, match="read-only"):
        zenith.jit(program)(np.ones(3))


@pytest.mark.parametrize("parts", [(1.0, np.inf), (np.inf, 2.0), (np.nan, 1.0), (-0.0, -0.0)])
@pytest.mark.parametrize("kind", [complex, np.complex128])
def test_complex_numbers_have_exactly_their_parts(kind, parts):
    found = zenith.jit(lambda x: kind(x[0], x[1]))(np.array(parts))
    np.testing.assert_array_equal([found.real, found.imag], parts)
    assert np.signbit(found.real) == np.signbit(parts[0]) and np.signbit(found.imag) == np.signbit(parts[1])


def test_parts_of_complex_numbers_may_be_complex_for_python_alone():
    x = np.array([3.0, 4.0])
    assert zenith.jit(lambda x: complex(x[0] * 1j, x[1] * 2j))(x) == complex(3j, 8j)
    with pytest.raises(zenith.ZenithError):
        zenith.jit(lambda x: np.complex128(x[0] * 1j, x[1]))(x)
