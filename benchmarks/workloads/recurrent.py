"""A recurrent network of one layer, one example at a time: what a step of a loop costs, forward and with its gradient.

Of two lengths, since compiling should take as long for either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs, weights

WIDTH = 128
LENGTHS = (1000, 100)


def scan_of(np: Any) -> Callable[..., Any]:
    """The ``scan`` that goes with an array module; NumPy's is a Python loop."""
    if np.__name__ == "jax.numpy":
        import jax

        return jax.lax.scan
    if np.__name__ == "zenith.numpy":
        import zenith

        return zenith.scan

    def scan(f: Callable[..., Any], carry: Any, xs: Array) -> tuple[Any, Array]:
        results = []
        for x in xs:
            carry, result = f(carry, x)
            results.append(result)
        return carry, np.stack(results)

    return scan


def _numpy_states(arrays: Arrays, np: Any) -> Program:
    wx, wh, b = arrays

    def states(xs: Array) -> Array:
        """The state (length, 1, width) after each step."""

        def step(h: Array, x: Array) -> tuple[Array, Array]:
            h = np.tanh(x @ wx + h @ wh + b)
            return h, h

        result: Array = scan_of(np)(step, np.zeros((1, WIDTH), xs.dtype), xs)[1]
        return result

    return states


def _numpy_loss(arrays: Arrays, np: Any) -> Program:
    def loss(xs: Array) -> Array:
        result: Array = np.mean(_numpy_states(arrays, np)(xs) ** 2)
        return result

    return loss


def _torch_states(arrays: Arrays) -> Any:
    import torch

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterList(map(torch.from_numpy, arrays))

        def forward(self, xs: torch.Tensor) -> torch.Tensor:
            wx, wh, b = self.weights
            start, weights = xs.new_zeros(1, 1, WIDTH), [wx.t(), wh.t(), b, torch.zeros_like(b)]
            return torch.rnn_tanh(xs, start, weights, True, 1, 0.0, self.training, False, False)[0]

    return States()


def _torch_loss(arrays: Arrays) -> Any:
    import torch

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.states = _torch_states(arrays)

        def forward(self, xs: torch.Tensor) -> torch.Tensor:
            return self.states(xs).square().mean()

    return Loss()


def _workload(length: int, gradient: bool) -> Workload:
    kind, what = ("gradient", "the gradient of the mean square of") if gradient else ("forward", "")
    return Workload(
        name=f"rnn_{kind}" if length == max(LENGTHS) else f"rnn_{kind}_{length}",
        description=f"{what} {length} states of a recurrent network, {WIDTH} wide, batch 1".strip(),
        batches=inputs(((length, 1, WIDTH),)),
        first=first_inputs(((length, 1, WIDTH),)),
        weights=weights(((WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,))),
        numpy=_numpy_loss if gradient else _numpy_states,
        torch=_torch_loss if gradient else _torch_states,
        descent=Descent() if gradient else None,
        loops=True,
    )


RNN_FORWARD, RNN_FORWARD_SHORT = (_workload(length, gradient=False) for length in LENGTHS)
RNN_GRADIENT, RNN_GRADIENT_SHORT = (_workload(length, gradient=True) for length in LENGTHS)
