"""Complex numbers in all of Zenith: calls, loops, derivatives, memory, files, and refusals."""

import cloudpickle
import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.running import call, compiled
from tests.passes.compare import program
from zenith.errors import DTypeError
from zenith.ir.interpret import interpret

RNG = np.random.default_rng(3)
Z = RNG.normal(size=6) + 1j * RNG.normal(size=6)
M = RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))
BACKENDS = pytest.mark.parametrize("backend", ["reference", "lanes", "cpu"])


def everything(x, y):
    z = x * y + 1j
    return (
        z.real, z.imag, z.conj(), np.abs(z), np.angle(z), (z / x).sum(axis=0), x @ y, z.mean(), np.vdot(x, z), z.std(),
        np.where(z.real > 0, z, 2), z == z, np.concatenate([z, x]), z[1:, ::-1], z.T.reshape(-1), np.sign(z), z**3,
        np.maximum(z, x), z * 2.5, 3 - z, np.exp(z) + np.sqrt(z), np.sort(z, axis=0), z.prod(axis=0), np.cumsum(z),
        np.take(z, [2, 0, -1], axis=0), np.einsum("ij,kj->ik", z, x.conj()), z.astype(np.complex128), np.isnan(z),
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["reference", "lanes", pytest.param("cpu", marks=pytest.mark.thorough)])
def test_programs_of_all_kinds(backend):
    x, y = (a.astype(np.complex64) for a in (M, M[0]))
    for found, expected in zip(zenith.jit(everything, backend=backend)(x, y), everything(x, y), strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("value", "number", "dtype"), [
    (np.float32(2), 1j, np.complex64), (np.complex64(1j), 2.5, np.complex64), (np.int64(2), 1j, np.complex128),
    (np.float16(1), 2j, np.complex64), (np.float64(2), 1j, np.complex128),
])  # fmt: skip
def test_python_complex_numbers_are_weak(value, number, dtype):
    array = np.full(3, value)
    multiplied = zenith.jit(lambda a: a * number, backend="lanes"), zenith.jit(lambda a, n: a * n, backend="lanes")
    for found in (multiplied[0](array), multiplied[1](array, number)):
        assert found.dtype == dtype == (array * number).dtype
        np.testing.assert_array_equal(found, array * number)


@BACKENDS
def test_loops_and_branches_carry_complex_values(backend):
    def step(c, x):
        c = c * 0.5j + x
        return c, c * 2

    last, each = zenith.jit(lambda a: zenith.scan(step, a[0], a), backend=backend)(Z)
    c, wanted = Z[0], []
    for x in Z:
        c = c * 0.5j + x
        wanted.append(c * 2)
    np.testing.assert_allclose(last, c)
    np.testing.assert_allclose(each, wanted)
    chosen = zenith.jit(lambda a: zenith.cond(a[0].real > 0, lambda v: v * 1j, np.conj, a), backend=backend)
    np.testing.assert_allclose(chosen(Z), Z * 1j if Z[0].real > 0 else Z.conj())
    shrunk = zenith.jit(
        lambda a: zenith.while_loop(lambda v: np.abs(v).max() > 1, lambda v: v * 0.5j, a), backend=backend
    )
    assert 0.5 < np.abs(shrunk(Z * 4)).max() <= 1


def test_results_share_memory_with_nothing_and_strides_are_followed():
    same, transposed, second = zenith.jit(lambda a: (a, a.T, a))(M)
    assert not any(np.shares_memory(a, b) for a, b in ((same, M), (same, second)))
    np.testing.assert_array_equal(transposed, M.T)
    np.testing.assert_array_equal(zenith.jit(lambda a: a * 2)(M[::2, 1::2]), M[::2, 1::2] * 2)
    empty, total = zenith.jit(lambda a: (a * 2, a.sum()))(Z[:0])
    assert empty.shape == (0,) and total == 0


def test_saved_and_pickled_programs(tmp_path):
    f = zenith.jit(lambda a: (a @ M, np.exp(a).sum()))
    expected = f(M)
    f.save(tmp_path / "f.zip")
    for other in (zenith.load(tmp_path / "f.zip"), cloudpickle.loads(cloudpickle.dumps(f))):
        for found, wanted in zip(other(M), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_python_functions_get_and_give_complex_arrays():
    struct = zenith.ShapeDtypeStruct((6,), np.complex128)
    found = zenith.jit(lambda a: zenith.pure_callback(np.fft.fft, struct, a * 2) + 1)(Z)
    np.testing.assert_allclose(found, np.fft.fft(Z * 2) + 1)


# --- derivatives ---------------------------------------------------------------------------------------------------


def differences(function, z, step=1e-6):
    """df/dx - i df/dy for each element x + iy."""
    basis = np.eye(z.size)
    along = [[(function(z + w * e) - function(z - w * e)) / (2 * step) for e in basis] for w in (step, 1j * step)]
    return np.array(along[0]) - 1j * np.array(along[1])


@pytest.mark.parametrize("loss", [
    lambda z: (np.abs(z * z + 1) ** 2).sum(), lambda z: np.abs(np.vdot(z, z[::-1])), lambda z: np.angle(z).sum(),
    lambda z: np.exp(z).real.sum() + np.log(z).imag.sum(), lambda z: np.abs(z.prod()),
    lambda z: np.sqrt(z / (z + 3)).real.sum(),
    lambda z: np.abs((z.reshape(2, 3) @ z.reshape(3, 2)).sum()), lambda z: np.sign(z).real.sum(), lambda z: z.std(),
])  # fmt: skip
def test_gradients_of_real_results(loss):
    expected = differences(loss, Z)
    np.testing.assert_allclose(zenith.grad(loss)(Z), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(zenith.jit(zenith.grad(loss), backend="lanes")(Z), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(zenith.grad(zenith.jit(loss, backend="lanes"))(Z), expected, rtol=1e-6, atol=1e-7)


def test_holomorphic_functions():
    found = zenith.grad(lambda z: np.sin(z) * z, holomorphic=True)(Z[0])
    np.testing.assert_allclose(found, np.cos(Z[0]) * Z[0] + np.sin(Z[0]))
    for jacobian in (zenith.jacfwd, zenith.jacrev):
        np.testing.assert_allclose(jacobian(np.tanh, holomorphic=True)(Z), np.diag(1 - np.tanh(Z) ** 2), atol=1e-12)
    tangent = zenith.jvp(lambda z: z * z, (Z,), (Z * 1j,))[1]
    np.testing.assert_allclose(tangent, 2j * Z * Z)


def test_a_function_of_every_row():
    np.testing.assert_allclose(zenith.jit(zenith.vmap(lambda a: np.vdot(a, a)))(M), (M.conj() * M).sum(1))


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "message"), [
    (lambda: zenith.grad(lambda a: a * a)(Z[0]), "the result of lambda_ is complex(.|\n)*holomorphic=True"),
    (lambda: zenith.jacrev(lambda a: a * 1j)(Z.real), "a result of lambda_ is complex"),
    (lambda: zenith.grad(lambda a: a * a, holomorphic=True)(1.0), "it is no complex array"),
    (lambda: zenith.jacfwd(np.exp)(Z), "it is no floating-point array"),
    (lambda: zenith.jit(lambda a: a.max())(Z), "reduce_max needs(.|\n)*real, imag"),
    (lambda: zenith.jit(lambda a: a // 2)(Z), "floor_divide is not defined"),
    (lambda: znp.arange(3j), "arange counts real numbers"),
])  # fmt: skip
def test_what_complex_numbers_have_not(function, message):
    with pytest.raises(DTypeError, match=message):
        function()


def test_a_lost_imaginary_part_is_warned_of():
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        found = zenith.jit(lambda a: a.astype(np.float64))(Z)
    np.testing.assert_array_equal(found, Z.real)


def test_a_row_of_results_is_stored_side_by_side():
    """Reductions, rows and one long row: interleaving real and imaginary parts is fused into their kernels."""
    for sizes, axes in (((3, 5), "(1,)"), ((0, 4), "(1,)"), ((40000,), "(0,)")):
        names = ", ".join("nmk"[: len(sizes)])
        rest = names.split(", ")[0] + "," if len(sizes) == 2 else ""
        graph = program(
            f"x: c64[{names}]",
            f"v1 = mul(x, x)\nv2 = reduce_sum(v1, axes={axes})\n"
            f"v3 = broadcast(v2, shape=({names},), axes=({'0,' if rest else ''}))\nv4 = sub(v1, v3)\nreturn (v2, v4)",
        )
        x = (RNG.normal(size=sizes) + 1j * RNG.normal(size=sizes)).astype(np.complex64)
        for backend in ("lanes", "cuda on lanes"):
            for found, wanted in zip(call(compiled(graph, backend), graph, [x]), interpret(graph, x), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3 if x.size > 99 else 1e-5)
