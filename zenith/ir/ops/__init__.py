"""The primitives, by chapter. Importing this package fills the registry."""

from zenith.ir.ops import (
    attention,
    control,
    data,
    effect,
    elementwise,
    indexing,
    logic,
    parts,
    product,
    reduce,
    region,
    select,
    shape,
)

__all__ = [
    "attention",
    "control",
    "data",
    "effect",
    "elementwise",
    "indexing",
    "logic",
    "parts",
    "product",
    "reduce",
    "region",
    "select",
    "shape",
]
