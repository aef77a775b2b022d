"""The kernel registry: the table, the choice of an engine, kernels of one's own, named kernels."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from zenith import ShapeDtypeStruct, kernels
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.libraries import LIBRARY_ENGINES
from zenith.backends.engines import Engine, Refusal, choose, registered
from zenith.backends.lower.engine_table import OWN
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.text import parse
from zenith.passes import groups

VECTOR = (ShapeDtypeStruct(("n",), "float32"),)
BODY = parse("def f(p0: f32[n]) -> (f32[n]):\n    a = exp(p0)\n    return (a,)")


@pytest.fixture
def clean():
    """A registry that forgets what a test adds."""
    yield
    for engine in registered():
        kernels.unregister(engine.name)


def test_the_table_has_every_engine():
    names = {e.name for e in kernels.table().engines}
    assert {"loops", "rows", "long_row", "columns", "scatter", "product"} <= names
    text = str(kernels.table())
    assert all(name in text for name in names) and "priority" in text
    kinds = {kind for e in OWN for kind in e.kinds}
    assert all(f"``{kind}``" in groups.__doc__ for kind in kinds)


def test_the_cheapest_is_chosen_then_priority_then_the_latest():
    def engine(name, answer, priority=0):
        return Engine(name, ("loops",), "", priority, lambda body, target: answer, lambda body, target, fixed: [])

    target = cpu_target()
    made = [engine("plain", 1.0), engine("slow", 2.0, 9), engine("no", Refusal("it rains")), engine("good", 1.0, 5),
            engine("late", 1.0, 5)]  # fmt: skip
    chosen, choice = choose(made, BODY, "loops", target)
    assert chosen.name == choice.engine == "late"
    assert dict(choice.others) == {
        "no": "it rains", "good": "registered before", "plain": "priority 0, not 5", "slow": "costs 2, not 1",
    }  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"no engine takes a group of kind loops \(no: it rains"):
        choose([made[2]], BODY, "loops", target)
    with pytest.raises(UnsupportedError, match="no engine computes groups of kind waves"):
        choose(made, BODY, "waves", target)


def register_relu(**options):
    @kernels.register(computes=lambda x: np.maximum(x, 0), like=VECTOR, **options)
    def my_relu(begin, end, x, out):
        """Relu, one element a task."""
        for i in range(begin, end):
            out[i] = x[i] if x[i] > 0 else f32(0)  # noqa: F821

    return my_relu


@pytest.mark.usefixtures("clean")
def test_a_saved_function_needs_no_registry(tmp_path):
    register_relu()
    function, x = zenith.jit(lambda x: np.maximum(x, 0)), np.linspace(-1, 1, 9, dtype=np.float32)
    wanted = function(x)
    function.save(tmp_path / "relu.zenith")
    kernels.unregister("my_relu")
    loaded = zenith.load(tmp_path / "relu.zenith")
    np.testing.assert_array_equal(loaded(x), wanted)
    assert "my_relu" in loaded.show("plan")


@pytest.mark.usefixtures("clean")
def test_a_kernel_of_ones_own_is_checked_used_and_forgotten():
    mine = register_relu()
    mine.check()
    f = zenith.jit(lambda x: np.maximum(x, 0))
    x = np.linspace(-1, 1, 4001, dtype=np.float32)
    np.testing.assert_array_equal(f(x), np.maximum(x, 0))
    assert "def my_relu_" in f.lower(x).compile().as_text("kernels")
    text = " ".join(str(f.explain()).split())
    assert "my_relu" in text and "loops: priority 0, not 10" in text
    assert "Relu, one element a task." in str(kernels.table())
    kernels.unregister("my_relu")
    f.cache_clear()
    np.testing.assert_array_equal(f(x), np.maximum(x, 0))
    assert "my_relu" not in f.lower(x).compile().as_text("kernels")


@pytest.mark.usefixtures("clean")
def test_why_a_kernel_is_not_used():
    register_relu(accepts=lambda x: x.shape[0] != 7)

    def reason(function, *args):
        f = zenith.jit(function, backend="lanes", dims={"x": (7,)} if len(args[0]) == 7 else None)
        f(*args)
        return " ".join(str(f.explain()).split())

    ones = np.ones(5, np.float32)
    assert "it computes exp where the pattern has maximum" in reason(lambda x: np.exp(np.maximum(x, 0)), ones)
    assert "an input is f64[x0], not f32[n]" in reason(lambda x: np.maximum(x, 0), ones.astype(np.float64))
    assert "its predicate refuses f32[7]" in reason(lambda x: np.maximum(x, 0), np.ones(7, np.float32))
    assert "its literal has other" in reason(lambda x: np.maximum(x, 1), ones)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_rows_names_and_sizes_that_collide(backend):
    """The program's sizes have the names of the kernel's own, swapped."""

    @kernels.register(
        computes=lambda x, y: np.sum(x * y, axis=-1), like=(ShapeDtypeStruct(("n", "m"), "float64"),) * 2, tasks="n"
    )
    def dot_rows(begin, end, a, b, out, m, n):
        for row in range(begin, end):
            total = f64(0)  # noqa: F821
            for j in range(m):
                total = total + a[row * m + j] * b[row * m + j]
            out[row] = total + f64(0 * n)  # noqa: F821

    dot_rows.check()
    f = zenith.jit(lambda x, y: np.sum(x * y, axis=-1), backend=backend, dims={"x": ("m", "n"), "y": ("m", "n")})
    x, y = np.random.default_rng(0).standard_normal((2, 9, 5))
    np.testing.assert_allclose(f(x, y), (x * y).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(f(y, x), (x * y).sum(-1), rtol=1e-12)
    assert "dot_rows" in f.lower(x, y).as_text("plan")


@pytest.mark.usefixtures("clean")
def test_several_results_and_swapped_operands():
    @kernels.register(
        computes=lambda x, y: (x - y, (x - y) * y), like=(ShapeDtypeStruct(("n",), "float64"),) * 2, priority=1
    )
    def both(begin, end, x, y, difference, scaled):
        for i in range(begin, end):
            difference[i] = x[i] - y[i]
            scaled[i] = (x[i] - y[i]) * y[i]

    both.check()
    f = zenith.jit(lambda x, y: (y - x, (y - x) * x), backend="lanes")
    x, y = np.array([1.0, 2.0]), np.array([4.0, 16.0])
    np.testing.assert_array_equal(f(x, y), (y - x, (y - x) * x))
    assert "both" in f.lower(x, y).as_text("plan")


@pytest.mark.usefixtures("clean")
def test_a_wrong_kernel_fails_its_check():
    @kernels.register(computes=lambda x: x + 1, like=VECTOR)
    def wrong(begin, end, x, out):
        for i in range(begin, end):
            out[i] = x[i] + f32(2)  # noqa: F821

    with pytest.raises(AssertionError, match="wrong at sizes"):
        wrong.check()


def not_begin(start, end, x, out):
    pass


def unknown_size(begin, end, x, out, k):
    pass


def has_a_closure(begin, end, x, out):
    for i in range(begin, end):
        out[i] = np.exp(x[i])


def raises(begin, end, x, out):
    raise ValueError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (not_begin, r"parameters of not_begin are start(.|\n)*begin, end, 1 inputs, 1 outputs(.|\n)*n"),
        (unknown_size, "parameters of unknown_size"),
        (has_a_closure, "names that kernels do not know or cannot change: np"),
        (raises, "a statement that kernels do not have: raise ValueError"),
    ],
)
def test_kernels_that_are_refused(function, message):
    with pytest.raises(UnsupportedError, match=message):
        kernels.register(computes=lambda x: x + 1, like=VECTOR)(function)
    assert kernels.table().engines == OWN + LIBRARY_ENGINES


def test_a_kernel_without_source_is_refused():
    scope = {}
    exec("def nowhere(begin, end, x, out):\n    pass", scope)
    for function, message in ((scope["nowhere"], "cannot be read"), (np.exp, "cannot be read")):
        with pytest.raises(UnsupportedError, match=message):
            kernels.register(computes=lambda x: x + 1, like=VECTOR)(function)


def test_patterns_that_are_refused():
    with pytest.raises(UnsupportedError, match="becomes 2 groups"):
        kernels.register(computes=lambda x: np.sum(x[:, None] * x, axis=0) + 1, like=VECTOR)(not_begin)
    with pytest.raises(ZenithError, match="must use every argument"):
        kernels.register(computes=lambda x, y: x + 1, like=VECTOR * 2)(not_begin)


@pytest.mark.usefixtures("clean")
def test_names_are_unique():
    register_relu()
    with pytest.raises(ZenithError, match="there is an engine 'my_relu' already"):
        register_relu()
    with pytest.raises(ZenithError, match="no engine 'loops' was registered"):
        kernels.unregister("loops")


# --- named kernels ---

X = torch.randn(4, 7, generator=torch.Generator().manual_seed(0))
W, B = torch.linspace(0.5, 2, 7), torch.linspace(-1, 1, 7)

NAMED = {
    "relu": (lambda: kernels.relu(X), lambda: F.relu(X)),
    "gelu": (lambda: kernels.gelu(X), lambda: F.gelu(X)),
    "gelu tanh": (lambda: kernels.gelu(X, approximate="tanh"), lambda: F.gelu(X, approximate="tanh")),
    "layernorm": (lambda: kernels.layernorm(X), lambda: F.layer_norm(X, (7,))),
    "layernorm affine": (lambda: kernels.layernorm(X, W, B), lambda: F.layer_norm(X, (7,), W, B)),
    "softmax": (lambda: kernels.softmax(X), lambda: F.softmax(X, -1)),
    "matmul": (lambda: kernels.matmul(X, X.T), lambda: X @ X.T),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_kernels_against_torch(name):
    found, expected = (compute() for compute in NAMED[name])
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, expected)


def test_a_product_of_halves_in_float32():
    x, w = torch.randn(128, 64, generator=torch.Generator().manual_seed(2)).half(), torch.ones(64, 256).half()
    found = kernels.matmul(x, w, preferred_element_type=np.float32)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, x.float() @ w.float())


@pytest.mark.parametrize("form", ["plain", "causal", "bool", "bias"])
def test_attention_against_torch(form):
    q, k, v = torch.randn(3, 2, 4, 6, 8, generator=torch.Generator().manual_seed(1))
    mask = {"bool": torch.ones(6, 6).tril().bool(), "bias": torch.randn(6, 6)}.get(form)
    found = kernels.attention(q, k, v, mask, causal=form == "causal")
    expected = F.scaled_dot_product_attention(q, k, v, mask, is_causal=form == "causal")
    torch.testing.assert_close(found, expected)


def test_named_kernels_take_numpy_and_say_what_they_are():
    result = kernels.softmax(np.zeros((2, 4), np.float32))
    assert type(result) is np.ndarray and (result == 0.25).all()
    assert "softmax" in kernels.softmax.explain().name and kernels.softmax.lower(result).cost_analysis().operations
