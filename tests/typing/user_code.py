"""A user's program, for type checkers: `assert_type` says what the types of Zenith's functions are. Nothing runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import zenith
from zenith import numpy as znp
from zenith.numpy.typing import Array

F32 = NDArray[np.float32]
x: F32 = np.ones((2, 2), np.float32)


# --- jit keeps parameters and results ---


@zenith.jit
def layer(x: F32, w: F32, *, scale: float = 1.0) -> F32:
    """A layer."""
    result: F32 = np.maximum(x @ w, 0)
    return result * np.float32(scale)


@zenith.jit(static_argnames="k", tf32=True)
def halves(x: F32, k: int) -> tuple[F32, F32]:
    """Both sides of a row."""
    return x[:k], x[k:]


assert_type(layer(x, x), F32)
assert_type(layer(x, w=x, scale=2.0), F32)
assert_type(halves(x, 1), tuple[F32, F32])
assert_type(layer.lower(zenith.ShapeDtypeStruct((2, 2), "float32"), x).compile()(x, x), F32)
assert_type(layer.explain(), zenith.Explanation)
assert_type(layer.cache_info(), zenith.CacheInfo)
assert_type(layer.show("plan"), str)
assert_type(layer.graph, zenith.Graph)
assert_type(layer.__wrapped__(x, x), F32)
assert_type(zenith.jit(layer)(x, x), F32)
assert_type(zenith.jit(np.tanh)(x), Any)
assert_type(zenith.jit(lambda x: 2.0)(x), float)


class Model:
    """A jitted method is one of an instance."""

    @zenith.jit
    def forward(self, x: F32) -> F32:
        """The result."""
        return x

    @zenith.jit(donate_argnums=1)
    def step(self, x: F32, rate: float = 0.1) -> tuple[F32, float]:
        """The state after a step."""
        return x, rate

    @zenith.grad
    def slope(self, at: float) -> float:
        """A plain function again."""
        return at


assert_type(Model().forward(x), F32)
assert_type(Model().step(x, rate=0.5), tuple[F32, float])
assert_type(Model().step.explain(), zenith.Explanation)
assert_type(Model().step.lower(x).compile()(x), tuple[F32, float])
assert_type(Model.forward(Model(), x), F32)
assert_type(Model().slope(1.0), Any)


@dataclass
class Trainer:
    """A field with a jitted function is none of its methods."""

    forward: zenith.Jitted[[F32, F32], F32]


def trained(trainer: Trainer) -> None:
    """Calls what a field has."""
    assert_type(trainer.forward(x, x), F32)


# --- transforms ---


def loss(params: dict[str, F32], x: F32) -> float:
    """A number."""
    return float(np.sum(params["w"] * x))


def loss_and_name(x: F32) -> tuple[float, str]:
    """A number, and what goes along."""
    return 0.0, "loss"


@zenith.tree.register_dataclass
@dataclass
class Weights:
    """A node of structures, which stays the class that it is."""

    w: F32


assert_type(Weights(x).w, F32)
assert_type(zenith.jit(lambda weights: weights)(Weights(x)), Any)
params = {"w": x}
assert_type(zenith.grad(loss)(params, x), Any)
assert_type(zenith.grad(loss_and_name, has_aux=True)(x), tuple[Any, str])
assert_type(zenith.value_and_grad(loss, argnums=(0, 1))(params, x), tuple[float, Any])
assert_type(zenith.value_and_grad(loss_and_name, has_aux=True)(x), tuple[tuple[float, str], Any])
assert_type(zenith.jit(zenith.value_and_grad(loss))(params, x), tuple[float, Any])
assert_type(zenith.vmap(layer)(x, x, scale=1.0), F32)
assert_type(zenith.vmap(np.tanh)(x), Any)
assert_type(zenith.checkpoint(loss)(params, x), float)
assert_type(zenith.checkpoint(policy=zenith.checkpoint_policies.dots_saveable)(loss)(params, x), float)
assert_type(zenith.hessian(loss)(params, x), Any)
assert_type(zenith.jvp(loss, (params, x), (params, x)), tuple[float, float])
assert_type(zenith.vjp(loss, params, x)[0], float)
assert_type(zenith.vjp(loss_and_name, x, has_aux=True)[2], str)
assert_type(zenith.linearize(loss, params, x)[1](params, x), float)
assert_type(zenith.stop_gradient(params), dict[str, F32])


@zenith.custom_jvp
def softplus(x: F32) -> F32:
    """A function with a rule."""
    return x


@zenith.custom_op(result=lambda x: zenith.ShapeDtypeStruct(x.shape, x.dtype))
def sign(x: F32) -> F32:
    """An operation."""
    return x


assert_type(softplus(x), F32)
assert_type(sign(x), F32)
assert_type(zenith.scan(lambda carry, x: (carry, carry), x, x), tuple[F32, F32])
assert_type(zenith.fori_loop(0, 3, lambda i, x: x, x), F32)
assert_type(zenith.cond(True, loss, loss, params, x), float)


# --- whole programs ---

small = zenith.quantize(layer, [(x, x)])
assert_type(small(x, x, scale=1.0), F32)
assert_type(small.report.after, int)
assert_type(zenith.jit(loss_and_name, tolerance=1e-2, calibration=[x])(x), tuple[float, str])
assert_type(zenith.verify(layer, [(x, x)]).relative, float)
assert_type(zenith.make_graph(loss)(params, x), zenith.Graph)
assert_type(zenith.aot(loss, (params, x)).arch, str)
assert_type(zenith.load("layer.zenith").cache_info(), zenith.CacheInfo)
assert_type(zenith.__version__, str)


def texts(model: object, generator: zenith.Generator) -> None:
    """What follows prompts is of their kind."""
    assert_type(zenith.generate(model, [1, 2], temperature=1.0), list[int])
    assert_type(generator.generate([[1, 2], [3]]), list[list[int]])
    assert_type(zenith.generate(model, x), F32)


def functions_of_arrays(scores: Array) -> Array:
    """NumPy's arrays are taken where traced ones are."""
    assert_type(zenith.kernels.relu(x), Array)
    assert_type(znp.matmul(x, scores), Array)
    return znp.matmul(x, scores)


ready: Callable[[F32], F32] = softplus
