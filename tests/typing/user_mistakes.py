"""A user's mistakes, each on a line that type checkers must refuse: they end in ``# wrong``. Nothing runs it."""

from __future__ import annotations

import zenith


@zenith.jit
def scaled(x: float, by: float = 2.0) -> float:
    """A product."""
    return x * by


class Model:
    """With a method."""

    @zenith.jit
    def forward(self, x: float) -> float:
        """The result."""
        return x


@zenith.custom_jvp
def softplus(x: float) -> float:
    """A function with a rule."""
    return x


def named(x: float) -> tuple[float, str]:
    """A number, and what goes along."""
    return x, ""


scaled("one")  # wrong
scaled(1.0, 2.0, 3.0)  # wrong
scaled()  # wrong
scaled(1.0, times=2.0)  # wrong
text: str = scaled(1.0)  # wrong
scaled.lower(1.0).compile()("one")  # wrong
scaled.explained()  # wrong
Model().forward("one")  # wrong
Model().forward(1.0, 2.0)  # wrong
softplus("one")  # wrong
zenith.grad(scaled)("one")  # wrong
zenith.value_and_grad(scaled)(1.0, 2.0, 3.0)  # wrong
value: str = zenith.value_and_grad(scaled)(1.0)[0]  # wrong
aux: int = zenith.grad(named, has_aux=True)(1.0)[1]  # wrong
zenith.vmap(scaled)(1.0, by="two")  # wrong
zenith.checkpoint(scaled)("one")  # wrong
zenith.vmap(1.0)  # wrong
zenith.jit(scaled, static_argnum=0)  # wrong
zenith.jit(tf32="yes")(scaled)  # wrong
zenith.quantize(scaled, [1.0])("one")  # wrong
zenith.jitt(scaled)  # wrong
zenith.torch.from_numpy(scaled)  # wrong
