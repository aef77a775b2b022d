"""Convolutions of a GPU are written out on whole groups of channels, examples that are channels on their own."""

import pytest

from tests.passes.compare import expect, program
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.target import cuda_target
from zenith.ir.dims import dim
from zenith.ir.ops.blocked_convolution import blocks_of_result
from zenith.passes.channels_last import channels_last
from zenith.passes.expand import expand, expand_tiles
from zenith.passes.fuse import fuse_without_bytes
from zenith.passes.pipeline import PIPELINE, passes_for
from zenith.passes.scaled_products import all_scaled_products

PARAMETERS = "strides=(1,), dilation=(1,), groups=1"


def test_all_channels_are_contiguous():
    expect(
        channels_last, "x: f32[n, 48, 9], w: f32[32, 48, 3]",
        f"v1 = conv(x, w, {PARAMETERS})\nreturn (v1,)",
        """
        v1 = reshape(w, shape=(1, 32, 1, 48, 3))
        v2 = transpose(v1, axes=(0, 1, 2, 4, 3))
        v7 = reshape(v2, shape=(1, 32, 144))
        v3 = transpose(v7, axes=(0, 2, 1))
        v4 = reshape(x, shape=(n, 1, 1, 48, 9))
        v5 = transpose(v4, axes=(0, 1, 2, 4, 3))
        v6 = conv_blocks(v5, v3, window=(3,), strides=(1,), dilation=(1,), block=32)
        v8 = transpose(v6, axes=(0, 1, 2, 4, 3))
        v9 = reshape(v8, shape=(n, 32, 7))
        return (v9,)
        """,
    )  # fmt: skip


def test_examples_of_a_gradient_by_weights_stay_outermost():
    expect(
        channels_last, "x: f32[n, 48, 9], ct: f32[n, 32, 7]",
        "v1 = conv_weights(x, ct, window=(3,), strides=(1,), dilation=(1,), groups=1, channels=48)\nreturn (v1,)",
        """
        v2 = reshape(x, shape=(n, 1, 48, 9))
        v3 = transpose(v2, axes=(2, 1, 0, 3))
        v4 = reshape(v3, shape=(48, n, 9))
        v5 = transpose(ct, axes=(1, 0, 2))
        v6 = reshape(v5, shape=(1, 32, n, 1, 7))
        v7 = transpose(v6, axes=(0, 2, 4, 3, 1))
        v8 = reshape(v7, shape=(1, 7*n, 32))
        v9 = reshape(v4, shape=(48, 1, n, 1, 9))
        v10 = transpose(v9, axes=(0, 1, 2, 4, 3))
        v11 = conv_blocks(v10, v8, window=(7,), strides=(1,), dilation=(1,), block=32)
        v12 = transpose(v11, axes=(0, 1, 2, 4, 3))
        v13 = reshape(v12, shape=(48, 32, 3))
        v14 = slice(v13, start=(0, 0, 0), stop=(48, 32, 3), step=(1, 1, 1))
        v15 = transpose(v14, axes=(1, 0, 2))
        return (v15,)
        """,
    )  # fmt: skip


def test_who_wants_it():
    assert passes_for(cpu_target()) == PIPELINE
    assert [p for p in passes_for(cuda_target()) if p not in PIPELINE] == [
        all_scaled_products, channels_last, expand_tiles, fuse_without_bytes,
    ]  # fmt: skip


@pytest.mark.parametrize("written_out", [expand, channels_last])
@pytest.mark.parametrize(("inputs", "outputs", "window", "groups"), [
    (3, 32, "3, 3", 1), (48, 48, "3, 3", 2), (40, 34, "1, 1", 2), (5, 17, "3, 3", 1),
    (32, 32, "3, 3", 32), (24, 24, "9, 9", 24),
])  # fmt: skip
def test_the_layout_of_a_result_is_known_before(written_out, inputs, outputs, window, groups):
    """Also where each channel is convolved by itself, in a small window and in one that is not written out."""
    sizes = f"strides=(1, 1), dilation=(1, 1), groups={groups}"
    signature = f"x: f32[n, {inputs}, 20, 20], w: f32[{outputs}, {inputs // groups}, {window}]"
    graph = written_out(program(signature, f"v1 = conv(x, w, {sizes})\nreturn (v1,)"))
    (transposed,) = graph.args(graph.outputs[0].node)
    (made,) = graph.args(transposed.node)
    window = [dim(int(k)) for k in window.split(",")]
    known = blocks_of_result(dim(inputs), dim(outputs), window, dim(groups), written_out is channels_last)
    assert (made.shape[1], made.shape[-1]) == known
