"""Recurrent layers against PyTorch's, with its own weights: values, gradients, layers, directions; compiled."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

import zenith
from tests.nn.compare_torch import agree
from zenith import nn
from zenith.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
KINDS = {
    "rnn": (nn.rnn, torch.nn.RNN, {}),
    "rnn of relu": (lambda *a, **o: nn.rnn(*a, nonlinearity="relu", **o), torch.nn.RNN, {"nonlinearity": "relu"}),
    "lstm": (nn.lstm, torch.nn.LSTM, {}),
    "lstm, projected": (nn.lstm, torch.nn.LSTM, {"proj_size": 2}),
    "gru": (nn.gru, torch.nn.GRU, {}),
}
FORMS = {
    "both directions, batch first": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "two layers": {"num_layers": 2},
    "no biases": {"bias": False},
}
THOROUGH, OTHERS = pytest.mark.thorough, ("two layers", "no biases")


def flat(result):
    """Output and last states as one tuple."""
    return (result[0], *(result[1] if isinstance(result[1], tuple) else (result[1],)))


def pair(kind, **options):
    """Our function and PyTorch's of a sequence, states and weights; arrays of the states and weights."""
    function, layer, more = KINDS[kind]
    torch.manual_seed(0)
    module = layer(3, 4, **options, **more).double()
    names, weights = zip(*module.named_parameters(), strict=True)
    directions = 2 if options.get("bidirectional") else 1
    groups = options.get("num_layers", 1) * directions
    size = len(weights) // groups
    given = {k: options[k] for k in ("bidirectional", "batch_first") if k in options}
    widths = [more.get("proj_size", 4), 4] if layer is torch.nn.LSTM else [4]
    states = [RNG.standard_normal((groups, 2, width)) for width in widths]

    def ours(x, *rest):
        state, own = rest[: len(states)], rest[len(states) :]
        state = state if len(state) > 1 else state[0]
        return flat(function(x, [own[i : i + size] for i in range(0, len(own), size)], state, **given))

    def theirs(x, *rest):
        state, own = rest[: len(states)], rest[len(states) :]
        state = tuple(state) if len(state) > 1 else state[0]
        return flat(functional_call(module, dict(zip(names, own, strict=True)), (x, state)))

    return ours, theirs, [*states, *(w.detach().numpy() for w in weights)]


@pytest.mark.parametrize("form", ["both directions, batch first", *(pytest.param(f, marks=THOROUGH) for f in OTHERS)])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients(kind, form):
    ours, theirs, rest = pair(kind, **FORMS[form])
    agree(ours, theirs, RNG.standard_normal((2, 5, 3) if "batch first" in form else (5, 2, 3)), *rest)


def test_without_states_and_batch():
    module = torch.nn.LSTM(3, 4).double()
    weights = [tuple(p.detach().numpy() for p in module.parameters())]
    for shape in ((5, 2, 3), (5, 3)):
        x = RNG.standard_normal(shape)
        expected, found = flat(module(torch.tensor(x))), flat(nn.lstm(x, weights))
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f, e.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("kind", ["lstm", pytest.param("gru", marks=THOROUGH)])
def test_compiled_with_gradients(kind):
    """One program for all lengths and batches, in float32."""
    ours, _, rest = pair(kind)

    def loss(x, *rest):
        return sum(np.sum(np.sin(r)) for r in ours(x, *rest))

    step = zenith.value_and_grad(loss, argnums=tuple(range(len(rest) + 1)))
    compiled, narrow = zenith.jit(step), [r.astype(np.float32) for r in rest]
    for length in (5, 1, 9):
        x = RNG.standard_normal((length, 2, 3))
        exact, found = step(x, *rest), compiled(x.astype(np.float32), *narrow)
        np.testing.assert_allclose(found[0], exact[0], rtol=1e-5)
        for f, e in zip(found[1], exact[1], strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-5)
    assert compiled.cache_info().misses == 1


def test_refusals():
    x, w = np.ones((2, 1, 1)), (np.eye(1), np.eye(1))
    with pytest.raises(ArgumentError, match="no nonlinearity 'sin'"):
        nn.rnn(x, [w], nonlinearity="sin")
    with pytest.raises(ArgumentError, match="a tuple of weights for each layer and direction"):
        nn.rnn(x, [w], bidirectional=True)
    with pytest.raises(ShapeError, match=r"gru needs sequences"):
        nn.gru(np.ones(3), [w])
