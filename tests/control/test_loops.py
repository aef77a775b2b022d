"""scan, while_loop, fori_loop, map: against Python loops, on every backend; trees, sizes, captures, errors."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith
from tests.threads import in_threads
from zenith import tree
from zenith.errors import DTypeError, OutOfBoundsError, ShapeError, TraceError, UnsupportedError

BACKENDS = ("reference", "lanes", "cpu")
RNG = np.random.default_rng(7)
W = (RNG.standard_normal((3, 3)) / 2).astype(np.float32)


@pytest.fixture(params=BACKENDS)
def jit(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return lambda function: zenith.jit(function, backend=request.param)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def agree(found: Any, expected: Any, tolerance: float = 2e-6) -> None:
    a, b = tree.flatten(found), tree.flatten(expected)
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        assert x.shape == np.shape(y) and x.dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def python_scan(f: Any, init: Any, xs: Any, length: int, reverse: bool = False) -> Any:
    carry, given = init, {}
    for i in reversed(range(length)) if reverse else range(length):
        leaves, treedef = tree.flatten(xs)
        carry, given[i] = f(carry, tree.unflatten(treedef, [x[i] for x in leaves]))
    treedef = tree.flatten(given[0])[1]
    stacked = [np.stack(slices) for slices in zip(*(tree.flatten(given[i])[0] for i in range(length)), strict=True)]
    return carry, tree.unflatten(treedef, stacked)


def cell(h: Any, x: Any) -> Any:
    after = np.tanh(h @ W + x)
    return after, {"h": after, "twice": after + after}


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_a_python_loop(jit: Any, reverse: bool) -> None:
    function = jit(lambda xs, h: zenith.scan(cell, h, xs, reverse=reverse))
    for length in (1, 2, 3, 8):
        xs, h = normal(length, 3), normal(3)
        agree(function(xs, h), python_scan(cell, h, xs, length, reverse))
    assert function.cache_info().misses == 1


def test_a_scan_of_nothing_returns_what_it_began_with(jit: Any) -> None:
    h = normal(3)
    last, given = jit(lambda xs, h: zenith.scan(cell, h, xs))(normal(0, 3), h)
    assert np.array_equal(last, h) and given["h"].shape == given["twice"].shape == (0, 3)


Pair = namedtuple("Pair", "a b")


def test_trees_keep_their_structure(jit: Any) -> None:
    def f(carry: Any, x: Any) -> Any:
        return Pair(carry.b, (carry.a[0] + x["u"], None)), [x["v"][0] * 2, carry.b[1]]

    def both(start: Any, u: Any, v: Any) -> Any:
        return zenith.scan(f, Pair((start, None), (start + 1, None)), {"u": u, "v": (v,)})

    u, v, s = normal(4, 2), normal(4, 3), normal(2)
    expected = python_scan(f, Pair((s, None), (s + 1, None)), {"u": u, "v": (v,)}, 4)
    agree(jit(both)(s, u, v), expected)


def test_carries_may_be_swapped_stay_or_be_returned_twice(jit: Any) -> None:
    def f(carry: Any, x: Any) -> Any:
        a, b, c = carry
        return (b, a, c), (a, a, c, x)

    a, b, c, xs = normal(2), normal(2), normal(2), normal(5, 2)
    expected = python_scan(f, (a, b, c), xs, 5)
    agree(jit(lambda a, b, c, xs: zenith.scan(f, (a, b, c), xs))(a, b, c, xs), expected)


def test_numbers_take_the_types_that_arrays_give_them(jit: Any) -> None:
    xs = normal(4)
    total, count = jit(lambda xs: zenith.scan(lambda s, x: ((s[0] + x, s[1] + 1), None), (0, 0), xs)[0])(xs)
    assert total.dtype == np.float32 and type(count) is int and count == 4
    np.testing.assert_allclose(total, xs.sum(), rtol=1e-6)
    stacked = jit(lambda xs: zenith.scan(lambda s, x: (0.5, s * x), np.float32(1), xs)[1])(xs)
    agree(stacked, np.concatenate([xs[:1], xs[1:] / 2]))


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_loop_whose_bound_is_an_argument(jit: Any, steps: int) -> None:
    function = jit(lambda n, x: zenith.fori_loop(0, n, lambda i, s: s + i * x, x))
    x = normal(6)
    agree(function(steps, x), x + sum(range(steps)) * x, 1e-5)
    agree(function(steps + 1, x), x + sum(range(steps + 1)) * x, 1e-5)
    assert function.cache_info().misses == 1


def test_a_loop_whose_bound_is_a_size(jit: Any) -> None:
    function = jit(lambda x: zenith.fori_loop(0, x.shape[0], lambda i, s: s + x[i] * i, 0.0))
    for length in (4, 1, 9, 0):
        x = normal(length, dtype=np.float64)
        agree(function(x), np.float64(x @ np.arange(length)))
    graph = zenith.make_graph(function)(np.ones(3))
    assert [n.primitive.name for _, n in graph.nodes()].count("scan") == 1


@pytest.mark.parametrize(("lower", "upper", "expected"), [(2, 5, 9), (5, 2, 0), (-2, 2, -2), (0, 0, 0)])
def test_bounds_may_be_anywhere(jit: Any, lower: int, upper: int, expected: int) -> None:
    def total(low: Any, high: Any) -> Any:
        return zenith.fori_loop(low, high, lambda i, s: s + i, 0)

    assert jit(lambda x: total(lower, upper) + x)(0) == expected
    assert jit(total)(lower, upper) == jit(total)(np.int32(lower), np.int64(upper)) == expected
    assert total(lower, upper) == total(np.int32(lower), upper) == expected


def test_the_index_counts_like_python(jit: Any) -> None:
    seen = jit(lambda x: zenith.fori_loop(0, 3, lambda i, s: s * i + x, x))(np.float32(2))
    assert seen.dtype == np.float32 and seen == 10
    typed = jit(lambda n: zenith.fori_loop(np.int32(0), n, lambda i, s: i, np.int32(7)))(np.int32(4))
    assert typed.dtype == np.int32 and typed == 3


def test_while_loop(jit: Any) -> None:
    def collatz(n: Any) -> Any:
        def step(state: Any) -> Any:
            value, count = state
            return np.where(value % 2 == 0, value // 2, 3 * value + 1), count + 1

        return zenith.while_loop(lambda s: s[0] != 1, step, (n, 0))

    function = jit(collatz)
    for start, steps in ((1, 0), (2, 1), (27, 111), (97, 118)):
        last, count = function(np.int64(start))
        assert last == 1 and count == steps
    assert function.cache_info().misses == 1


def test_map(jit: Any) -> None:
    x, y = normal(5, 2), normal(5)
    agree(jit(lambda t: zenith.map(lambda p: {"s": p[0].sum() * p[1]}, t))((x, y)), {"s": x.sum(1) * y}, 1e-5)


def newton_by_hand(x: Any, n: int, scale: Any) -> Any:
    total, sums = x[0], np.empty(len(x), x.dtype)
    for k in reversed(range(len(x))):
        sums[k] = (total - x[k]).sum()
        for i in range(n):
            if total.sum() > i:
                while total.sum() > i:
                    total = total * scale
            else:
                total = total + x[k]
    return total, sums


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(jit: Any, reverse: bool) -> None:
    sums = jit(lambda x: zenith.associative_scan(np.add, x, reverse=reverse))
    for shape in ((5,), (1,), (4, 3), (0, 2)):
        x = RNG.integers(-5, 5, shape)
        flipped = x[::-1] if reverse else x
        expected = np.cumsum(flipped, 0)
        agree(sums(x), expected[::-1] if reverse else expected)


def test_associative_scan_of_a_recurrence_along_another_axis(jit: Any) -> None:
    def combine(p: Any, q: Any) -> Any:
        return {"a": p["a"] * q["a"], "b": q["a"] * p["b"] + q["b"]}

    a, b = normal(2, 6), normal(2, 6)
    found = jit(lambda a, b: zenith.associative_scan(combine, {"a": a, "b": b}, axis=1))(a, b)
    h, expected = np.zeros(2, np.float32), []
    for i in range(6):
        h = a[:, i] * h + b[:, i]
        expected.append(h)
    agree(found, {"a": np.cumprod(a, 1), "b": np.stack(expected, 1)}, 1e-5)


def test_loops_in_loops_and_branches_in_them(jit: Any) -> None:
    def newton(x: Any, n: Any, scale: Any) -> Any:
        def row(total: Any, addend: Any) -> Any:
            def inner(i: Any, value: Any) -> Any:
                def large() -> Any:
                    return zenith.while_loop(lambda v: v.sum() > i, lambda v: v * scale, value)

                return zenith.cond(value.sum() > i, large, lambda: value + addend)

            return zenith.fori_loop(0, n, inner, total), (total - addend).sum()

        return zenith.scan(row, x[0], x, reverse=True)

    function = jit(newton)
    for shape, n in (((3, 2), 4), ((4, 5), 0), ((1, 3), 7)):
        x = RNG.integers(-3, 4, shape) / 4
        agree(function(x, n, np.float64(0.5)), newton_by_hand(x, n, 0.5), 1e-12)
    assert function.cache_info().misses == 1


def test_bodies_see_what_is_around_them_at_any_depth(jit: Any) -> None:
    table = normal(4, 2)

    def f(x: Any, k: Any) -> Any:
        y = x * 2

        def outer(c: Any, row: Any) -> Any:
            z = row + y

            def inner(i: Any, s: Any) -> Any:
                return s + z * k + zenith.numpy.take(table, i, axis=0) + x.shape[0]

            return zenith.fori_loop(0, 4, inner, c), z

        return zenith.scan(outer, x, zenith.numpy.stack([x, x]))

    x, k = normal(2), np.float32(3)
    c = x
    for _ in range(2):
        c = c + 4 * (x * 3) * k + table.sum(0) + 4 * 2
    agree(jit(f)(x, k), (c, np.stack([x * 3, x * 3])), 1e-5)
    graph = zenith.make_graph(f)(x, k)
    assert len(graph.constants) == 1 and not any(b.constants for n in graph.walk() for b in n.bodies)


def test_sizes_found_equal_inside_a_body_are_equal_outside(jit: Any) -> None:
    function = jit(lambda xs, y: zenith.scan(lambda c, x: (c, x + y), 0, xs)[1])
    for n in (3, 5):
        xs, y = normal(4, n), normal(n)
        agree(function(xs, y), xs + y)
    with pytest.raises(ShapeError):
        function(normal(4, 3), normal(4))


def test_arrays_of_one_length_are_required() -> None:
    function = zenith.jit(lambda a, b: zenith.scan(lambda c, p: (c, p[0] + p[1]), 0, (a, b))[1], backend="reference")
    agree(function(np.ones(3), np.ones(3)), 2 * np.ones(3))
    with pytest.raises(ShapeError, match="other lengths"):
        function(np.ones(3), np.ones(4))


def test_results_share_no_memory(jit: Any) -> None:
    x = normal(3)
    a, b, ys = jit(lambda x: (lambda r: (*r[0], r[1]))(zenith.scan(lambda c, y: (c, y), (x, x), x)))(x)
    a += 1
    assert np.array_equal(b, x) and np.array_equal(ys, x)


def test_outside_of_a_trace_loops_run_at_once() -> None:
    xs, h = normal(4, 3), normal(3)
    agree(zenith.scan(cell, h, xs), python_scan(cell, h, xs, 4))
    assert isinstance(zenith.map(lambda x: x * 2, xs), np.ndarray)
    with zenith.disable_jit():
        agree(zenith.jit(lambda xs, h: zenith.scan(cell, h, xs))(xs, h), python_scan(cell, h, xs, 4))


def test_empty_slices_and_odd_sizes(jit: Any) -> None:
    function = jit(lambda c, xs: zenith.scan(lambda c, x: (c + x, (c, x.sum())), c, xs))
    for rows, columns in ((3, 0), (2, 1), (3, 17), (5, 33), (0, 4)):
        c, xs = normal(columns, dtype=np.float64), normal(rows, columns, dtype=np.float64)
        last, (befores, sums) = function(c, xs)
        agree(last, c + xs.sum(0), 1e-12)
        agree(sums, xs.sum(1), 1e-12)
        agree(befores, np.cumsum(np.vstack([c, xs]), 0)[:-1], 1e-12)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint32, np.int64, np.float64])
def test_element_types(jit: Any, dtype: Any) -> None:
    xs = (RNG.integers(0, 2, (5, 3)) * 3).astype(dtype)
    last, given = jit(lambda c, xs: zenith.scan(lambda c, x: (c ^ x if dtype != np.float64 else c * x, c), c, xs))(
        xs[0], xs
    )
    expected = python_scan(lambda c, x: (c ^ x if dtype != np.float64 else c * x, c), xs[0], xs, 5)
    agree((last, given), expected)


def test_large_steps_are_shared_among_threads() -> None:
    x, w = normal(600, 700), (normal(700, 700) / 40).astype(np.float32)
    function = zenith.jit(lambda x, w: zenith.fori_loop(0, 3, lambda i, s: np.tanh(s @ w), x))
    expected = x
    for _ in range(3):
        expected = np.tanh(expected @ w)
    agree(function(x, w), expected, 1e-4)
    assert np.array_equal(function(x, w), function(x, w))


def test_many_threads_run_one_loop() -> None:
    function = zenith.jit(lambda xs, h: zenith.scan(cell, h, xs))
    cases = [(normal(50 + i, 3), normal(3)) for i in range(4)]
    expected = [function(*case) for case in cases]
    wrong: list[int] = []

    def run(i: int) -> None:
        for _ in range(50):
            last, given = function(*cases[i])
            if not (np.array_equal(last, expected[i][0]) and np.array_equal(given["h"], expected[i][1]["h"])):
                wrong.append(i)

    in_threads(4, run)
    assert not wrong


def test_an_index_out_of_bounds_in_a_loop_raises(jit: Any) -> None:
    function = jit(lambda n, x: zenith.fori_loop(0, n, lambda i, s: s + x[i], 0.0))
    assert function(3, np.ones(3)) == 3
    with pytest.raises(OutOfBoundsError):
        function(4, np.ones(3))
    assert function(2, np.ones(3)) == 2


def test_costs_and_profiles_know_loops() -> None:
    function = zenith.jit(lambda xs, h: zenith.scan(cell, h, xs))
    xs, h = normal(10, 3), normal(3)
    function(xs, h)
    (loop,) = function.lower(xs, h).cost_analysis().kernels
    assert loop.kernel == "loop" and loop.lines
    small, large = (loop.operations.evaluate({"xs0": n, "h0": 3, "xs1": 3}) for n in (1, 10))
    assert large == 10 * small > 0
    assert [p.kernel for p in function.profile(xs, h).launches] == ["loop"]


# --- what is refused ----------------------------------------------------------------------------------------------


def refused(error: type[Exception], *said: str) -> Any:
    """Expect an error that names this file's line, and says all of this."""

    class Expect:
        def __enter__(self) -> None:
            return None

        def __exit__(self, kind: Any, found: Any, traceback: Any) -> bool:
            assert kind is not None and issubclass(kind, error), f"{kind}, not {error}"
            text = str(found)
            assert all(word in text for word in (*said, "test_loops.py")), text
            return True

    return Expect()


X = np.ones(3, np.float32)


@pytest.mark.parametrize("traced", [True, False])
def test_errors_name_the_line_and_both_types(traced: bool) -> None:
    def run(function: Any) -> Any:
        return zenith.jit(function, backend="reference")(X) if traced else function(X)

    size = "x0" if traced else "3"
    with refused(DTypeError, "the next value", f"f64[{size}]", f"f32[{size}]", "astype"):
        run(lambda x: zenith.scan(lambda c, p: (c.astype(np.float64), p), x, x))
    with refused(ShapeError, f"f32[{size}, 1]", f"f32[{size}]"):
        run(lambda x: zenith.scan(lambda c, p: (c[:, None], p), x, x))
    with refused(TraceError, "another structure than init", "(f32"):
        run(lambda x: zenith.scan(lambda c, p: ((c, c), p), x, x))
    with refused(TraceError, "must return a pair"):
        run(lambda x: zenith.scan(lambda c, p: c, x, x))
    with refused(TraceError, "give length="):
        run(lambda x: zenith.scan(lambda c, p: (c, p), x))
    with refused(ShapeError, "xs has no axes"):
        run(lambda x: zenith.scan(lambda c, p: (c, p), x, x[0]))
    with refused(DTypeError, "must be one bool", "f32"):
        run(lambda x: zenith.while_loop(lambda c: c.sum(), lambda c: c, x))
    with refused(DTypeError, "the next value", "i32", "f32"):
        run(lambda x: zenith.while_loop(lambda c: c.sum() < 0, lambda c: c.astype(np.int32), x))
    with refused(DTypeError, "bounds of a fori_loop"):
        run(lambda x: zenith.fori_loop(0, x[0], lambda i, c: c, x))
    with refused(ShapeError, "the length -1 is negative"):
        run(lambda x: zenith.scan(lambda c, p: (c, p), x, length=-1))


def test_a_carry_whose_size_differs_in_a_later_call_is_an_error() -> None:
    function = zenith.jit(lambda x, y: zenith.scan(lambda c, p: (y * p, c), x, x)[0], backend="reference")
    assert function(X, X).shape == (3,)
    with pytest.raises(ShapeError):
        function(X, np.ones(4, np.float32))


def test_a_length_by_a_size_is_not_negative(jit: Any) -> None:
    def count(x: Any) -> Any:
        return zenith.scan(lambda c, _: (c + 1, None), 0.0, length=x.shape[0] - 4)[0]

    with refused(ShapeError, "the length x0 - 4 is negative: x0 - 4 >= 0 does not hold"):
        jit(count)(np.ones(3))
    function = jit(count)
    assert [float(function(np.ones(n))) for n in (6, 4)] == [2, 0]
    with refused(ShapeError, "the length x0 - 4 is negative: x0 >= 4 does not hold", "x0 = 3"):
        function(np.ones(3))


def test_bounds_by_sizes_may_be_in_any_order(jit: Any) -> None:
    function = jit(lambda x: zenith.fori_loop(2, x.shape[0] - 3, lambda i, s: s + i, 0))
    assert [int(function(np.ones(n))) for n in (3, 8, 1, 7, 4)] == [0, 9, 0, 5, 0]


def test_prints_in_bodies_are_refused() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, p: Any) -> Any:
            zenith.debug.print("{}", p)
            return c, p

        return zenith.scan(step, 0, x)

    for run in (f, zenith.jit(f)):
        with refused(UnsupportedError, "debug_print inside the body"):
            run(X)


def test_values_of_a_body_do_not_leave_it() -> None:
    leaked: list[Any] = []

    def f(x: Any) -> Any:
        zenith.scan(lambda c, p: (c, leaked.append(p)), 0, x)
        return leaked[0] + 1

    with refused(TraceError, "after the trace had ended"):
        zenith.jit(f)(X)
