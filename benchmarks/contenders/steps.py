"""How contenders compute gradients and train: each call is a step, from the weights where the last one left them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.workloads import Array, Workload


class Step(ABC):
    """A step of a workload with a ``descent``, which is called with a batch and returns the loss."""

    @abstractmethod
    def __call__(self, *batch: Any) -> Any:
        """Compute loss and gradient; with a rule, make the step."""

    @abstractmethod
    def arrays(self) -> Sequence[Any]:
        """The weights after the last call, or its gradient where there is no rule."""

    def outcome(self, loss: Any, fetch: Callable[[Any], Array]) -> Array:
        """What is checked of the last call."""
        from benchmarks.workloads.workload import flat

        return flat(fetch(loss), [fetch(x) for x in self.arrays()])


class FunctionalStep(Step):
    """A pure function that is compiled whole, as Zenith and JAX have it.

    Parameters
    ----------
    step: compiled ``(weights, state, *batch) -> (loss, weights, state)``, or with the gradient instead of the weights.
    weights, state: where it begins.
    learns: whether the weights are replaced by what a call returns.
    wait: until arrays are there.
    """

    def __init__(
        self, step: Callable[..., Any], weights: Any, state: Any, learns: bool, wait: Callable[[Any], Any] = tuple
    ) -> None:
        self.step, self._learns, self._wait = step, learns, wait
        self._weights, self._state, self._found = weights, state, weights

    def __call__(self, *batch: Any) -> Any:
        loss, self._found, state = self._wait(self.step(self._weights, self._state, *batch))
        if self._learns:
            self._weights, self._state = self._found, state
        return loss

    def profile(self, *batch: Any) -> Any:
        """What the compiled step says of its launches; the weights are used up."""
        return self.step.profile(self._weights, self._state, *batch)  # type: ignore[attr-defined]

    def arrays(self) -> Sequence[Any]:
        """The new weights, or the last gradient."""
        found: Sequence[Any] = self._found
        return found


def functional_step(gradient: Callable[..., Any], advance: Callable[..., Any] | None) -> Callable[..., Any]:
    """``(weights, state, *batch) -> (loss, weights, state)`` from ``(weights, *batch) -> (loss, gradient)`` and a rule.

    Without a rule the gradient is returned instead of the weights.
    """

    def step(weights: Any, state: Any, *batch: Any) -> Any:
        loss, found = gradient(weights, *batch)
        return loss, *((found, state) if advance is None else advance(weights, found, state))

    return step


class TorchStep(Step):
    """Autograd and PyTorch's own optimisers, whose fused form is its fastest; ``move`` moves the module first."""

    def __init__(
        self,
        workload: Workload,
        compile: Callable[[Any], Any] = lambda module: module,
        move: Callable[[Any], Any] = lambda module: module,
    ) -> None:
        import torch

        descent = workload.descent
        assert descent is not None
        module = move(workload.torch(workload.weights())).train()
        self._weights = [p for p in module.parameters() if p.requires_grad]
        self._loss = compile(module)
        self._optimizer: Any = None
        if descent.rule == "sgd":
            self._optimizer = torch.optim.SGD(self._weights, descent.rate, momentum=descent.momentum, fused=True)
        elif descent.rule is not None:
            rules = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
            self._optimizer = rules[descent.rule](self._weights, descent.rate, fused=True)

    def __call__(self, *batch: Any) -> Any:
        for weight in self._weights:
            weight.grad = None
        loss = self._loss(*batch)
        loss.backward()
        if self._optimizer is not None:
            self._optimizer.step()
        return loss.detach()

    def arrays(self) -> Sequence[Any]:
        """The parameters, or their gradients."""
        return [w.detach() if self._optimizer is not None else w.grad for w in self._weights]
