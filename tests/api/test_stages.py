"""Lowered and compiled stages: what they accept and refuse, what they share, what they say of costs and memory."""

import threading

import numpy as np
import pytest

import zenith
from zenith import ShapeDtypeStruct
from zenith.errors import ShapeError, TraceError, UnsupportedError, ZenithError
from zenith.ir.dims import symbol

W = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


def layer(x):
    return np.tanh(x @ W)


def rows(n):
    return np.arange(4 * n, dtype=np.float32).reshape(n, 4) / 9


@pytest.fixture
def function():
    return zenith.jit(layer, backend="lanes")


def test_a_compiled_stage_serves_every_size_and_shares_the_functions_cache(function):
    compiled = function.lower(rows(3)).compile()
    for n in (3, 1, 0, 7):
        np.testing.assert_allclose(compiled(rows(n)), layer(rows(n)), rtol=1e-5)
        np.testing.assert_allclose(function(rows(n)), layer(rows(n)), rtol=1e-5)
    assert (function.cache_info().misses, function.cache_info().hits) == (1, 4)


def test_what_is_compiled_already_is_not_traced_again():
    traces = []

    @zenith.jit(backend="lanes")
    def f(x):
        traces.append(None)
        return x + 1

    f(rows(2))
    f.lower(rows(5)).compile()
    first, second = f.lower(rows(2).astype(np.float64)), f.lower(rows(2).astype(np.float64))
    np.testing.assert_array_equal(first.compile()(rows(3).astype(np.float64)), rows(3).astype(np.float64) + 1)
    second.compile()
    assert len(traces) == 3 and f.cache_info().misses == 2


def test_nothing_is_allocated_for_structs(function):
    lowered = function.lower(ShapeDtypeStruct((1 << 40, 4), "float32"))
    assert lowered.sizes == {"x0": 1 << 40}
    np.testing.assert_allclose(lowered.compile()(rows(2)), layer(rows(2)), rtol=1e-5)


def test_structs_in_trees_keywords_and_next_to_numbers():
    @zenith.jit(backend="lanes", static_argnames="power")
    def f(tree, scale, *, power=1):
        return (tree["a"] @ tree["b"][0]) * scale**power

    a, b = ShapeDtypeStruct(("n", "k"), "float64"), ShapeDtypeStruct(("k", 2), "float64")
    compiled = f.lower({"a": a, "b": [b]}, 3.0, power=2).compile()
    result = compiled({"a": np.ones((5, 7)), "b": [np.ones((7, 2))]}, 2.0, power=2)
    np.testing.assert_array_equal(result, np.full((5, 2), 28.0))
    with pytest.raises(TraceError, match=r"is compiled for \(.*power=2\) and was called with \(.*power=3\)"):
        compiled({"a": np.ones((5, 7)), "b": [np.ones((7, 2))]}, 2.0, power=3)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((rows(2).astype(np.float64),), TraceError, r"layer is compiled for \(x: numpy f32\[_, _\]\) and was called"),
        (([rows(2)],), TraceError, "was called with"),
        ((rows(2), rows(2)), TraceError, "was called with"),
        ((rows(2)[0],), TraceError, "was called with"),
        ((np.ones((2, 5), np.float32),), ShapeError, "matmul: the inner sizes"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_nothing_is_compiled(function, args, error, message):
    compiled = function.lower(rows(2)).compile()
    with pytest.raises(error, match=message):
        compiled(*args)
    assert function.cache_info().misses == 1


def test_sizes_outside_an_assumption_are_refused():
    @zenith.jit(backend="lanes")
    def f(x):
        return x * 2 if x.shape[0] > 4 else x

    compiled = f.lower(rows(2)).compile()
    with pytest.raises(ShapeError, match=r"f is compiled for other sizes: (.|\n)*x0 <= 4(.|\n)*lower it for these"):
        compiled(rows(9))
    np.testing.assert_array_equal(f.lower(rows(9)).compile()(rows(5)), rows(5) * 2)
    assert f.cache_info().misses == 2


def test_a_compiled_stage_outlives_the_cache(function):
    compiled = function.lower(rows(2)).compile()
    function.cache_clear()
    np.testing.assert_allclose(compiled(rows(3)), layer(rows(3)), rtol=1e-5)
    assert function.cache_info().size == 0


def test_methods_are_lowered_too():
    class Model:
        def __init__(self):
            self.w = W

        @zenith.jit(backend="lanes")
        def __call__(self, x):
            return x @ self.w

    model = Model()
    np.testing.assert_allclose(Model.__call__.__get__(model).lower(rows(2)).compile()(rows(3)), rows(3) @ W, rtol=1e-6)


def test_threads_compile_a_lowered_stage_once(function):
    lowered, barrier = function.lower(rows(2)), threading.Barrier(4)

    def work():
        barrier.wait()
        lowered.compile()(rows(2))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert function.cache_info().misses == 1


def test_texts_of_the_stages(function):
    lowered = function.lower(rows(2))
    compiled = lowered.compile()
    assert "tanh(" in lowered.as_text() and "test_stages.py:" in lowered.as_text("graph")
    assert "fused(" in lowered.as_text("optimized")
    assert lowered.as_text("plan") == compiled.as_text("plan") and "launch" in lowered.as_text("plan")
    assert "def matmul_tanh" in compiled.as_text("kernels")
    assert repr(lowered) == "<zenith Lowered layer(x: numpy f32[_, _])>"
    assert repr(compiled) == "<zenith Compiled layer(x: numpy f32[_, _])>"
    with pytest.raises(ZenithError, match=r"no stage 'kernels'(.|\n)*'optimized'"):
        lowered.as_text("kernels")


def test_the_interpreter_has_texts_but_no_costs():
    lowered = zenith.jit(layer, backend="reference").lower(rows(2))
    assert "matmul" in lowered.as_text("optimized")
    np.testing.assert_allclose(lowered.compile()(rows(3)), layer(rows(3)), rtol=1e-6)
    for ask in (lowered.cost_analysis, lowered.compile().memory_analysis):
        with pytest.raises(UnsupportedError, match="layer is interpreted: it has no plan"):
            ask()


def test_costs_of_a_product_are_formulas():
    m, k, n = (symbol(s) for s in ("x0", "w0", "w1"))
    lowered = zenith.jit(lambda x, w: x @ w).lower(
        ShapeDtypeStruct((3, 5), "float32"), ShapeDtypeStruct((5, 7), "float32")
    )
    cost = lowered.cost_analysis()
    assert cost.operations == 2 * m * k * n
    product = cost.kernels[-1]
    assert product.bytes_written == 4 * m * n and product.lines
    assert cost.at(lowered.sizes).operations == 2 * 3 * 5 * 7
    assert "2*w0*w1*x0" in str(cost) and "<pre" in cost._repr_html_()


def test_costs_counted_by_hand():
    """Per element: product 2 * 4, tanh's declared cost; bytes: x and the packed weights, then the result."""
    from zenith.ir.primitive import get

    tanh = get("tanh").lowering.cost
    lowered = zenith.jit(layer).lower(rows(3))
    cost = lowered.cost_analysis().at(lowered.sizes)
    assert cost.operations == 3 * 6 * (2 * 4 + tanh)
    assert cost.bytes_written == 3 * 6 * 4
    memory = lowered.memory_analysis()
    packed = memory.packed.static
    assert cost.bytes_read == 3 * 4 * 4 + packed and packed >= W.nbytes
    assert memory.at(lowered.sizes).arguments == 3 * 4 * 4
    assert str(memory.results) == "24*x0" and memory.constants == W.nbytes and memory.arena == 0
    assert "packed" in str(memory)


def test_costs_agree_before_and_after_compiling(function):
    lowered = function.lower(rows(2))
    assert lowered.cost_analysis() == lowered.compile().cost_analysis()
    assert lowered.memory_analysis() == lowered.compile().memory_analysis()


def test_the_arena_is_a_formula_of_the_sizes():
    softmax = zenith.jit(lambda x: np.exp(x).T @ x)
    memory = softmax.lower(ShapeDtypeStruct(("n", "n"), "float64")).memory_analysis()
    assert memory.arena.symbols() == {"x0", "x1"}
    assert memory.at({"x0": 8, "x1": 8}).arena.static >= 8 * 8 * 8


def test_a_call_back_into_python_has_its_bytes():
    import zenith.debug

    def f(x):
        zenith.debug.print("{}", x)
        return x + 1

    cost = zenith.jit(f, backend="lanes").lower(rows(2)).cost_analysis()
    (step,) = (k for k in cost.kernels if k.kernel == "debug_print")
    assert step.operations == 0 and step.bytes_read == 4 * symbol("x0") * symbol("x1")
