"""From ATen to Zenith: one small rule for each operator of a decomposed ``torch.export`` graph.

A rule is ``rule(c, *args, **kwargs)`` on traced arrays, in the functions of ``zenith.numpy``. The context ``c`` knows
the element type that PyTorch gives the result, so promotion is PyTorch's: arithmetic first converts its operands to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.errors import ShapeError
from zenith.trace import TracedSize
from zenith.trace.dispatch import implementation

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
_END = 2**63 - 1  # how torch.export writes an open end of a slice


@dataclass(frozen=True)
class Context:
    """What PyTorch found out about one operation: examples of its result and of its arguments."""

    value: Any
    arguments: tuple[Any, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the (first) result."""
        value = self.value[0] if isinstance(self.value, (tuple, list)) else self.value
        return numpy_dtype(value.dtype)

    @property
    def common(self) -> np.dtype[Any]:
        """The element type in which the first two arguments meet."""
        return numpy_dtype(torch.result_type(self.arguments[0], self.arguments[1]))

    def cast(self, *values: Any) -> Any:
        """Arrays in the result's element type; numbers stay numbers."""
        cast = tuple(to(v, self.dtype) for v in values)
        return cast if len(cast) > 1 else cast[0]


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy dtype of a torch dtype; DTypeError when Zenith has none."""
    example = torch.empty(0, dtype=dtype)
    torch_adapter().check(example, "a value inside the module")
    found = torch_adapter().dtype(example)
    assert found is not None
    return found.numpy


def to(value: Any, dtype: np.dtype[Any]) -> Any:
    """An array in another element type; Python numbers and sizes are weak and stay."""
    if isinstance(value, (bool, int, float, TracedSize)) or value is None or value.dtype == dtype:
        return value
    return znp.astype(value, dtype)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators, by packet (``add``) or by overload (``max.dim``)."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def find(target: Any) -> Rule | None:
    """The rule for a node's target; None when there is none. Functions on sizes are Python's own."""
    if not isinstance(target, torch._ops.OpOverload):
        return _plain(target)
    packet, overload = target._schema.name.partition("::")[2], target._overloadname or "default"
    return RULES.get(f"{packet}.{overload}", RULES.get(packet))


_SIZES: dict[Any, Callable[..., Any]] = {
    torch.sym_max: max,
    torch.sym_min: min,
    torch.sym_float: float,
    torch.sym_int: int,
    torch.sym_not: operator.not_,
}


def _plain(target: Any) -> Rule | None:
    function = _SIZES.get(target, target if getattr(target, "__module__", "") == "_operator" else None)
    return None if function is None else lambda c, *args: function(*args)


# --- elementwise -------------------------------------------------------------------------------------------------

_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": znp.negative, "abs": znp.absolute, "sqrt": znp.sqrt, "rsqrt": lambda x: 1.0 / znp.sqrt(x),
    "reciprocal": lambda x: 1.0 / x, "exp": znp.exp, "exp2": znp.exp2, "expm1": znp.expm1, "log": znp.log,
    "log2": znp.log2, "log10": znp.log10, "log1p": znp.log1p, "sin": znp.sin, "cos": znp.cos, "tan": znp.tan,
    "sinh": znp.sinh, "cosh": znp.cosh, "tanh": znp.tanh, "asin": znp.arcsin, "acos": znp.arccos, "atan": znp.arctan,
    "erf": implementation("_erf"), "sigmoid": implementation("_expit"), "relu": lambda x: znp.maximum(x, 0),
    "silu": lambda x: x * implementation("_expit")(x), "floor": znp.floor, "ceil": znp.ceil, "trunc": znp.trunc,
    "round": znp.rint, "sign": znp.sign, "square": znp.square, "bitwise_not": znp.invert,
    "clone": lambda x: x, "alias": lambda x: x, "detach": lambda x: x, "lift_fresh_copy": lambda x: x,
    "contiguous": lambda x: x, "_to_copy": lambda x: x, "positive": lambda x: x,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "mul": znp.multiply, "maximum": znp.maximum, "minimum": znp.minimum, "bitwise_and": znp.bitwise_and,
    "bitwise_or": znp.bitwise_or, "bitwise_xor": znp.bitwise_xor, "remainder": znp.remainder, "fmod": znp.fmod,
    "atan2": znp.arctan2, "floor_divide": znp.floor_divide,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": znp.equal, "ne": znp.not_equal, "lt": znp.less, "le": znp.less_equal, "gt": znp.greater,
    "ge": znp.greater_equal,
}  # fmt: skip
_LOGIC: dict[str, Callable[..., Any]] = {
    "logical_and": znp.logical_and, "logical_or": znp.logical_or, "logical_xor": znp.logical_xor,
    "logical_not": znp.logical_not,
}  # fmt: skip


def _register_elementwise() -> None:
    for name, unary in _UNARY.items():
        RULES[name] = lambda c, x, *_, f=unary, **__: f(c.cast(x))
    for name, binary in _BINARY.items():
        RULES[name] = lambda c, x, y, f=binary: f(*c.cast(x, y))
    for name, compare in _COMPARISONS.items():
        RULES[name] = lambda c, x, y, f=compare: f(to(x, c.common), to(y, c.common))
    for name, logic in _LOGIC.items():
        RULES[name] = lambda c, *args, f=logic: f(*(to(a, np.dtype(bool)) for a in args))


_register_elementwise()


@rule("add")
def _add(c: Context, x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = c.cast(x, y)
    return x + (y if alpha == 1 else y * alpha)


@rule("sub")
def _sub(c: Context, x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = c.cast(x, y)
    return x - (y if alpha == 1 else y * alpha)


@rule("rsub")
def _rsub(c: Context, x: Any, y: Any, alpha: Any = 1) -> Any:
    return _sub(c, y, x, alpha)


@rule("div")
def _div(c: Context, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    x, y = c.cast(x, y)
    if rounding_mode == "floor":
        return znp.floor_divide(x, y)
    if rounding_mode == "trunc":
        return znp.trunc(x / y) if c.dtype.kind == "f" else (x - znp.fmod(x, y)) // y
    return x / y


@rule("pow")
def _pow(c: Context, x: Any, exponent: Any) -> Any:
    x, exponent = c.cast(x, exponent)
    return x**exponent


@rule("clamp")
def _clamp(c: Context, x: Any, min: Any = None, max: Any = None) -> Any:
    x, low, high = c.cast(x, min, max)
    x = x if low is None else znp.maximum(x, low)
    return x if high is None else znp.minimum(x, high)


RULES["clamp_min"] = _clamp
RULES["clamp_max"] = lambda c, x, high: _clamp(c, x, None, high)


@rule("where")
def _where(c: Context, condition: Any, x: Any, y: Any) -> Any:
    return znp.where(condition, *c.cast(x, y))


@rule("masked_fill")
def _masked_fill(c: Context, x: Any, mask: Any, value: Any) -> Any:
    return znp.where(mask, to(value, c.dtype), x)


@rule("gelu")
def _gelu(c: Context, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + znp.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + implementation("_erf")(x * 0.7071067811865476))


# --- reductions --------------------------------------------------------------------------------------------------


def _axes(dim: Any) -> Any:
    """PyTorch's ``dim`` as NumPy's ``axis``: nothing and an empty list mean all."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _reduction(function: Callable[..., Any]) -> Rule:
    def reduce(c: Context, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        return function(c.cast(x), axis=_axes(dim), keepdims=keepdim)

    return reduce


RULES |= {
    "sum": _reduction(znp.sum), "mean": _reduction(znp.mean), "prod": _reduction(znp.prod), "amax": _reduction(znp.max),
    "amin": _reduction(znp.min), "max.default": _reduction(znp.max), "min.default": _reduction(znp.min),
    "any": _reduction(znp.any), "all": _reduction(znp.all),
}  # fmt: skip


@rule("max.dim")
def _extreme(c: Context, x: Any, dim: int, keepdim: bool = False) -> Any:
    return znp.max(x, axis=dim, keepdims=keepdim), znp.argmax(x, axis=dim, keepdims=keepdim)


@rule("min.dim")
def _smallest(c: Context, x: Any, dim: int, keepdim: bool = False) -> Any:
    return znp.min(x, axis=dim, keepdims=keepdim), znp.argmin(x, axis=dim, keepdims=keepdim)


@rule("argmax")
def _argmax(c: Context, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return znp.argmax(x, axis=dim, keepdims=keepdim)


@rule("argmin")
def _argmin(c: Context, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return znp.argmin(x, axis=dim, keepdims=keepdim)


@rule("var")
def _var(c: Context, x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    return znp.var(x, axis=_axes(dim), ddof=1 if correction is None else int(correction), keepdims=keepdim)


@rule("softmax", "_softmax")
def _softmax(c: Context, x: Any, dim: int, *_: Any) -> Any:
    x = c.cast(x)
    e = znp.exp(x - znp.max(x, axis=dim, keepdims=True))
    return e / znp.sum(e, axis=dim, keepdims=True)


@rule("log_softmax", "_log_softmax")
def _log_softmax(c: Context, x: Any, dim: int, *_: Any) -> Any:
    x = c.cast(x)
    shifted = x - znp.max(x, axis=dim, keepdims=True)
    return shifted - znp.log(znp.sum(znp.exp(shifted), axis=dim, keepdims=True))


@rule("native_layer_norm", "layer_norm")
def _layer_norm(
    c: Context, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean = znp.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    rstd = 1.0 / znp.sqrt(znp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    y = centred * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return (y, mean, rstd) if isinstance(c.value, (tuple, list)) else y


# --- products ----------------------------------------------------------------------------------------------------

for _name in ("mm", "bmm", "matmul", "mv", "dot"):
    RULES[_name] = lambda c, x, y: znp.matmul(x, y)


@rule("addmm", "baddbmm", "addmv")
def _addmm(c: Context, bias: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = znp.matmul(x, y)
    return (product if alpha == 1 else product * alpha) + (bias if beta == 1 else bias * beta)


@rule("linear")
def _linear(c: Context, x: Any, weight: Any, bias: Any = None) -> Any:
    product = znp.matmul(x, znp.matrix_transpose(weight) if weight.ndim > 1 else weight)
    return product if bias is None else product + bias


# --- views -------------------------------------------------------------------------------------------------------


@rule("view.default", "reshape", "_unsafe_view")
def _view(c: Context, x: Any, shape: Sequence[Any]) -> Any:
    return znp.reshape(x, tuple(shape))


@rule("flatten")
def _flatten(c: Context, x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    end = end_dim % max(x.ndim, 1)
    return znp.reshape(x, (*x.shape[:start_dim], -1, *x.shape[end + 1 :]))


@rule("permute")
def _permute(c: Context, x: Any, dims: Sequence[int]) -> Any:
    return znp.transpose(x, tuple(dims))


@rule("transpose")
def _transpose(c: Context, x: Any, dim0: int, dim1: int) -> Any:
    return znp.swapaxes(x, dim0, dim1)


@rule("t")
def _t(c: Context, x: Any) -> Any:
    return znp.transpose(x)


@rule("unsqueeze")
def _unsqueeze(c: Context, x: Any, dim: int) -> Any:
    return znp.expand_dims(x, dim)


@rule("squeeze")
def _squeeze(c: Context, x: Any, dim: Any = None) -> Any:
    """Removes axes that are 1 for every size of this export; others are not 1, by torch.export's own guards."""
    sizes = c.arguments[0].shape
    asked = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(d for d in asked if isinstance(sizes[d], int) and sizes[d] == 1)
    return znp.squeeze(x, axis=axes) if axes else x


@rule("expand")
def _expand(c: Context, x: Any, shape: Sequence[Any], implicit: bool = False) -> Any:
    own = (None,) * (len(shape) - x.ndim) + tuple(x.shape)
    wanted = [kept if isinstance(n, int) and n == -1 else n for n, kept in zip(shape, own, strict=True)]
    return znp.broadcast_to(x, tuple(wanted))


@rule("slice")
def _slice(c: Context, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    end = None if isinstance(end, int) and end == _END else end
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@rule("select")
def _select(c: Context, x: Any, dim: int, index: Any) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


@rule("cat")
def _cat(c: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
    rank = max(t.ndim for t in tensors)
    return znp.concatenate(
        [c.cast(t) for t in tensors if t.ndim == rank], axis=dim
    )  # torch skips tensors of shape (0,)


@rule("stack")
def _stack(c: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
    return znp.stack([c.cast(t) for t in tensors], axis=dim)


@rule("split_with_sizes")
def _split_with_sizes(c: Context, x: Any, sizes: Sequence[Any], dim: int = 0) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(_slice(c, x, dim, start, start + size))
        start = start + size
    return tuple(parts)


@rule("flip")
def _flip(c: Context, x: Any, dims: Sequence[int]) -> Any:
    return znp.flip(x, tuple(dims))


# --- creation, sizes, indexing -----------------------------------------------------------------------------------


@rule("full")
def _full(c: Context, shape: Sequence[Any], value: Any, **_: Any) -> Any:
    return znp.full(tuple(shape), value, dtype=c.dtype)


@rule("full_like")
def _full_like(c: Context, x: Any, value: Any, **_: Any) -> Any:
    return znp.full(x.shape, value, dtype=c.dtype)


@rule("scalar_tensor")
def _scalar_tensor(c: Context, value: Any, **_: Any) -> Any:
    return znp.full((), value, dtype=c.dtype)


@rule("arange.start_step")
def _arange(c: Context, start: Any, end: Any, step: Any = 1, **_: Any) -> Any:
    return znp.astype(znp.arange(start, end, step), c.dtype)


@rule("embedding")
def _embedding(c: Context, weight: Any, indices: Any, *_: Any) -> Any:
    return znp.take(weight, indices, axis=0)


@rule("sym_size")
def _sym_size(c: Context, x: Any, dim: int) -> Any:
    return x.shape[dim]


@rule("_assert_scalar")
def _assert(c: Context, condition: Any, message: str) -> None:
    if not condition:
        raise ShapeError(f"torch.export: {message}")


@rule("_assert_tensor_metadata")
def _no_check(c: Context, *_: Any, **__: Any) -> None:
    """Types are fixed when the graph is traced: there is nothing left to check."""
