"""Operations that must stay in order: each takes the token of the one before and gives the next."""

from __future__ import annotations

import string
import sys
from collections.abc import Sequence

from zenith.errors import DTypeError
from zenith.ir.lowering import Data, HostCall
from zenith.ir.ops.common import arrays
from zenith.ir.primitive import Params, Primitive, not_batchable, not_differentiable, register
from zenith.ir.types import TOKEN, NDArray, TokenType, Type

register(Primitive(
    name="token", doc="The first token of a program.", params={}, typing=lambda types, params: (TOKEN,),
    evaluate=lambda values, params: (None,), lowering=Data(), jvp=not_differentiable("a token is no number"),
    vjp=not_differentiable("a token is no number"), batch=lambda b, args, batched, size, params: [b.token()], ulp=0,
    effect=False, samples=lambda dtype: [],
))  # fmt: skip


def _print_type(types: Sequence[Type], params: Params) -> tuple[TokenType]:
    if not types or not isinstance(types[0], TokenType):
        raise DTypeError("debug_print takes a token first", types=tuple(types))
    arrays("debug_print", types[1:])
    return (TOKEN,)


def print_line(values: Sequence[object], params: Params) -> tuple[None]:
    """Print the format with the arrays filled in; the reference and the compiled program share it."""
    sys.stdout.write(string.Formatter().vformat(params["format"], tuple(values[1:]), {}) + "\n")
    return (None,)


def _print(values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    print_line(values, params)


register(Primitive(
    name="debug_print", doc="Prints arrays when the program runs, in program order.", params={"format": "text"},
    typing=_print_type, evaluate=print_line, lowering=HostCall(_print),
    jvp=not_differentiable("printing has no derivative"), vjp=not_differentiable("printing has no derivative"),
    batch=not_batchable("the text of a batched print is not defined"), ulp=0, effect=True, samples=lambda dtype: [],
))  # fmt: skip
