"""What is done with the gradient of a loss: nothing, stochastic gradient descent with momentum, Adam or AdamW.

The rules are written over ``numpy`` or a module like it, with PyTorch's defaults: JAX has no optimisers of its own, and
the float64 reference must not be anybody's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Arrays = tuple[Any, ...]
State = tuple[Any, ...]

B1, B2, EPS, DECAY = 0.9, 0.999, 1e-8, 1e-2


@dataclass(frozen=True)
class Descent:
    """A call computes the program's result, a loss, with its gradient, and makes a step of descent.

    Parameters
    ----------
    rule: by which the weights change; None leaves them, for programs that are timed with their gradient alone.
    rate: the learning rate.
    momentum: of the rule "sgd": how much of the last direction stays.
    """

    rule: Literal["sgd", "adam", "adamw"] | None = None
    rate: float = 0.0
    momentum: float = 0.0

    def start(self, weights: Arrays, np: Any) -> State:
        """The state before the first step."""

        def zeros() -> Arrays:
            return tuple(map(np.zeros_like, weights))

        return zeros() if self.rule == "sgd" else (np.zeros((), int), zeros(), zeros())

    def advance(self, weights: Arrays, gradient: Arrays, state: State, np: Any) -> tuple[Arrays, State]:
        """The next weights and state."""
        if self.rule == "sgd":
            return self._sgd(weights, gradient, state)
        return self._adam(weights, gradient, state, np, DECAY if self.rule == "adamw" else 0.0)

    def _sgd(self, weights: Arrays, gradient: Arrays, state: State) -> tuple[Arrays, State]:
        state = tuple(self.momentum * v + g for v, g in zip(state, gradient, strict=True))
        return tuple(w - self.rate * v for w, v in zip(weights, state, strict=True)), state

    def _adam(self, weights: Arrays, gradient: Arrays, state: State, np: Any, decay: float) -> tuple[Arrays, State]:
        """D. Kingma and J. Ba, Adam, 2015; I. Loshchilov and F. Hutter, Decoupled weight decay regularization, 2019."""
        count, means, squares = state
        count = count + 1
        means = tuple(B1 * m + (1 - B1) * g for m, g in zip(means, gradient, strict=True))
        squares = tuple(B2 * v + (1 - B2) * g * g for v, g in zip(squares, gradient, strict=True))
        step, root = self.rate / (1 - B1**count), np.sqrt(1 - B2**count)

        def move(w: Any, m: Any, v: Any) -> Any:
            return w * (1 - self.rate * decay) - step * m / (np.sqrt(v) / root + EPS)

        return tuple(move(*row) for row in zip(weights, means, squares, strict=True)), (count, means, squares)
