"""PyTorch's core operators: each has a rule or a reason, or draws; whoever uses one that is refused reads why."""

import inspect

import numpy as np
import pytest
import torch

import zenith
from tests.torch.function import Function
from zenith.errors import UnsupportedError
from zenith.torch import aten
from zenith.torch.steps import draws

LEFT_OUT = 15  # at most so many core operators are refused


def name(operator):
    return str(operator).removeprefix("aten.").removesuffix(".default")


def test_every_core_operator_has_a_rule_or_a_reason():
    operators = aten.core_operators()
    assert len(operators) >= 190  # 193 in PyTorch 2.13
    refused = {name(o) for o in operators if aten.reason_of(o) is not None}
    unknown = {name(o) for o in operators if aten.find(o) is None and not draws(o)} - refused
    assert not unknown
    assert len(refused) <= LEFT_OUT, refused


def test_no_operator_has_both():
    both = [o for o in map(str, aten.REFUSED) if o in aten.RULES]
    assert both == []


def test_refused_operators_exist():
    """A misspelt name would refuse nothing."""
    for key in aten.REFUSED:
        packet, _, overload = key.partition(".")
        assert hasattr(torch.ops.aten, packet), key
        assert not overload or overload in getattr(torch.ops.aten, packet).overloads(), key


def test_rules_take_what_operators_take():
    """Graphs leave out arguments that have their default values: a rule's own are those of the operator's schema."""
    found = []
    for packet, overload in _overloads():
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        rule = aten.find(operator)
        if rule is None:
            continue
        named = inspect.signature(rule).parameters
        positional = [p for p in list(named.values())[1:] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        takes_all = any(p.kind is p.VAR_POSITIONAL for p in named.values())
        given = [a for a in operator._schema.arguments if not a.kwarg_only]
        if len(given) > len(positional) and not takes_all:
            found.append(f"{operator}: takes {len(given)} arguments")
        pairs = [*zip(given, positional, strict=False)]
        pairs += [(a, named[a.name]) for a in operator._schema.arguments if a.kwarg_only and a.name in named]
        for argument, parameter in pairs:
            if argument.has_default_value() and _plain(argument.default_value) != _plain(parameter.default):
                found.append(f"{operator}: {argument.name} is {argument.default_value}, not {parameter.default}")
    assert found == []


def _overloads():
    full = [name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    return [(packet, overload or "default") for packet, _, overload in (name.partition(".") for name in sorted(full))]


def _plain(default):
    """A list of equal numbers is that number, one without elements is nothing."""
    if isinstance(default, (list, tuple)):
        return (default[0] if len(set(default)) == 1 else tuple(default)) if default else None
    return default


X = torch.tensor([[0.5, -1.5, 2.0], [3.0, -0.25, 1.0], [1.0, 2.0, 4.0]])
USES = {
    "shapes": (lambda x: x.nonzero(), "shape of its result depends on values(.|\n)*torch.where"),
    "masks": (lambda x: x[x > 0] * 2, "shape of its result depends on values(.|\n)*torch.where"),
    "numbers": (lambda x: x * x.sum().item(), "makes a Python number"),
    "factors": (lambda x: torch.linalg.lu(x)[1], "factors of LU"),
    "eigenvalues": (lambda x: torch.linalg.eigvals(x), "eigenvalues(.|\n)*eigh"),
    "codes": (lambda x: torch.linalg.inv_ex(x).info + 1, "which matrix has no result(.|\n)*isfinite"),
    "codes as results": (lambda x: torch.linalg.cholesky_ex(x), "which matrix has no result(.|\n)*isfinite"),
    "strides of views": (lambda x: x.t().as_strided((2,), (1,)), "memory of a view(.|\n)*contiguous"),
}


@pytest.mark.parametrize("use", USES)
def test_reasons_are_stated(use):
    function, message = USES[use]
    with torch.no_grad(), pytest.raises(UnsupportedError, match=message):
        zenith.from_torch(Function(function), (X,), backend="reference")(X)


def test_a_mixture_names_each_with_its_count_and_its_reason():
    def mixture(x):
        return torch.linalg.eigvals(x) + torch.linalg.eigvals(x + 1), x.nonzero()

    with pytest.raises(UnsupportedError) as caught:
        zenith.from_torch(Function(mixture), (X,), backend="reference")
    text = str(caught.value)
    assert "aten.linalg_eig.default (2 times: LAPACK" in text and "aten.nonzero.default (1 times: the shape" in text


def test_results_into_a_given_tensor():
    """The core operator atan2.out comes as atan2."""

    def into(x):
        return torch.atan2(x, x + 1, out=torch.empty_like(x))

    fast = zenith.from_torch(Function(into), (X,), backend="reference")
    with torch.no_grad():
        torch.testing.assert_close(fast(X), into(X))


def test_the_number_of_elements():
    counted = aten.find(torch.ops.aten.sym_numel.default)
    assert zenith.jit(lambda x: x * counted(None, x))(np.ones((2, 3), np.float32)).sum() == 36


def test_indices_are_checked():
    index = torch.tensor([[0, 2, 1]])
    fast = zenith.from_torch(Function(lambda x, i: x.scatter(0, i, x)), (X, index), backend="reference")
    with torch.no_grad():
        torch.testing.assert_close(fast(X, index), X.scatter(0, index, X))
        for outside in (3, -1):
            with pytest.raises(zenith.errors.OutOfBoundsError):
                fast(X, index * 0 + outside)
