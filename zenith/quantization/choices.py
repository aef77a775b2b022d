"""How products are computed, and which of these choices is that of a product in another program of a function.

A product is known by the numbers of its matrix. Where several are by equal ones, as of tied or equally initialised
layers, they differ by what computes the other operand. A program that computes it otherwise, such as a step of
a generator, has the choice that all products by this matrix have; and where these differ, that of the product in the
same place among them, as long as no range of an activation is a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from zenith.errors import UnsupportedError
from zenith.ir.types import NDArray
from zenith.quantization.integers import Columns, Levels
from zenith.quantization.products import Product


@dataclass(frozen=True, slots=True)
class InBytes:
    """How a product is computed in bytes: its matrix, by name in the table of weights, and the other operand's levels.

    The other operand's channels are divided by ``smoothing`` first, by which the matrix' rows are multiplied; it may
    stay in ``floats``. Scales of groups are weights, too, of the matrix' name with an ending; ``known`` then is how
    many bits the levels have.
    """

    weight: str
    known: Columns | int
    levels: Levels | None
    smoothing: NDArray | None
    floats: bool


Choice = InBytes | Literal["bf16"] | None
"""How a product is computed: in bytes, with operands rounded to bfloat16, or as it is."""


def chosen_for(products: Sequence[Product], choices: Mapping[str, Choice]) -> Iterator[tuple[int, Choice]]:
    """The node of each product, and its choice among those by key; UnsupportedError where there is none for some."""
    by_matrix: dict[str, list[Choice]] = {}
    for key, choice in choices.items():
        by_matrix.setdefault(key.partition(".")[0], []).append(choice)
    unknown = []
    for content in dict.fromkeys(product.content for product in products):
        own = [product for product in products if product.content == content]
        found = _of_matrix([product.key for product in own], by_matrix.get(content, ()), choices)
        if found is None:
            unknown += own
        else:
            yield from zip((product.node for product in own), found, strict=True)
    if unknown:
        names = ", ".join(product.name for product in unknown)
        why = "; several are by one matrix, and have ranges of their own"
        raise UnsupportedError(
            f"this kind of call has products that were not calibrated: {names}"
            + why * any(product.content in by_matrix for product in unknown),
            fix="calibrate with calls of one kind, one quantised function for each, or give each row a range of its "
            'own: scheme="dynamic"',
        )  # fmt: skip


def _of_matrix(keys: Sequence[str], known: Sequence[Choice], choices: Mapping[str, Choice]) -> list[Choice] | None:
    """The choices for the products by one matrix, of which ``known`` are those in the calibration; None without."""
    if all(key in choices for key in keys):
        return [choices[key] for key in keys]
    has_ranges = any(isinstance(choice, InBytes) and choice.levels is not None for choice in known)
    agree = all(_same(known[0], choice) for choice in known)
    if known and agree and not (has_ranges and len(known) != len(keys)):
        return [known[0]] * len(keys)
    return list(known) if len(known) == len(keys) and not has_ranges else None


def _same(one: Choice, other: Choice) -> bool:
    if not (isinstance(one, InBytes) and isinstance(other, InBytes)):
        return one == other
    parts = ((c.weight, c.levels, c.floats) for c in (one, other))
    arrays = zip(_arrays(one), _arrays(other), strict=True)
    return len(set(parts)) == 1 and all(np.array_equal(a, b) for a, b in arrays)  # type: ignore[arg-type]  # or None


def _arrays(choice: InBytes) -> Iterable[NDArray | None]:
    known = choice.known
    columns = (known.scales, known.zeros, known.sums) if isinstance(known, Columns) else (np.asarray(known), None, None)
    return choice.smoothing, *columns
