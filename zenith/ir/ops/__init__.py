"""The primitives, by chapter. Importing this package fills the registry."""

from zenith.ir.ops import data, effect, elementwise, indexing, logic, parts, product, reduce, region, select, shape

__all__ = [
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
