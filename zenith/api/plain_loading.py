"""Loaded modules without torch: what ``save`` wrote of a module takes and returns NumPy arrays.

The file describes the structures of calls and results in terms of Python alone, in addition to torch's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zenith.api.forms import Json, Result, read_nested, spell_nested, without_numbers
from zenith.api.leaves import KEYS, check_leaf, dtype_text, leaf_key
from zenith.api.loading import Given, Loaded
from zenith.backends.archive import Archive
from zenith.errors import LoadError
from zenith.trace.results import as_number
from zenith.tree import Leaf


class PlainModule(Loaded):
    """A module that :func:`zenith.from_torch` compiled and ``save`` wrote, on NumPy arrays."""

    def __init__(self, archive: Archive) -> None:
        programs = [p for p in archive.content["programs"] if not (p["form"] or {}).get("dynamic")]  # those are torch's
        if not programs or any(program["plain"] is None for program in programs):
            raise LoadError(f"{archive.path} takes or returns what only torch can build",
                            fix="load it where torch is installed, and call it with tensors")  # fmt: skip
        self._orders: dict[str, list[int]] = {}
        super().__init__(replace(archive, content={**archive.content, "programs": programs}))

    def _key_functions(self) -> Mapping[type, Callable[[Any], Hashable]]:
        return {np.ndarray: KEYS[np.ndarray]}

    def _add(self, program: Json, link: Callable[[str, Json], Any]) -> None:
        arguments, result = program["plain"]
        leaves = [["numpy" if name == "torch" else name, *rest] for name, *rest in program["leaves"]]
        form = program["form"]
        if form is not None:
            form, numbers = without_numbers(arguments)
            self._orders[form] = numbers
        super()._add({**program, "leaves": leaves, "form": form, "result": result}, link)

    def _form_text(self, spelled: Json) -> str:
        return str(spelled)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Given]:
        arrays: list[Any] = []
        text, numbers = without_numbers(spell_nested(_marked([list(args), dict(kwargs)], arrays)))
        in_order = [arrays[number] for number in numbers]
        wanted = self._orders.get(text, list(range(len(arrays))))
        leaves = [array for _, array in sorted(zip(wanted, in_order, strict=True), key=lambda pair: pair[0])]
        keys = tuple(leaf_key(leaf, f"array {i}") for i, leaf in enumerate(leaves))
        is_flat = not kwargs and all(isinstance(arg, np.ndarray) for arg in args)

        def check() -> None:
            for number, leaf in enumerate(leaves):
                check_leaf(leaf, f"array {number}")

        return [Given(keys if is_flat else (text, keys), leaves, check, lambda: tuple(map(dtype_text, leaves)))]

    def _result(self, spelled: Json, numbers: Sequence[int]) -> Result:
        nested = read_nested(spelled)
        return Result(lambda results: _filled(nested, results), lambda: spelled, lambda: nested)


def _marked(value: Any, arrays: list[Any]) -> Any:
    """A structure with a ``Leaf`` in the place of each array, which goes to ``arrays``."""
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return Leaf(len(arrays) - 1)
    if isinstance(value, dict):
        return {key: _marked(item, arrays) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_marked(item, arrays) for item in value))
    return type(value)(_marked(item, arrays) for item in value) if type(value) in (tuple, list) else value


def _filled(value: Any, results: list[Any]) -> Any:
    """A structure with results in the place of every ``Leaf``."""
    match value:
        case Leaf(number=number, is_size=is_size):
            return int(results[number]) if is_size else as_number(results[number])
        case dict():
            return {key: _filled(item, results) for key, item in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(_filled(item, results) for item in value))
        case tuple() | list():
            return type(value)(_filled(item, results) for item in value)
    return value
