"""Python functions in the middle of a program: results, transforms, and what goes wrong, with its line."""

import re
import traceback

import numpy as np
import pytest

import zenith
from tests.backends.running import call, compiled
from zenith.errors import DTypeError, ShapeError, TraceError, UnsupportedError, ZenithError

BACKENDS = ["reference", "lanes", "cpu"]
Struct = zenith.ShapeDtypeStruct


def sorted_and_counted(x, scale):
    return {"sorted": np.sort(x) * scale["by"], "count": np.int64(x.size)}


def program(x, by):
    declared = {"sorted": Struct(x.shape, x.dtype), "count": Struct((), np.int64)}
    found = zenith.pure_callback(sorted_and_counted, declared, x * 2, {"by": by})
    return np.exp(-found["sorted"]) + found["count"], found["sorted"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_trees_of_arrays_of_all_sizes_are_one_program(backend):
    fn = zenith.jit(program, backend=backend)
    for n in (3, 0, 1, 40):
        x = np.random.default_rng(n).standard_normal(n)
        expected = np.sort(2 * x) * 0.5
        first, second = fn(x, 0.5)
        np.testing.assert_allclose(first, np.exp(-expected) + n, rtol=1e-12)
        np.testing.assert_array_equal(second, expected)
    assert fn.cache_info().misses == 1


def test_outside_of_a_trace_it_is_called_at_once():
    found = zenith.pure_callback(np.sort, Struct((2,), np.float32), np.array([2, 1], np.float32))
    assert found.tolist() == [1, 2] and isinstance(found, np.ndarray)


@pytest.mark.parametrize("run", [lambda f: f, *(lambda f, b=b: zenith.jit(f, backend=b) for b in BACKENDS)])
def test_the_function_may_keep_and_change_what_it_gets(run):
    received = []

    def changed(x):
        received.append(x)
        x *= 2
        return x

    x = np.array([1.0, 2.0, 3.0])
    twice, y = run(lambda x: (zenith.pure_callback(changed, Struct(x.shape, x.dtype), x), x + 1))(x)
    assert (x.tolist(), twice.tolist(), y.tolist()) == ([1, 2, 3], [2, 4, 6], [2, 3, 4])
    number = run(lambda x: zenith.pure_callback(changed, Struct((), x.dtype), x[0]) + 1)(x)
    assert number == 3 and type(received[-1]) is np.ndarray and received[0].tolist() == [2, 4, 6]


def test_it_is_called_when_the_program_runs_and_only_if_somebody_needs_it():
    calls = []

    def noted(x):
        calls.append(x)
        return x

    fn = zenith.jit(lambda x: (x + 1, zenith.pure_callback(noted, x, x))[0])
    fn(np.ones(2))
    needed = zenith.jit(lambda x: zenith.pure_callback(noted, x, x) + zenith.pure_callback(noted, x, x))
    assert calls == [] and needed.lower(np.ones(2)).compile() and calls == []
    first = np.array([1.0, 2.0])
    assert needed(first).tolist() == [2, 4] and len(calls) == 1  # equal calls of a pure function are one
    needed(np.array([5.0, 6.0]))
    assert calls[0].tolist() == [1, 2]  # an argument is the function's own


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_given_arrays_whatever_their_rank(backend):
    def ranked(x, y):
        assert isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
        return np.float64(10 * x.ndim + y.ndim)

    def fn(x, y):
        return zenith.pure_callback(ranked, Struct((), np.float64), x, y)

    x = np.ones((2, 3))
    assert zenith.jit(fn, backend=backend)(x, 1.0) == 20
    assert zenith.jit(zenith.vmap(fn), backend=backend)(x, x[:, 0]).tolist() == [10, 10]


def test_results_of_every_type_and_several_calls():
    def pair(x):
        return x > 0, x.astype(np.int32), x.astype(np.float32), 3

    def fn(x):
        shape = x.shape
        structs = (Struct(shape, bool), Struct(shape, np.int32), Struct(shape, np.float32), Struct((), np.uint32))
        a, b, c, d = zenith.pure_callback(pair, structs, x)
        total = zenith.pure_callback(np.cumsum, Struct(shape, np.float64), np.where(a, b, c))
        return total * 2, d

    x = np.array([[1.5, -2.5], [3.5, 0.5]])[0]
    for backend in BACKENDS:
        found, number = zenith.jit(fn, backend=backend)(x)
        assert found.tolist() == [2.0, -3.0] and number == 3 and number.dtype == np.uint32


def test_batches_are_a_loop_of_calls_or_one():
    shapes = []

    def normed(x, y):
        shapes.append((x.shape, y.shape))
        return x / np.sqrt((x * x).sum(-1, keepdims=True)) + y

    def of(vectorized):
        return lambda x, y: zenith.pure_callback(normed, x, x, y, vectorized=vectorized) * 2

    xs, y = np.random.default_rng(1).standard_normal((5, 3)), np.float64(1)
    expected = 2 * (xs / np.linalg.norm(xs, axis=1, keepdims=True) + 1)
    for vectorized, seen in ((False, [((3,), ())] * 5), (True, [((5, 3), (5,))])):
        shapes.clear()
        mapped = zenith.jit(zenith.vmap(of(vectorized), in_axes=(0, None)))
        if vectorized:
            with pytest.raises(ValueError, match="broadcast"):  # the function's own error: y has an axis more
                mapped(xs, y)
        else:
            np.testing.assert_allclose(mapped(xs, y), expected, rtol=1e-12)
        assert shapes == seen
    twice = zenith.vmap(zenith.vmap(of(False), in_axes=(0, None)), in_axes=(0, None))
    np.testing.assert_allclose(zenith.jit(twice)(np.stack([xs, -xs]), y)[0], expected, rtol=1e-12)
    assert zenith.vmap(of(False), in_axes=(0, None))(xs[:0], y).shape == (0, 3)


@zenith.custom_vjp
def host_sin(x):
    return zenith.pure_callback(np.sin, x, x, vectorized=True)


host_sin.defvjp(lambda x: (host_sin(x), x), lambda x, g: (g * zenith.pure_callback(np.cos, x, x, vectorized=True),))


@zenith.custom_jvp
def host_exp(x):
    return zenith.pure_callback(np.exp, x, x, vectorized=True)


@host_exp.defjvp
def _(primals, tangents):
    result = host_exp(primals[0])
    return result, result * tangents[0]


def test_rules_give_it_a_derivative():
    def ours(x):
        return (host_sin(x * 2) + host_exp(x)).sum()

    def plain(x):
        return (np.sin(x * 2) + np.exp(x)).sum()

    x = np.random.default_rng(2).standard_normal((4, 3))
    for transform in (zenith.grad, lambda f: zenith.vmap(zenith.grad(f)), lambda f: zenith.grad(zenith.jit(f)),
                      lambda f: zenith.grad(lambda x: zenith.vmap(f)(x).sum()), zenith.checkpoint):  # fmt: skip
        expected = transform(plain)(x)
        np.testing.assert_allclose(transform(ours)(x), expected, rtol=1e-12)
        np.testing.assert_allclose(zenith.jit(transform(ours))(x), expected, rtol=1e-12)


def test_the_same_in_jax():
    jax = pytest.importorskip("jax")

    def fn(module, np_, struct):
        def f(x):
            r = module.pure_callback(
                lambda a, b: np.asarray(np.hypot(a, b), np.float32), struct((3,), np.float32), x, x + 1
            )
            return np_.tanh(r)

        return f

    x = np.array([0.5, 1.0, -2.0], np.float32)
    expected = jax.jit(fn(jax, jax.numpy, jax.ShapeDtypeStruct))(x)
    np.testing.assert_allclose(zenith.jit(fn(zenith, np, Struct))(x), expected, rtol=2e-6)
    xs = np.stack([x, 2 * x])
    expected = jax.vmap(lambda x: jax.pure_callback(lambda a: np.sort(a), jax.ShapeDtypeStruct((3,), np.float32), x,
                                                    vmap_method="sequential"))(xs)  # fmt: skip
    found = zenith.vmap(lambda x: zenith.pure_callback(lambda a: np.sort(a), Struct((3,), np.float32), x))(xs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("returned", "error", "said"),
    [
        (lambda x: x[1:], ShapeError, "returned an array of shape (2,), and was to return (3,)"),
        (lambda x: x.astype(np.float32), DTypeError, "returned float32, and was to return float64"),
        (lambda x: (x, x), TraceError, "returned another structure than was declared"),
        (lambda x: np.ma.masked_greater(x, 0.5), TraceError, "returned a masked array, whose mask would be lost"),
    ],
)
def test_what_was_not_declared_is_an_error_at_the_line_of_the_call(returned, error, said, backend):
    fn = zenith.jit(lambda x: zenith.pure_callback(returned, x, x) + 1, backend=backend)
    with pytest.raises(error, match=re.escape(said)) as caught:
        fn(np.ones(3))
    assert caught.value.where.file == __file__ and "fix:" in str(caught.value)


@pytest.mark.parametrize(
    ("number", "declared", "said"),
    [(2.7, np.int64, "float64, and was to return int64"), (2, bool, "int64"), (2**40, np.int32, "int64")],
)
def test_a_python_number_that_the_declared_type_cannot_hold_is_an_error(number, declared, said):
    with pytest.raises(DTypeError, match=f"returned {said}"):
        zenith.jit(lambda x: zenith.pure_callback(lambda x: number, Struct((), declared), x))(1.0)


@pytest.mark.parametrize(
    ("number", "declared"), [(3, np.uint32), (-3, np.float32), (True, np.int32), (0.5, np.float32)]
)
def test_a_python_number_takes_the_declared_type(number, declared):
    found = zenith.jit(lambda x: zenith.pure_callback(lambda x: number, Struct((), declared), x))(1.0)
    assert found == number and found.dtype == declared


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_it_raises_comes_out_with_its_own_traceback(backend):
    def fails(x):
        raise LookupError("nothing there")

    fn = zenith.jit(lambda x: zenith.pure_callback(fails, x, x) + 1, backend=backend)
    for _ in range(2):
        with pytest.raises(LookupError, match="nothing there") as caught:
            fn(np.ones(3))
        assert traceback.extract_tb(caught.tb)[-1].name == "fails"


def test_errors_of_zenith_in_it_keep_their_traceback_too():
    def fails(x):
        return zenith.dynamic_slice(x, (0, 0), (1, 1))

    with pytest.raises(ShapeError) as caught:
        zenith.jit(lambda x: zenith.pure_callback(fails, x, x))(np.ones(3))
    assert "fails" in [frame.name for frame in traceback.extract_tb(caught.tb)]


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (lambda f: zenith.grad(lambda x: f(x).sum()), "has no derivative"),
        (lambda f: lambda x: zenith.jvp(f, (x,), (x,)), "has no derivative"),
        (lambda f: lambda x: zenith.scan(lambda c, p: (c, f(p)), 0, x), "inside the body of a loop or branch"),
        (lambda f: lambda x: zenith.cond(x[0] > 0, f, lambda x: x, x), "inside the body of a loop or branch"),
        (lambda f: lambda x: zenith.scan(lambda c, p: (c, zenith.vmap(f)(p[None])), 0, x), "inside the body of a loop"),
        (lambda f: lambda x: zenith.map(zenith.checkpoint(f), x), "inside the body of a loop"),
    ],
)
def test_where_it_cannot_be_is_said_when_the_function_is_traced(wrap, said):
    def sort(x):
        return zenith.pure_callback(np.sort, x, x)

    for fn in (wrap(sort), zenith.jit(wrap(sort))):
        with pytest.raises(ZenithError, match=said) as caught:
            fn(np.ones(3))
        assert caught.value.where.file == __file__ and caught.value.fix
    with pytest.raises(UnsupportedError):
        zenith.fori_loop(0, 3, lambda i, x: sort(x), np.ones(3))


@pytest.mark.parametrize(
    ("structs", "error", "said"),
    [
        ((), TraceError, "declares no array"),
        (np.float32, TraceError, "holds a type, which declares no array"),
        (Struct(("n",), np.float32), ShapeError, "has a name for a size"),
        (np.ones(3, "M8[s]"), DTypeError, "programs have no arrays of datetime64"),
    ],
)
def test_declarations_are_checked(structs, error, said):
    with pytest.raises(error, match=said):
        zenith.jit(lambda x: zenith.pure_callback(np.sort, structs, x))(np.ones(3))


def test_a_text_with_a_callback_is_read_back_while_the_function_lives():
    graph = zenith.make_graph(lambda x: zenith.pure_callback(np.sort, x, x) * 2)(np.array([2.0, 1.0]))
    parsed = zenith.parse(str(graph))
    assert parsed == graph
    assert call(compiled(parsed, "cpu"), parsed, [np.array([2.0, 1.0])])[0].tolist() == [2, 4]
    with pytest.raises(ZenithError, match="no function 'sort#0' lives in this process"):
        zenith.parse(re.sub(r"'sort#\d+'", "'sort#0'", str(graph)))
