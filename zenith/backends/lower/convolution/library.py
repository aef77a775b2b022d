"""Convolutions for libraries: buffers and strides of array, weights and result, channels last, and the epilogue."""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.kernel import Buffer
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import Strided, element_type
from zenith.backends.lower.product.epilogue import Epilogue, EpilogueOperand
from zenith.backends.lower.product.library import PRODUCT, Matrices, result_matrices, row_major_steps
from zenith.backends.lower.product.library_cut import EpilogueCut
from zenith.ir.dims import Dim, dim, product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import DType

AXES = 2  # spatial axes that libraries convolve over
EXAMPLE, CHANNEL, SPATIAL = 0, -1, slice(3, 5)  # the axes of arrays on blocks, where all channels are one block


@dataclass(frozen=True, slots=True)
class Image:
    """One of the arrays as libraries see it: four axes (examples, channels, rows, columns), at steps of elements."""

    buffer: str
    dtype: DType
    at: Dim
    sizes: tuple[Dim, ...]
    steps: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class LibraryConvolution:
    """``result = relu(convolution + addend + bias)``, where addend and bias are optional; ``images`` go by these names.

    They are image, weights and result, and maybe addend and bias.
    """

    images: tuple[tuple[str, Image], ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    relu: bool
    operations: Dim


def describe(body: Graph, found: EpilogueCut | None) -> LibraryConvolution | str:
    """The convolution of a body, or why no library computes it; without a cut it is written to :data:`PRODUCT`."""
    face, tile = KernelInterface.of(body), tile_result(body)
    params, (x, w) = body.node(tile.node).params, body.args(tile.node)
    refused = _refused(body, x, tile)
    if refused:
        return refused
    image, weights = Strided.of(face, x), Strided.of(face, w)
    if image.steps[CHANNEL] != 1 or weights.steps[1] != 1:
        return "neighbours in memory are no channels of the array, or of the weights"
    (rows, columns), channels, outputs = params["window"], x.shape[CHANNEL], tile.shape[CHANNEL]
    kernel = (weights.steps[2], dim(1), columns * channels, channels)
    given = {
        "image": Image(image.buffer, element_type(face, x), image.at, _four(x.shape), _four(image.steps)),
        "weights": Image(weights.buffer, element_type(face, w), weights.at, (outputs, channels, rows, columns), kernel),
    }
    whole, epilogue = _written(body, tile, found), Epilogue() if found is None else found.epilogue
    if isinstance(whole, str):
        return whole
    given["result"] = Image(whole.buffer, whole.dtype, whole.at, _four(tile.shape), _four(whole.steps))
    for name, operand in (("addend", epilogue.addend), ("bias", epilogue.bias)):
        if operand is not None:
            given[name] = _epilogue_operand(operand, tile)
    sums = 2 * w.shape[1] * product(tile.shape)
    return LibraryConvolution(
        tuple(given.items()), params["strides"], params["dilation"], epilogue.function == "relu", sums
    )


def _refused(body: Graph, x: Value, tile: Value) -> str:
    """Why libraries do not compute a convolution; empty when they do."""
    if len(body.node(tile.node).params["window"]) != AXES:
        return f"it has other than {AXES} spatial axes"
    if x.shape[1] != 1:
        return "it has groups"
    if x.shape[2] != 1 or tile.shape[2] != 1:
        return "its channels are blocks: they are examples in a gradient by weights, or their number is not known"
    return ""


def _written(body: Graph, tile: Value, found: EpilogueCut | None) -> Matrices | str:
    if found is None:
        return Matrices(PRODUCT, tile.dtype, dim(0), row_major_steps(tile.shape))
    if found.epilogue.scale != 1 or found.epilogue.share not in (0, 1) or found.epilogue.function not in ("", "relu"):
        return f"it has no epilogue for {found.epilogue}"
    if found.epilogue.has_auxiliary or found.rest:
        return "several results are wanted"
    (number,) = found.written
    made = result_matrices(body, tile, f"out{number}", body.outputs[number])
    return made if made.steps[CHANNEL] == 1 else "neighbours in its result are no channels"


def _epilogue_operand(operand: EpilogueOperand, tile: Value) -> Image:
    """An operand of the epilogue: as large as the result, or one number for each channel."""
    sizes = tuple(dim(1) if s == 0 else n for n, s in zip(_four(tile.shape), _four(operand.steps), strict=True))
    channels = tile.shape[CHANNEL]
    steps = (channels, dim(1), channels, channels) if operand.is_row else _four(operand.steps)
    return Image(operand.buffer, operand.dtype, operand.at, sizes, steps)


def _four(along: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Of the six axes of an array on one block the four of libraries: examples, channels, rows, columns."""
    return along[EXAMPLE], along[CHANNEL], *along[SPATIAL]


def buffers_of(body: Graph, found: LibraryConvolution) -> tuple[Buffer, ...]:
    """The buffers that the library's call reads and writes."""
    used = {image.buffer: image for _, image in found.images}
    own = tuple(b for b in KernelInterface.of(body).buffers if b.name in used)
    if PRODUCT not in used:
        return own
    return *own, Buffer(PRODUCT, used[PRODUCT].dtype, product(used[PRODUCT].sizes), "temporary")
