"""PyTorch's functions, methods and modules in functions that Zenith traces: each is refused with what compiles it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from zenith.errors import MissingAttributeError, TraceError, ValueTypeError, ZenithError

X = torch.linspace(-1, 1, 12).reshape(3, 4)
LAYER = nn.Linear(4, 4)
INSTEAD = ('torch.compile(f, backend="zenith")', "zenith.from_torch(module)", "functional()")


def transforms(function):
    return [
        lambda: zenith.jit(function)(X),
        lambda: zenith.grad(lambda x: function(x).sum())(X),
        lambda: zenith.vmap(function)(X),
        lambda: zenith.scan(lambda c, x: (function(c + x), None), X[0], X),
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_function_is_named_wherever_it_is_traced(number):
    with pytest.raises(TraceError, match=r"torch.tanh is PyTorch's, and was given a traced array") as caught:
        transforms(lambda x: torch.tanh(x))[number]()
    assert all(word in caught.value.fix for word in INSTEAD)
    assert caught.value.where.file == __file__


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (F.gelu, "torch.nn.functional.gelu"),
        (lambda x: F.softmax(x, dim=-1), "torch.nn.functional.softmax"),
        (lambda x: torch.stack([X, x]), "torch.stack"),
        (lambda x: torch.where(x > 0, X, 0), "torch.where"),
        (lambda x: X.view_as(x), "torch.Tensor.view_as"),
        (torch.ops.aten.tanh, "aten.tanh"),
        (LAYER, "torch.nn.functional.linear"),
        (LAYER.forward, "torch.nn.functional.linear"),
        (nn.Sequential(nn.Dropout(), LAYER), "torch.nn.functional.dropout"),
    ],
)
def test_functions_of_every_kind(function, name):
    with pytest.raises(TraceError) as caught:
        zenith.jit(lambda x: function(x))(X)
    assert caught.value.what == f"{name} is PyTorch's, and was given a traced array"


@pytest.mark.parametrize("name", ["relu", "unsqueeze", "float", "permute", "backward", "dim", "to"])
def test_methods_of_tensors(name):
    with pytest.raises(MissingAttributeError, match=f"Tensor.{name} is PyTorch's") as caught:
        zenith.jit(lambda x: getattr(x, name)())(X)
    assert all(word in caught.value.fix for word in INSTEAD)


def test_other_attributes_are_python_errors():
    with pytest.raises(AttributeError) as caught:
        zenith.jit(lambda x: x.colour)(X)
    assert not isinstance(caught.value, ZenithError)
    assert zenith.jit(lambda x: x * (2 if hasattr(x, "unsqueeze") else 3))(X).equal(X * 3)


@pytest.mark.parametrize("function", [torch.as_tensor, torch.tensor, torch.from_dlpack])
def test_tensors_of_traced_arrays(function):
    with pytest.raises(AttributeError, match="its values exist only when the program runs"):
        zenith.jit(lambda x: function(x))(X)


def test_functions_of_sizes():
    with pytest.raises(ValueTypeError, match=r"torch.arange was given the traced size") as caught:
        zenith.jit(lambda x: x[:, 0] + torch.arange(x.shape[0]))(X)
    assert "zenith.numpy.arange" in caught.value.fix


@pytest.mark.parametrize(
    "make", [lambda: LAYER, lambda: zenith.from_torch(LAYER), lambda: torch.compile(LAYER, backend="eager")]
)
def test_modules_are_refused_at_once(make):
    with pytest.raises(ValueTypeError, match=r"jit takes a function of arrays, and \w+ is a torch.nn.Module") as caught:
        zenith.jit(make())
    assert "zenith.from_torch(module), or torch.compile(module" in caught.value.fix
    assert caught.value.where.file == __file__


def operators(x, table):
    """Tensors with traced arrays to the right, in all of Python's operators."""
    floats = [table + x, table - x, table * x, table / x, table // x, table % x, abs(table) ** x, table @ x.T]
    whole, n = table.astype(np.int32) if isinstance(table, np.ndarray) else table.int(), x.astype(np.int32)
    comparisons = [table < x, table <= x, table > x, table >= x, table == x, table != x]
    return [*floats, *comparisons, whole & n, whole | n, whole ^ n, whole << abs(n), whole >> abs(n)]


def test_operators_of_tensors_and_traced_arrays():
    """They are the traced array's, as those of NumPy's arrays are."""
    x, table = (X + 2.5).numpy(), torch.linspace(1, 7, 12).reshape(3, 4)
    found = zenith.jit(lambda x: operators(x, table))(torch.from_numpy(x))
    for one, other in zip(found, operators(x, table.numpy()), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


def test_writes_into_tensors_are_refused():
    """Python would give the name a new array, and other names of the tensor would not see what was added."""

    def added(x):
        total = same = torch.ones(3, 4)
        total += x
        return same

    with pytest.raises(TraceError, match=r"torch.Tensor.add_ is PyTorch's"):
        zenith.jit(added)(X)
