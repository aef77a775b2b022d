"""Writes zenith/ir/builder_methods.pyi: the builder's methods, one for each registered primitive, for editors and mypy.

Operands and results are counted on the primitive's samples; where there are none, on operands that its typing takes.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "zenith" / "ir" / "builder_methods.pyi"
sys.path[:0] = [str(ROOT)]  # run as a script, only docs/ would be there

import zenith  # noqa: E402
from zenith.ir.params import normalize  # noqa: E402
from zenith.ir.primitive import Primitive, all_primitives  # noqa: E402
from zenith.ir.types import DTYPES, TOKEN, ArrayType, Type, dtype_of, float32  # noqa: E402

HEAD = '''"""The builder's methods: each registered primitive. Made by docs/make_builder_stub.py (`make docs`)."""

from collections.abc import Sequence

from zenith.ir.dims import DimLike
from zenith.ir.external import External
from zenith.ir.graph import Graph, Value
from zenith.ir.types import ArrayType, DType

Number = complex  # also bool, int and float; in the class, `complex` is a primitive
Operand = Value | Number

class Methods:
    """One method for each primitive. A number among array operands becomes a literal of their type and shape."""
'''
KINDS = {
    "sizes": "Sequence[DimLike]", "size": "DimLike", "ints": "tuple[int, ...]", "int": "int", "number": "Number",
    "bool": "bool", "text": "str", "dtype": "DType", "types": "Sequence[ArrayType]", "external": "External",
    "graph": "Graph", "graphs": "tuple[Graph, ...]",
}  # fmt: skip
NAMES = ("x", "y", "z", "w")

# Parameters with which the typing of a primitive without samples is asked.
PROBES = {"text": "x", "dtype": float32, "sizes": (), "size": 1, "ints": (), "int": 0, "number": 0, "bool": False}


def main() -> None:
    """Write the file."""
    RESULT.write_text(stub(), encoding="utf-8")


def stub() -> str:
    """The text of zenith/ir/builder_methods.pyi."""
    return HEAD + "".join(map(method, sorted(all_primitives(), key=lambda primitive: primitive.name)))


def method(primitive: Primitive) -> str:
    """One primitive's method."""
    counts = set(counted(primitive))
    operands = {count for count, _ in counts}
    results = {count for _, count in counts}
    if len(operands) == 1:
        names = [f"{name}: Operand" for name in NAMES[: operands.pop()]]
        arguments = ["self", *names, "/"]
    else:
        arguments = ["self", "*args: Operand"]
    if primitive.params and "*" not in arguments[-1]:
        arguments.append("*")
    arguments += [f"{name}: {KINDS[kind]}" for name, kind in primitive.params.items()]
    head = signature(f"    def {primitive.name}", arguments, returned(results))
    doc = textwrap.wrap(f'"""{primitive.doc}', 112, break_long_words=False, break_on_hyphens=False)
    end = ['"""'] if len(doc) > 1 or len(doc[0]) > 109 else []
    return "\n".join(["", head, *(" " * 8 + line for line in [*doc, *end])]) + ("" if end else '"""') + "\n"


def signature(name: str, arguments: list[str], result: str) -> str:
    """A function's head, on as many lines as ruff's formatter gives it."""
    line = f"{name}({', '.join(arguments)}) -> {result}:"
    if len(line) <= 120:
        return line
    inner = " " * 8 + ", ".join(arguments)
    if len(inner) <= 120 and "*args" in inner:
        return f"{name}(\n{inner}\n    ) -> {result}:"
    return f"{name}(\n{''.join(' ' * 8 + argument + ',' + chr(10) for argument in arguments)}    ) -> {result}:"


def returned(counts: set[int]) -> str:
    """The type of so many results; the builder gives a single one by itself."""
    if len(counts) != 1:
        return "Value | tuple[Value, ...]"
    (count,) = counts
    return "Value" if count == 1 else f"tuple[{', '.join(['Value'] * count) or '()'}]"


def counted(primitive: Primitive) -> Iterator[tuple[int, int]]:
    """How many operands and results the primitive has, for each of its samples."""
    samples = [sample for dtype in DTYPES for sample in primitive.samples(dtype.numpy)]
    for sample in samples:
        types = [ArrayType(found, v.shape) for v in sample.values if (found := dtype_of(v.dtype)) is not None]
        yield len(types), len(primitive.typing(types, normalize(primitive.params, sample.params)))
    if not samples and all(kind in PROBES for kind in primitive.params.values()):
        params = normalize(primitive.params, {name: PROBES[kind] for name, kind in primitive.params.items()})
        for count, first in product(range(len(NAMES)), ([], [TOKEN])):
            operands: list[Type] = [*first, *[ArrayType(float32, ())] * count]
            with suppress(zenith.ZenithError, ValueError):
                yield len(operands), len(primitive.typing(operands, params))


if __name__ == "__main__":
    main()
