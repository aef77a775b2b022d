"""What ``torch.compile`` meets besides operators: Zenith's own functions, sizes that depend on values, Python.

``explain()`` reports whatever is not in a graph, with the user's line.
"""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import zenith
import zenith.numpy as znp
from zenith.errors import FallbackWarning, TraceError

OPTIONS = {"backend": "reference", "fallback": "error"}
PATIENCE = 180.0  # seconds until a test that hangs fails
X = torch.linspace(-1, 2, 12).reshape(4, 3)


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def compiled(function, **options):
    return torch.compile(function, backend="zenith", options=OPTIONS | options)


def test_a_compiled_module_inside_a_compiled_model():
    """With its own weights, to which gradients lead."""
    inner = nn.Linear(3, 2)
    twin = copy.deepcopy(inner)
    fast = zenith.from_torch(inner, (X,), backend="reference")
    found, wanted = compiled(lambda x: fast(x).sin())(X), twin(X).sin()
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    wanted.sum().backward()
    torch.testing.assert_close(inner.weight.grad, twin.weight.grad)
    assert len(zenith.torch.graphs()) == 2 and not zenith.torch.explain().breaks


def test_a_jitted_function_is_called_between_graphs():
    """TorchDynamo does not trace Zenith's own Python."""
    double = zenith.jit(lambda x: znp.sin(x) * 2)
    fast = compiled(lambda x: double(x + 1) + 1)
    for _ in range(2):
        torch.testing.assert_close(fast(X), torch.sin(X + 1) * 2 + 1)
    report = zenith.torch.explain()
    assert [calls for _, calls, *_ in report.graphs] == [2, 2] and double.cache_info().misses == 1
    ((why, where),) = report.breaks
    assert "Zenith" in why and where.startswith(__file__)


@pytest.mark.parametrize("kind", ["jit", "from_torch"])
def test_compiled_functions_inside_an_export_are_refused(kind):
    class Outer(nn.Module):
        def forward(self, x):
            return inner(x) + 1

    inner = zenith.jit(lambda x: x + 1) if kind == "jit" else zenith.from_torch(nn.Linear(3, 2), (X,))
    with pytest.raises(zenith.ZenithError, match=r"exports or compiles a model|take its weights for constants"):
        zenith.from_torch(Outer(), (X,))


def test_an_export_by_another_thread_is_not_in_the_way():
    """PyTorch's word that a model is being compiled or exported holds for all threads."""
    inside, leave = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self, x):
            inside.set()
            assert leave.wait(PATIENCE)
            return x + 1

    x = torch.zeros(4, 3)
    fast = zenith.from_torch(nn.Linear(3, 2), (x,), backend="reference")
    with ThreadPoolExecutor(1) as others:
        exported = others.submit(zenith.from_torch, Slow(), (x,), backend="reference")
        try:
            assert inside.wait(PATIENCE)
            with torch.no_grad():
                torch.testing.assert_close(fast(x), fast.module(x))
            torch.testing.assert_close(zenith.jit(lambda x: x + 2, backend="reference")(x), x + 2)
        finally:
            leave.set()
        torch.testing.assert_close(exported.result(PATIENCE)(x), x + 1)


def test_a_compiled_module_is_a_function_in_a_trace():
    fast = zenith.from_torch(nn.Linear(3, 2), (X,), backend="reference")
    with torch.no_grad(), pytest.raises(TraceError, match=r"is traced(.|\n)*functional"):
        zenith.jit(lambda x: fast(x) + 1)(X)
    fn, params = fast.functional()
    torch.testing.assert_close(zenith.jit(fn, backend="reference")(params, X), fast.module(X).detach())


def masked(x):
    return x[x > 0] * 2


def counted(x):
    return torch.zeros(x.abs().sum().long().item()) + 1


def picked(x):
    return x[x.argmax().item() % 3] * 2


@pytest.mark.parametrize("function", [masked, counted, picked])
def test_sizes_that_depend_on_values(function):
    """TorchDynamo ends a graph there, or hands over one that PyTorch computes; both are reported with the line."""
    torch.testing.assert_close(compiled(function)(X), function(X))
    ((_, where),) = zenith.torch.explain().breaks
    assert where.startswith(__file__) and function.__name__ in where
    torch.compiler.reset()
    captured = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
    with torch._dynamo.config.patch(captured):
        with pytest.raises(Exception, match=f"depend.* values\n.*test_dynamo_calls.py:.* in {function.__name__}"):
            compiled(function)(X)
        torch.compiler.reset()
        with pytest.warns(FallbackWarning, match="all of its graph computed by PyTorch, at test_dynamo_calls.py"):
            fast = compiled(function, fallback="pytorch")
            torch.testing.assert_close(fast(X), function(X))
        torch.testing.assert_close(fast(X + 1), function(X + 1))
    ((_, times, _, why, where),) = zenith.torch.explain().steps
    assert times == 1 and "all of the graph" in why and function.__name__ in where


def test_sizes_that_depend_on_values_train():
    x, twin = X.clone().requires_grad_(), X.clone().requires_grad_()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), pytest.warns(FallbackWarning):
        compiled(masked, fallback="pytorch")(x).square().sum().backward()
    masked(twin).square().sum().backward()
    torch.testing.assert_close(x.grad, twin.grad)


def test_functions_left_to_python_are_listed():
    @torch.compiler.disable
    def outside(x):
        return x * 2

    def loop(x):
        for _ in range(2):
            x = outside(x) + 1
        return x

    fast = compiled(loop)
    torch.testing.assert_close(fast(X), loop(X))
    report = zenith.torch.explain()
    ((name, why, where),) = report.left
    assert name == "loop" and "disable" in why and "Hint" not in why and where.startswith(__file__)
    assert "left to Python" in str(report) and not report.graphs
    torch.compiler.reset()
    assert not zenith.torch.explain().left


def test_functions_compiled_too_often_are_left_to_python():
    def scaled(x, text):
        return x * len(text)

    with torch._dynamo.config.patch(recompile_limit=2):
        fast = compiled(scaled)
        for length in range(1, 5):
            torch.testing.assert_close(fast(X, "a" * length), X * length)
    ((name, why, where),) = zenith.torch.explain().left
    assert name == "scaled" and "recompile limit" in why and where.startswith(__file__)
    assert len(zenith.torch.explain().recompilations) == 1
