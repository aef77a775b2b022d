"""Loaded modules without torch: what ``save`` wrote of a module takes and returns NumPy arrays.

The file describes the structures of calls and results in terms of Python alone, in addition to torch's own text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zenith.api.forms import Result, mapped
from zenith.api.leaves import KEYS, check_leaf, dtype_text, leaf_key
from zenith.api.loading import Given, Loaded
from zenith.api.saving import SavedFunction, SavedProgram
from zenith.backends.backend import Executable
from zenith.backends.codec import encode
from zenith.errors import LoadError
from zenith.ir.types import NDArray
from zenith.trace.results import as_number
from zenith.tree import Leaf


class PlainModule(Loaded):
    """A module that :func:`zenith.from_torch` compiled and ``save`` wrote, on NumPy arrays."""

    def __init__(self, path: Path, saved: SavedFunction) -> None:
        programs = tuple(program for program in saved.programs if not program.dynamic)  # those are torch's
        if not programs or any(program.plain is None for program in programs):
            raise LoadError(f"{path} takes or returns what only torch can build",
                            fix="load it where torch is installed, and call it with tensors")  # fmt: skip
        self._orders: dict[str, list[list[int]]] = {}  # of the leaves of programs whose calls have one form
        super().__init__(path, replace(saved, programs=programs))

    def _key_functions(self) -> Mapping[type, Callable[[object], Hashable]]:
        return {np.ndarray: KEYS[np.ndarray]}

    def _add(self, program: SavedProgram, link: Callable[[str, object], Executable]) -> None:
        assert program.plain is not None, "it was checked"
        arguments, result = program.plain
        leaves = tuple(replace(kind, name="numpy") if kind.name == "torch" else kind for kind in program.leaves)
        form = program.form
        if form is not None:
            text, numbers = _without_numbers(arguments, self._signature.named)
            orders = self._orders.setdefault(text, [])
            if numbers not in orders:
                orders.append(numbers)
            form = _form(text, orders.index(numbers))
        super()._add(replace(program, leaves=leaves, form=form, result=result), link)

    def _given(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Sequence[Given]:
        arrays: list[NDArray] = []

        def marked(value: object) -> object:
            if not isinstance(value, np.ndarray | np.generic):
                return value
            arrays.append(np.asarray(value))
            return Leaf(len(arrays) - 1)

        text, numbers = _without_numbers(mapped([list(args), kwargs], marked), self._signature.named)
        in_order = [arrays[number] for number in numbers]
        is_flat = not kwargs and all(isinstance(arg, np.ndarray) for arg in args)
        orders = self._orders.get(text, [list(range(len(arrays)))])
        return [_ordered("" if is_flat else _form(text, k), in_order, wanted) for k, wanted in enumerate(orders)]

    def _result(self, program: SavedProgram) -> Result:
        nested = program.result

        def build(results: list[NDArray]) -> object:
            return mapped(nested, lambda leaf: _filled(leaf, results))

        return Result(build, lambda: nested, lambda: nested)


def _form(text: str, order: int) -> str:
    """The key of the programs whose calls have this text, and whose leaves have this order among them."""
    return f"{text} {order}"


def _ordered(form: str, arrays: Sequence[NDArray], order: Sequence[int]) -> Given:
    """A call as programs take it that were made for the leaves in this order; without a form for arrays alone."""
    leaves = [array for _, array in sorted(zip(order, arrays, strict=True), key=lambda pair: pair[0])]
    keys = tuple(leaf_key(leaf, f"array {i}") for i, leaf in enumerate(leaves))

    def check() -> None:
        for number, leaf in enumerate(leaves):
            check_leaf(leaf, f"array {number}")

    return Given((form, keys) if form else keys, leaves, check, lambda: tuple(map(dtype_text, leaves)))


def _without_numbers(arguments: Any, names: Collection[str]) -> tuple[str, list[int]]:
    """Arguments and keywords as text that is the same for calls of one form, and their leaves' numbers.

    Those of ``names`` may come in any order, what ``**kwargs`` takes may not.
    """
    numbers: list[int] = []

    def visit(leaf: object) -> object:
        if not isinstance(leaf, Leaf):
            return leaf
        numbers.append(leaf.number)
        return Leaf(0)

    args, kwargs = arguments
    in_order = {**{name: kwargs[name] for name in sorted(kwargs) if name in names}, **kwargs}
    return json.dumps(encode(mapped([args, in_order], visit))), numbers


def _filled(leaf: object, results: list[NDArray]) -> object:
    """A leaf of a result's structure: one of the results, or a value that is none."""
    if not isinstance(leaf, Leaf):
        return leaf
    return int(results[leaf.number]) if leaf.is_size else as_number(results[leaf.number])
