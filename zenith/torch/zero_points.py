"""Zero points of a quantised module, which programs have as numbers: weights around 0 need no corrections.

They are part of what programs assume, like sizes: where a module gets others, its programs are made again.
"""

from __future__ import annotations

import numpy as np
import torch

from zenith.backends.weights import WeightTable
from zenith.numpy.typing import Array

DEQUANTIZE = "quantized_decomposed::dequantize_per_"


def known_zero_points(node: torch.fx.Node, table: WeightTable, name: str) -> Array | None:
    """The numbers of a stored tensor that a graph takes for nothing but zero points; None for all else.

    What is on a GPU is None, too: reading it would be waiting for it.
    """
    is_known = isinstance(table.get(name), np.ndarray) and node.users and all(_takes(use, node) for use in node.users)
    return table.fix(name) if is_known else None


def _takes(use: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether a node has another one as zero points, and as nothing else."""
    if not isinstance(use.target, torch._ops.OpOverload) or use.all_input_nodes.count(node) != 1:
        return False
    return use.target._schema.name.startswith(DEQUANTIZE) and len(use.args) > 2 and use.args[2] is node
