"""One of PyTorch's own samples of an operator, with and without ``torch.compile(backend="zenith")``.

The outcome says whether Zenith was reached, which operators PyTorch computed as steps, and whether results and
gradients are eager's.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

from zenith.errors import ZenithError
from zenith.torch.dynamo import boxed
from zenith.torch.dynamo.eager_graphs import EagerGraph

# Relative and absolute error, where torch.testing's own are for one operation and not for its gradients, too.
TOLERANCES = {
    torch.float32: (1e-4, 2e-5), torch.complex64: (1e-4, 2e-5), torch.bfloat16: (1.6e-2, 1e-2),
    torch.float16: (1e-3, 1e-3), torch.float64: (1e-7, 1e-7), torch.complex128: (1e-7, 1e-7),
}  # fmt: skip


_WIDE = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64,
         torch.complex64: torch.complex128}  # fmt: skip
# Eager's own error, as a share of the largest element, beyond which it is no measure: a draw, or a sum that cancels.
_SANE = {torch.float32: 1e-3, torch.complex64: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass
class Outcome:
    """``graphs`` that Zenith compiled, the ``steps`` of PyTorch inside, what was ``raised`` and what was ``wrong``."""

    graphs: int = 0
    steps: list[str] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)
    backward: bool = False
    targets: set[Any] = field(default_factory=set)  # the operators of all graphs
    raised: str = ""
    wrong: str = ""

    @property
    def verdict(self):
        """``unreached``, ``raised``, ``wrong``, ``steps`` (right with PyTorch's help) or ``passed``."""
        if self.raised or self.wrong:
            return "raised" if self.raised else "wrong"
        return "unreached" if not self.graphs else "steps" if self.steps else "passed"


def by_verdict(found):
    """Of the verdicts on all samples of each name: the names with steps, those that fail, and those never reached."""
    with_steps = {name for name, seen in found.items() if "steps" in seen}
    failing = {name for name, seen in found.items() if seen & {"raised", "wrong"}}
    return with_steps, failing, {name for name, seen in found.items() if seen == {"unreached"}}


def samples(op, dtype, most, gradients):
    """Some samples, spread over all that there are."""
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=gradients and op.supports_autograd))
    return found[:: max(1, len(found) // most)][:most]


# PyTorch does not specify the elements of new memory, nor which of several equal elements an index names.
OPEN_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
OPEN_INDICES = {"topk", "kthvalue", "sort", "argsort", "msort", "mode", "median", "nanmedian"}


def outcome(op, sample, dtype, kind="reference", dynamic=False):
    """Compile one call of an operator and compare; None where eager PyTorch does not compute it itself."""

    def call(*args, **kwargs):
        return op.op(*args, **kwargs)

    def given():
        return _results(torch.compile(call, backend="zenith", dynamic=dynamic, options={"backend": kind}), sample)

    with mock.patch.object(common_methods_invocations, "wrapper_set_seed", _unseeded):
        return compared(
            lambda: _results(call, sample), given, lambda: _results(op.op, sample, wide=True), op.name, dtype
        )


def compared(expected, given, exact, name, dtype):
    """The Outcome of ``given`` against ``expected``; each is called for Results, ``exact`` only where it is needed."""
    found = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = expected()
        except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError):
            return None
        torch._dynamo.reset()
        found.backward = wanted.gradients is not None
        made: list[Any] = []
        with mock.patch.object(boxed, "remember", lambda graph: made.append(graph) or graph):
            try:
                got = given()
            except Exception as error:
                found.raised = _cause(error)
                return found
        compiled = [graph for graph in made if not isinstance(graph, EagerGraph)]
        found.targets = {node.target for graph in compiled for node in graph._graph.nodes}
        found.graphs = sum(graph.operators > 0 for graph in made)
        found.steps = [step.name for graph in made for step in graph.steps if not step.draws]
        found.draws = [step.name for graph in made for step in graph.steps if step.draws]
        try:
            _compare(got, wanted, cache(exact), name, dtype)
        except AssertionError as error:
            found.wrong = str(error)
    return found


def _unseeded(function, *args, **kwargs):
    """Draws of samples without the seed that is set around them: no graph can set it."""
    return function(*args, **kwargs)


def _cause(error):
    cause = getattr(error, "inner_exception", error)
    own = isinstance(cause, ZenithError)
    return f"{'' if own else type(cause).__name__ + ': '}{cause}"


@dataclass
class Results:
    """A call's results, gradients (None where nothing is differentiable), the generator's state."""

    shown: list[Any]
    gradients: Sequence[Any] | None
    state: torch.Tensor


def _results(function, sample, wide=False):
    """Call, and take gradients for a cotangent that depends on the results' shapes alone; ``wide``: in float64."""
    args, kwargs = tracked(((sample.input, *sample.args), dict(sample.kwargs)), wide)
    asked = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    torch.manual_seed(1)
    results = function(*args, **kwargs)
    state = torch.get_rng_state()
    shown = pytree.tree_leaves(sample.output_process_fn_grad(results))
    smooth = [t for t in shown if isinstance(t, torch.Tensor) and t.requires_grad]
    if not smooth:
        return Results(shown, None, state)
    rounded = sample.input.dtype if wide and isinstance(sample.input, torch.Tensor) else None
    return Results(shown, torch.autograd.grad(smooth, asked, cotangents(smooth, rounded), allow_unused=True), state)


def tracked(arguments, wide):
    """Arguments of their own, whose gradients can be asked for; ``wide``: in float64."""

    def own(value):
        if not isinstance(value, torch.Tensor):
            return value
        copied = value.detach().clone()
        return (copied.to(_WIDE.get(value.dtype, value.dtype)) if wide else copied).requires_grad_(value.requires_grad)

    return pytree.tree_map(own, arguments)


def cotangents(smooth, rounded):
    """A cotangent for each result that depends on its shape alone; ``rounded`` to an element type and back."""
    torch.manual_seed(2)
    return [_drawn(t, rounded if not t.dtype.is_complex else None) for t in smooth]


def _drawn(like, rounded):
    """A random tensor, the same numbers in each precision."""
    found = torch.randn(like.shape, dtype=torch.complex64 if like.dtype.is_complex else torch.float32)
    return (found if rounded is None else found.to(rounded)).to(like.dtype)


def _compare(given, expected, exact, op_name, dtype):
    open_values = op_name in OPEN_VALUES
    assert len(given.shown) == len(expected.shown), f"{len(given.shown)} results, not {len(expected.shown)}"
    assert (given.gradients is None) == (expected.gradients is None), "gradients on one side only"
    for what in ("shown", "gradients"):
        pairs = zip(getattr(given, what) or (), getattr(expected, what) or (), strict=True)
        for number, (g, e) in enumerate(pairs):
            name = f"{what} {number}"
            has_indices = op_name in OPEN_INDICES and number + (what == "gradients") + (op_name == "argsort")
            if not isinstance(e, torch.Tensor):
                assert type(g) is type(e) and (g == e or g != g or open_values), f"{name}: {g!r}, not {e!r}"
                continue
            assert isinstance(g, torch.Tensor), f"{name} is {g!r}"
            assert (g.shape, g.dtype, g.layout) == (e.shape, e.dtype, e.layout), (
                f"{name}: {g.shape} {g.dtype}, not {e.shape} {e.dtype}"
            )
            ties = has_indices and dtype not in (torch.float32, torch.float64)
            if not open_values and not ties:
                _close(name, g, e, partial(lambda what, number: getattr(exact(), what)[number], what, number))
    assert torch.equal(given.state, expected.state), "the generator's state"


def _close(name, g, e, exact):
    """Whether a tensor is eager's, within the tolerance or at most four times as far as eager from float64's."""
    relative, absolute = TOLERANCES.get(e.dtype, (0, 0))
    g, e = g.detach().to_dense(), e.detach().to_dense()
    if e.dtype in _WIDE and g.isfinite().all() and not torch.allclose(g, e, relative, absolute):
        wide = exact().detach().to_dense()
        error, size = (e.to(wide.dtype) - wide).abs().max().item(), wide.abs().max().item()
        if (g.to(wide.dtype) - wide).abs().max().item() <= error:
            return
        if error < _SANE[e.dtype] * size:
            relative, absolute, g, e = 0, 4 * error, g.to(wide.dtype), wide
    torch.testing.assert_close(g, e, rtol=relative, atol=absolute, equal_nan=True, check_stride=False,
                               msg=lambda text: f"{name}: {text}")  # fmt: skip
