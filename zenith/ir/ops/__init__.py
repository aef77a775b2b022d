"""The primitives, by chapter. Importing this package fills the registry."""

from zenith.ir.ops import (
    attention,
    control,
    custom,
    data,
    effect,
    elementwise,
    indexing,
    logic,
    parts,
    product,
    random,
    reduce,
    region,
    select,
    shape,
    sort,
)

__all__ = [
    "attention",
    "control",
    "custom",
    "data",
    "effect",
    "elementwise",
    "indexing",
    "logic",
    "parts",
    "product",
    "random",
    "reduce",
    "region",
    "select",
    "shape",
    "sort",
]
