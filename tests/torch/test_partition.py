"""Residuals of ``torch.compile`` have the layout of the kernels of their device, which is found without a device."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from zenith.torch.dynamo.blocks import LAYOUT, Blocked
from zenith.torch.dynamo.partition import partition


def joint(device, groups):
    """A convolution of 48 channels to 64 followed by a relu, and its gradients, as AOTAutograd records them."""
    sizes = [1, 1], [0, 0], [1, 1], False, [0, 0], groups

    def run(primals, tangents):
        x, w = primals
        y = torch.ops.aten.convolution.default(x, w, None, *sizes)
        ct = torch.where(y > 0, tangents[0], 0)
        found = torch.ops.aten.convolution_backward.default(ct, x, w, None, *sizes, [True, True, False])
        return [y.relu(), found[0], found[1]]

    with FakeTensorMode(allow_non_fake_inputs=True):
        shapes = (2, 48, 9, 9), (64, 48 // groups, 3, 3), (2, 64, 7, 7)
        x, w, ct = (torch.empty(shape, device=device) for shape in shapes)
        graph = make_fx(run)([x, w], [ct])
    for node, name in zip(
        graph.graph.find_nodes(op="placeholder"), ("primals_1", "primals_2", "tangents_1"), strict=True
    ):
        node.name = node.target = name
    return graph, [x, w, ct]


@pytest.mark.parametrize(("device", "groups", "layout"), [
    ("cpu", 1, Blocked(1, 32)), ("cuda", 1, Blocked(1, 64)), ("cpu", 2, Blocked(2, 32)), ("cuda", 2, Blocked(2, 32)),
])  # fmt: skip
def test_blocks_are_those_of_the_device(device, groups, layout):
    forward, backward = partition(*joint(device, groups), num_fwd_outputs=1)
    marked = [[node.meta[LAYOUT] for node in m.graph.nodes if LAYOUT in node.meta] for m in (forward, backward)]
    assert marked == [[layout], [layout]]
