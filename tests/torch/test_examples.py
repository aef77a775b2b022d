"""What is given as an example is no value of a call: tensors given twice, of one memory, or of the module itself."""

import pytest
import torch
from torch import nn

import zenith
from tests.torch.test_from_torch import compare
from zenith.errors import TraceError


class Weighted(nn.Module):
    """``10 a + b`` from arguments of several kinds, and whatever tensors the module may have itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.full((3,), 0.5))
        self.parameter, self.plain = nn.Parameter(torch.full((3,), 0.25)), torch.full((3,), 0.125)

    def forward(self, a, b=None, *, pair=(), named=None):
        total = a * 10 + self.buffer + self.parameter + self.plain
        for i, t in enumerate([b, *pair, *(named or {}).values()]):
            total = total if t is None else total + t * (i + 1)
        return total


X, Y, Z = torch.ones(3), torch.full((3,), 3.0), torch.full((3,), 5.0)
FORMS = {
    "positional": lambda a, b: ((a, b), {}),
    "keywords": lambda a, b: ((), {"a": a, "b": b}),
    "mixed": lambda a, b: ((a,), {"b": b}),
    "tuple": lambda a, b: ((a,), {"pair": (b, a)}),
    "dict": lambda a, b: ((a,), {"named": {"one": b, "other": b}}),
}
EXAMPLES = {
    "the same": lambda m: (X, X),
    "a view": lambda m: (X, X[:]),
    "an alias": lambda m: (X, X.detach()),
    "buffer": lambda m: (m.buffer, X),
    "view of a buffer": lambda m: (m.buffer[:], X),
    "parameter": lambda m: (m.parameter, m.parameter),
    "attribute": lambda m: (m.plain, m.plain),
}


@pytest.mark.parametrize(
    "form, example", [(f, "the same") for f in FORMS] + [("positional", e) for e in EXAMPLES if e != "the same"]
)
def test_each_tensor_is_an_argument_of_its_own(form, example):
    module = Weighted().eval()
    args, kwargs = FORMS[form](*EXAMPLES[example](module))
    fast = zenith.from_torch(module, args, kwargs, backend="reference")
    args, kwargs = FORMS[form](Y, Z)
    compare(fast, module, *args, **kwargs)
    args, kwargs = FORMS[form](Y, Y)
    compare(fast, module, *args, **kwargs)


def test_gradients_of_arguments_whose_example_was_one_tensor():
    a, b = Y.clone().requires_grad_(), Z.clone().requires_grad_()
    zenith.from_torch(Weighted(), (X, X), backend="reference")(a, b).sum().backward()
    assert a.grad.tolist() == [10] * 3 and b.grad.tolist() == [1] * 3
    zenith.from_torch(Weighted(), (X, Y), backend="reference")(a, a).sum().backward()
    assert a.grad.tolist() == [21] * 3


def test_sizes_of_arguments_whose_example_was_one_tensor():
    """Cross attention to another length, from an example of self attention."""
    attention, s = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 5, 8)
    fast, q, k = (
        zenith.from_torch(attention, (s, s, s), backend="reference"),
        torch.randn(2, 5, 8),
        torch.randn(2, 7, 8),
    )
    compare(fast, attention, q, k, k)
    compare(fast, attention, s, s, s)


@pytest.mark.parametrize("collection", [False, True])
def test_dynamic_shapes_of_one_tensor_given_twice(collection):
    class Outer(nn.Module):
        def forward(self, a, b):
            return a[:, None] + b

    rows, example = torch.export.Dim("rows"), torch.zeros(4)
    shapes = {"a": {0: rows}, "b": {0: torch.export.Dim("columns")}}
    if collection:  # it finds tensors by their identity
        shapes = torch.export.ShapesCollection()
        shapes[example] = {0: rows}
    fast = zenith.from_torch(Outer(), (example, example), dynamic_shapes=shapes, backend="reference")
    compare(fast, Outer(), torch.randn(5), torch.randn(5 if collection else 6))
    assert fast.cache_info().misses == 1


def test_a_buffer_as_example_of_a_module_that_writes_to_it():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.mean.mul_(0.5).add_(x, alpha=0.5)
            return x - self.mean

    fast_module, module = Mean(), Mean()
    fast = zenith.from_torch(fast_module, (fast_module.mean,), backend="reference")
    for x in (X, Y):
        compare(fast, module, x)
        torch.testing.assert_close(fast_module.mean, module.mean)


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [
        (X, None, "args is a Tensor and kwargs a NoneType"),
        ({"a": X}, None, "args is a dict"),
        ((t for t in (X,)), None, "args is a generator"),
        ("ab", None, "args is a str"),
        ((X,), X, "kwargs a Tensor"),
        ((X,), [("b", X)], "kwargs a list"),
    ],
)
def test_what_is_no_tuple_of_arguments_is_refused(args, kwargs, found):
    """Rows of a tensor, or keys of a dictionary, would be taken for arguments."""
    with pytest.raises(TraceError, match=rf"{found}(.|\n)*test_examples.py(.|\n)*\(module, \(x,\)\)"):
        zenith.from_torch(Weighted(), args, kwargs)
