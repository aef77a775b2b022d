"""Residuals of convolutions are passed in blocks of channels; neither program transposes an array for that."""

import numpy as np
import pytest

import zenith.numpy as znp
from zenith import nn
from zenith.backends.target import Target
from zenith.ir.dims import dim, symbol
from zenith.ir.interpret import interpret
from zenith.ir.types import float32
from zenith.ir.verify import verify
from zenith.passes.pipeline import passes_for, run
from zenith.trace import InputSpec, trace
from zenith.transforms.blocked_residuals import block_residuals
from zenith.transforms.reverse import vjp_graph
from zenith.transforms.split import split

READ, SIDE = 6, 5  # channels and height of the images that a program reads


def block(x, first, second, scale, shift, *, groups):
    """Convolution, norm, relu, two more convolutions; the second adds to the result of the first."""
    y = nn.conv(x, first, padding=1, groups=READ // first.shape[1])
    y = nn.relu(nn.batch_norm_training(y, None, None, scale, shift)[0])
    z = nn.conv(y, second, padding=1, groups=groups)
    z = nn.conv(nn.relu(z), second, padding=1, groups=groups) + z
    return znp.mean(nn.relu(z), axis=(2, 3))


def halves(channels, groups, function=block):
    """The derivative by all arguments, split into a pair of programs, for any number of examples."""
    read = READ // groups if READ % groups == 0 else READ
    shapes = (2, READ, SIDE, SIDE), (channels, read, 3, 3), (channels, channels // groups, 3, 3)
    names = "x", "first", "second", "scale", "shift"
    specs = [InputSpec(name, float32, tuple(map(dim, shape)), shape)
             for name, shape in zip(names, (*shapes, (channels,), (channels,)), strict=True)]  # fmt: skip
    specs[0] = InputSpec("x", float32, (symbol("n"), *specs[0].sizes[1:]), shapes[0])
    graph = trace(lambda *args: [function(*args, groups=groups)], specs, "block").graph
    joint = vjp_graph(graph, [True] * len(specs), [True])
    return split(joint, [i >= len(specs) for i in range(len(joint.inputs))], None, ())


def transposed_at_boundary(pair, passes):
    """Residuals in blocks that the optimized programs transpose, where these are made or where they are read."""
    passes = [p for p in passes if p.__name__ != "fuse"]
    known, unknown = (run(graph, passes)[0] for graph in (pair.known, pair.unknown))
    residuals = known.outputs[len(known.outputs) - pair.residuals :]
    made = [v for v in residuals if len(v.shape) == 6 and known.node(v.node).primitive.name == "transpose"]
    transposes = [unknown.args(number)[0] for number, node in unknown.nodes() if node.primitive.name == "transpose"]
    return made + [v for v in transposes if v in unknown.inputs and len(v.shape) == 6]


def values(pair, count):
    """The results of both programs for some examples, by NumPy."""
    rng = np.random.default_rng(3)
    sizes = {"n": count}

    def arrays(inputs):
        return [rng.standard_normal([n.evaluate(sizes) for n in v.shape]).astype(np.float32) for v in inputs]

    known = interpret(pair.known, *arrays(pair.known.inputs), sizes=sizes)
    own, residuals = known[: len(known) - pair.residuals], known[len(known) - pair.residuals :]
    return [*own, *interpret(pair.unknown, *residuals, *arrays(pair.unknown.inputs[len(residuals) :]), sizes=sizes)]


@pytest.mark.parametrize(("channels", "groups", "last", "blocks"), [
    (32, 1, False, {32}), (32, 2, False, {16}), (24, 1, False, {24}), (36, 2, False, {18}),
    (32, 1, True, {32}), (24, 2, True, {12}),
])  # fmt: skip
def test_no_array_is_transposed_for_the_other_program(channels, groups, last, blocks):
    before = halves(channels, groups)
    pair = block_residuals(before, last)
    assert transposed_at_boundary(pair, passes_for(Target("a target", None, channels_last=last))) == []
    images = [
        v.shape for v in pair.residual_values if len(v.shape) > 3 and v.shape[0] == symbol("n") and v.shape[1] != READ
    ]
    assert len(images) >= 5, "norm, masks and what convolutions read"
    assert {len(shape) for shape in images} == {6} and {shape[-1].static for shape in images} == blocks


@pytest.mark.parametrize("groups", [1, 2, 32])
def test_results_are_the_same(groups):
    """For any number of examples, and where each channel is convolved by itself."""
    before = halves(32, groups)
    pair = block_residuals(before)
    verify(pair.known)
    verify(pair.unknown)
    for count in (1, 3):
        for found, expected in zip(values(pair, count), values(before, count), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_what_no_convolution_reads_stays():
    """The input of a linear layer is flat for the backward pass, too."""

    def function(x, first, second, scale, shift, *, groups):
        y = nn.relu(nn.conv(x, first))
        return znp.reshape(y, (-1, 16 * 9)) @ znp.reshape(first, (16 * 9, READ))

    pair = halves(16, 1, function)
    saved = [str(v.type) for v in block_residuals(pair).residual_values if v.shape[0] == symbol("n")]
    assert "bool[n, 1, 1, 3, 3, 16]" in saved and "f32[n, 16, 3, 3]" in saved, saved


@pytest.mark.parametrize("channels", [37, 1])
def test_channels_without_blocks_stay(channels):
    pair = halves(channels, 1)
    assert block_residuals(pair) is pair


def test_arguments_and_results_stay():
    def function(x, first, second, scale, shift, *, groups):
        return nn.conv(nn.conv(x, first), second)

    pair = halves(32, 1, function)
    assert [len(v.shape) for v in block_residuals(pair).residual_values if v in block_residuals(pair).known.inputs] == [
        4,
        4,
        4,
    ]
    known = pair.known
    residual = next(v for v in pair.residual_values if v not in known.inputs)
    known.set_outputs([residual, *known.outputs[1:]])  # the user's, too
    assert block_residuals(pair) is pair
