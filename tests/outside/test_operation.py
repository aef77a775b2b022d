"""Operations of one's own: Python and native ones, alone, under transforms, composed, and what is wrong with them."""

import ctypes
import re
from functools import partial

import numpy as np
import pytest
from numba import cfunc

import zenith
import zenith.numpy as znp
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.lower.native import lower_native
from zenith.backends.planner import plan
from zenith.errors import ShapeError, TraceError, UnsupportedError, ZenithError
from zenith.ir.dims import symbol
from zenith.ir.types import ArrayType, float32
from zenith.passes.pipeline import run

BACKENDS = ["reference", "lanes", "cpu"]
Struct = zenith.ShapeDtypeStruct
X = np.random.default_rng(3).standard_normal((4, 3))


def like(x, **static):
    return Struct(x.shape, x.dtype)


@zenith.custom_op(result=like, vectorized=True)
def exponential(x, base=np.e):
    """A power of a base."""
    return base**x


@exponential.defjvp
def _(primals, tangents, base=np.e):
    result = exponential(primals[0], base=base)
    return result, result * np.log(base) * tangents[0]


@cfunc("void(CPointer(float64), CPointer(float64), CPointer(float64), int64, int64, int64)")
def native_ring(x, y, out, n, m, k):
    for i in range(k):
        out[i] = x[i % n] * y[i % m]


ring = zenith.custom_op(
    lambda x, y: x * np.resize(y, x.shape),
    native=native_ring,
    result=lambda x, y: Struct(x.shape, x.dtype),
    name="ring",
)


def ring_forward(x, y):
    return ring(x, y), (x, y)


def ring_backward(residuals, g):
    x, y = residuals
    indices = znp.arange(x.shape[0]) % y.shape[0]
    return ring(g, y), np.where(indices[:, None] == znp.arange(y.shape[0]), (g * x)[:, None], 0).sum(0)


ring.defvjp(ring_forward, ring_backward)


@zenith.custom_op(result=lambda pair: {"both": Struct((pair[0].shape[0] + pair[1].shape[0],), pair[0].dtype)})
def joined(pair):
    return {"both": np.concatenate(pair)}


@joined.defjvp
def _(primals, tangents):
    return joined(primals[0]), joined(tangents[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_program_for_all_sizes_and_one_node_for_equal_calls(backend):
    fn = zenith.jit(lambda x: exponential(x, base=2.0) + exponential(x * 1.0, base=2.0) * ring(x, x), backend=backend)
    for n in (3, 1, 0, 7):
        x = np.arange(n) / 2
        np.testing.assert_allclose(fn(x), 2**x * (1 + x * x), rtol=1e-12)
    assert fn.cache_info().misses == 1
    graph = zenith.make_graph(lambda x: (exponential(x), exponential(x), exponential(x, base=2.0)))(X)
    optimized, _ = run(graph)
    assert sum(node.primitive.name == "call_python" for _, node in optimized.nodes()) == 2


def test_outside_of_a_trace_and_in_trees():
    assert exponential.__name__ == "exponential" and exponential.__doc__ == "A power of a base."
    np.testing.assert_allclose(exponential(np.float64(2), base=3.0), 9)
    assert ring(np.ones(3), np.array([1.0, 2.0])).tolist() == [1, 2, 1]
    found = zenith.jit(lambda x, y: joined((x, y * 2))["both"] + 1)(np.ones(2), np.ones(3))
    assert found.tolist() == [2, 2, 3, 3, 3]


TRANSFORMS = {
    "grad": lambda f: zenith.grad(lambda x: f(x).sum()),
    "vmap": zenith.vmap,
    "vmap(vmap)": lambda f: zenith.vmap(zenith.vmap(f)),
    "vmap(grad)": lambda f: zenith.vmap(zenith.grad(lambda x: f(x).sum())),
    "grad(vmap)": lambda f: zenith.grad(lambda x: zenith.vmap(f)(x).sum()),
    "jvp": lambda f: lambda x: zenith.jvp(f, (x,), (np.cos(x),))[1],
    "hessian": lambda f: lambda x: zenith.hessian(lambda v: f(v).sum())(x[0]),
    "jacfwd(jacrev)": lambda f: lambda x: zenith.jacfwd(zenith.jacrev(f))(x[0]),
    "linearize": lambda f: lambda x: zenith.linearize(f, x)[1](x),
    "grad(checkpoint)": lambda f: zenith.grad(lambda x: zenith.checkpoint(f)(x).sum()),
}


@pytest.mark.parametrize("jit", [zenith.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_an_operation_are_those_of_what_it_computes(name, jit):
    """Its rule uses itself, so that there are second derivatives."""
    found = jit(TRANSFORMS[name](lambda x: np.sin(exponential(2 * x))))(X)
    np.testing.assert_allclose(found, TRANSFORMS[name](lambda x: np.sin(np.exp(2 * x)))(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("jit", [zenith.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("name", ["grad", "vmap", "vmap(vmap)", "vmap(grad)", "grad(vmap)", "grad(checkpoint)"])
def test_reverse_rules_of_a_native_operation(name, jit):
    """Examples that are mapped have the rules of one, batched."""
    cube = np.stack([X, 2 * X])

    def fn(product, x):
        y = np.sin(x.reshape(-1))
        return product(y, y[:2])

    def plain(x, y):
        return x * np.concatenate([y] * 20)[: x.shape[0]]

    x = cube if name == "vmap(vmap)" else X
    expected = zenith.jit(TRANSFORMS[name](partial(fn, plain)))(x)
    np.testing.assert_allclose(jit(TRANSFORMS[name](partial(fn, ring)))(x), expected, rtol=1e-12)


def test_native_operations_run_in_loops_without_python():
    fn = zenith.jit(lambda x: zenith.scan(lambda c, p: (ring(c, p), c), x[0], x))
    last, _ = fn(X)
    np.testing.assert_allclose(last, X[0] * np.prod(X, 0), rtol=1e-12)
    graph, _ = run(zenith.make_graph(lambda x: zenith.scan(lambda c, p: (ring(c, p), c), x[0], x))(X))
    assert "launch ring_" in str(plan(graph, cpu_target())) and "call" not in str(plan(graph, cpu_target()))
    with pytest.raises(UnsupportedError, match="exponential calls Python inside the body of a loop"):
        zenith.jit(lambda x: zenith.scan(lambda c, p: (exponential(c), None), x[0], x))(X)


def test_native_code_comes_as_an_address_or_a_function_of_ctypes():
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    def negate(source, target, n, m):
        from_, to = ((ctypes.c_float * n).from_address(at) for at in (source, target))
        to[:] = [-v for v in from_]

    function = kind(negate)
    address = ctypes.cast(function, ctypes.c_void_p).value
    x = np.array([1, -2, 3], np.float32)
    for native in (function, address):
        op = zenith.custom_op(native=native, result=like, name="negate")
        for backend in BACKENDS:
            assert zenith.jit(lambda x, op=op: op(x * 2), backend=backend)(x).tolist() == [-2, 4, -6]


def test_a_rule_for_batches_replaces_the_loop():
    sizes = []

    @zenith.custom_op(result=lambda x, y: Struct(x.shape, x.dtype))
    def scaled(x, y):
        sizes.append(x.shape)
        return x * y

    @scaled.defvmap
    def _(axis_size, in_batched, x, y):
        assert in_batched == (True, False)
        assert x.shape[0] == axis_size
        return scaled(x.reshape(-1), y).reshape(x.shape)

    found = zenith.jit(zenith.vmap(scaled, in_axes=(0, None)))(X, 3.0)
    np.testing.assert_array_equal(found, 3 * X)
    assert sizes == [(12,)]


def test_concurrent_calls_do_not_meet():
    from concurrent.futures import ThreadPoolExecutor

    fn = zenith.jit(lambda x: exponential(ring(x, x)) * 2)
    arrays = [np.full(5, i / 10) for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        for x, found in zip(arrays, pool.map(fn, arrays), strict=True):
            np.testing.assert_allclose(found, 2 * np.exp(x * x), rtol=1e-12)


# --- what is wrong ------------------------------------------------------------------------------------------------


def bare(function=np.sin, result=like, **others):
    return zenith.custom_op(function, result=result, name="bare", **others)


def with_rules(jvp=None, vjp=None, vmap=None):
    op = bare()
    if jvp is not None:
        op.defjvp(jvp)
    if vjp is not None:
        op.defvjp(*vjp)
    if vmap is not None:
        op.defvmap(vmap)
    return op


def gradient(op):
    return zenith.grad(lambda x: op(x).sum())


REVERSE = (lambda x: (x, x), lambda x, g: (x * g,))


@pytest.mark.parametrize(
    ("call", "error", "said", "fix"),
    [
        (lambda x: gradient(bare())(x), ZenithError, "bare has no derivative", "bare.defvjp(forward, backward)"),
        (lambda x: zenith.jvp(bare(), (x,), (x,)), ZenithError, "bare has no derivative", "@bare.defjvp"),
        (lambda x: zenith.jvp(with_rules(vjp=REVERSE), (x,), (x,)), ZenithError, "reverse mode only", "@bare.defjvp"),
        (lambda x: gradient(with_rules(jvp=lambda p, t: p))(x), TraceError, "returns a pair", "return result, tangent"),
        (lambda x: gradient(with_rules(jvp=lambda p, t: (p[0], t[0][0])))(x), TraceError, "tangents of bare", ""),
        (lambda x: gradient(with_rules(vjp=(lambda x: x, REVERSE[1])))(x), TraceError, "rule of bare", "residuals"),
        (lambda x: gradient(with_rules(vjp=(lambda x: (x[0], x), REVERSE[1])))(x), TraceError, "rule must be", ""),
        (lambda x: gradient(with_rules(vjp=(REVERSE[0], lambda x, g: g)))(x), TraceError, "returns a tuple", ""),
        (lambda x: zenith.vmap(with_rules(vmap=lambda n, b, x: x[0]))(x), TraceError, "the result of bare's vmap", ""),
        (lambda x: bare(lambda x: x[1:])(x), ShapeError, "bare returned an array of shape (3, 3)", "declared shape"),
        (lambda x: bare(result=lambda x: ())(x), TraceError, "the shape rule of bare declares no array", ""),
        (lambda x: bare(result=lambda x: 3)(x), TraceError, "the shape rule of bare holds a int", "ShapeDtypeStruct"),
        (lambda x: bare(native=np.sin)(x), TraceError, "is no native code", "a Numba cfunc"),
        (lambda x: zenith.custom_op(native=0, result=like), TraceError, "is no native code", "an address"),
        (lambda x: exponential(x, base=[2]), TraceError, "keywords are static", "positional"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_the_users_line(call, error, said, fix):
    for fn in (call, zenith.jit(call)):
        with pytest.raises(error, match=re.escape(said)) as caught:
            fn(X)
        assert caught.value.where.file == __file__ and fix in (caught.value.fix or "")


def test_a_rule_takes_nothing_from_a_trace_around_it():
    def fn(x):
        op = with_rules(jvp=lambda p, t: (p[0], t[0] * x))
        return gradient(op)(x)

    with pytest.raises(TraceError, match="used inside another trace"):
        zenith.jit(fn)(X)


def test_a_native_function_has_no_cuda_form():
    type = ArrayType(float32, (symbol("function"), symbol("example")))  # sizes may have the kernel's own names
    kernel = lower_native("mine", [type], [type], 1)
    assert len({b.name for b in kernel.buffers} | {*kernel.sizes}) == 5
    with pytest.raises(UnsupportedError, match="a native function from outside runs on the CPU only"):
        CudaPrinter().kernel(kernel)


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ((1,), (1.0,)), (0.0, -0.0)])
def test_keywords_that_are_equal_but_not_the_same(one, other):
    @zenith.custom_op(result=lambda x, *, k: Struct(x.shape, x.dtype))
    def is_one(x, *, k):
        return np.full_like(x, repr(k) == repr(one))

    first, second = zenith.jit(lambda x: (is_one(x, k=one), is_one(x, k=other)))(X)
    assert first.all() and not second.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_native_code_gets_no_size_of_a_number(backend):
    @cfunc("void(CPointer(double), CPointer(double), CPointer(double), int64, int64)")
    def scaled(factor, x, out, size, results):
        for i in range(min(size, results)):
            out[i] = factor[0] * x[i]

    operation = zenith.custom_op(result=lambda factor, x: Struct(x.shape, x.dtype), native=scaled, name="scaled")
    assert np.array_equal(zenith.jit(operation, backend=backend)(np.float64(3), X[0]), 3 * X[0])
    many = zenith.jit(zenith.vmap(operation), backend=backend)
    assert np.array_equal(many(X[:, 0], X), X[:, :1] * X)
