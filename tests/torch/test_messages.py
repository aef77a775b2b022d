"""Errors of ``from_torch`` for modules that it cannot compile: the operator to blame, and the user's line."""

import logging
import traceback

import pytest
import torch
from torch import nn

import zenith
from zenith.errors import UnsupportedError, ZenithError


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def masked(x):
    return x[x > 0].sum()


def counted(x):
    return torch.zeros(int(x.sum())) + 1


def branching(x):
    return x if x.sum() > 0 else -x


def without_a_meaning(x):
    return torch.special.airy_ai(x)


@pytest.mark.parametrize(
    "function, shape, why, fix",
    [
        (masked, (4,), "Of: aten.index.Tensor: the shape of its result depends on values", "torch.where(mask, x, 0)"),
        (counted, (4,), "it branches on a tensor's values, or makes a size of them", "torch.compile(module"),
        (branching, (4, 3), "torch.export cannot export Of for shapes (4, 3): it branches on", "torch.where"),
        (without_a_meaning, (9, 3, 6), "aten.special_airy_ai", "torch.compile(module"),
    ],
)
def test_what_is_to_blame(function, shape, why, fix, capfd):
    with pytest.raises(ZenithError) as caught:
        zenith.from_torch(Of(function), (torch.rand(shape),))
    assert why in caught.value.what and fix in caught.value.fix
    assert caught.value.where.file == __file__
    assert "def forward" not in capfd.readouterr().err  # the graph of the attempt


def failing(x):
    def inner(x):
        return {"a": x}["b"]

    return inner(x)


def refused(function, *args):
    """The error of a module, and the text of its traceback."""
    with pytest.raises(ZenithError) as caught:
        zenith.from_torch(Of(function), args)
    return caught.value, "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "function", [branching, masked, lambda x: object(), lambda x: x.to_sparse(), lambda x: x @ x, without_a_meaning]
)
def test_pytorchs_report_is_held_back(function, capfd):
    """Of its functions there is no line, and nothing of its advice for users of torch.export."""
    error, text = refused(function, torch.rand(4, 3))
    assert "-packages/torch/" not in text and "another exception" not in text
    assert "export()" not in text and "github.com" not in text
    assert error.where.file == __file__ and error.fix
    assert capfd.readouterr() == ("", "")


def test_pytorchs_report_is_in_the_log(caplog):
    with caplog.at_level(logging.DEBUG, "zenith"):
        error, _ = refused(branching, torch.rand(4, 3))
    assert "GuardOnDataDependentSymNode" in caplog.text and "-packages/torch/" in caplog.text
    assert type(error.__context__).__name__ == "GuardOnDataDependentSymNode"


def test_errors_of_the_module_itself_keep_its_lines():
    """Of all steps that led there these are the module's."""
    error, text = refused(failing, torch.rand(4, 3))
    assert error.what.endswith("KeyError: 'b'") and error.where.function == "inner"
    steps = [step.name for step in traceback.extract_tb(error.__cause__.__traceback__)]
    assert steps == ["forward", "failing", "inner"]
    assert "-packages/torch/" not in text


def test_results_of_unknown_classes():
    error, _ = refused(lambda x: object(), torch.rand(4, 3))
    assert "Found <class 'object'> in output" in error.what and "torch.export.register_dataclass" in error.fix


def test_a_slice_that_starts_at_a_negative_index():
    """Its length is known, though an export that leaves sizes open makes an unknown one of it."""
    fast = zenith.from_torch(Of(lambda x: x[:, -(x.shape[1] // 2) :] * 2), (torch.randn(3, 8),))
    with torch.no_grad():
        for n in (8, 12, 7):
            x = torch.randn(3, n)
            torch.testing.assert_close(fast(x), x[:, -(n // 2) :] * 2)
    assert fast.cache_info().misses == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_tangents_are_refused():
    """Of arguments and of weights: PyTorch's forward-mode differentiation would lose them without a word."""
    layer = nn.Linear(4, 2).requires_grad_(False)
    x = torch.randn(3, 4)
    functions = zenith.from_torch(layer, (x,)), zenith.jit(lambda x: x * 2)
    forward_ad = torch.autograd.forward_ad
    for function in functions:
        function(x)
        with forward_ad.dual_level():
            function(x)
            with pytest.raises(UnsupportedError, match=r"(x|input) has a tangent") as caught:
                function(forward_ad.make_dual(x, torch.ones_like(x)))
            assert "zenith.jvp" in caught.value.fix


def test_tensors_without_memory_are_refused():
    double = zenith.jit(lambda x: x * 2)
    x = torch.ones(5)
    assert torch.equal(double(x), 2 * x)
    x.untyped_storage().resize_(0)
    with pytest.raises(UnsupportedError, match="with elements and without memory"):
        double(x)
    assert double(torch.ones(0)).shape == (0,)


def test_a_generator_of_the_modules_own_is_refused_by_name():
    generator = torch.Generator().manual_seed(0)

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return torch.bernoulli(x.sigmoid(), generator=generator)

    with pytest.raises(ZenithError, match="Generator"):
        zenith.from_torch(Noisy(), (torch.ones(3),))(torch.ones(3))
