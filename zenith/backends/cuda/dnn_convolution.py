"""Convolutions by cuDNN: a group's convolution as a graph of the library's, for one set of sizes.

The graph is the convolution with its epilogue: additions and relu. Plans of the library are excluded if they round
operands where the program does not allow it, transform tiles so large that sums lose digits, add in another order each
time, or need more workspace than is planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zenith.backends.cuda.cudnn import ALIGNED, DOOR, NAME, Built, TensorDescriptor, planned
from zenith.backends.cuda.driver import driver
from zenith.backends.kernel import Buffer
from zenith.backends.lower.convolution.library import Image, LibraryConvolution
from zenith.backends.routines import Ready, Routine, RoutineUse
from zenith.ir.dims import dim

NAMES = ("image", "weights", "bias", "addend", "result")
WORKSPACE = 1 << 25  # bytes
ROUNDING = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS")  # notes of plans that float32 must not use, unless TF32 is allowed
INEXACT = ("FFT", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13")


@dataclass(frozen=True, slots=True)
class ConvolutionProblem:
    """A convolution of given sizes; ``without`` are the notes of plans that are excluded."""

    tensors: tuple[tuple[str, TensorDescriptor], ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    relu: bool
    without: tuple[str, ...]


class Fprop(Built):
    """The graph of a convolution."""

    def __init__(self, found: ConvolutionProblem, device: int) -> None:
        tensors = dict(found.tensors)
        super().__init__("convolution", NAMES, tensors["image"].dtype, device)
        given = {name: self.tensor(name, tensor) for name, tensor in tensors.items() if name != "result"}
        made = self.graph.conv_fprop(
            image=given["image"], weight=given["weights"], padding=[0, 0], stride=list(found.strides),
            dilation=list(found.dilation), name="convolution",
        )  # fmt: skip
        for name in ("addend", "bias"):
            if name in given:
                made = self.graph.add(a=made, b=given[name], name=name)
        if found.relu:
            made = self.graph.relu(input=made, name="relu")
        self.output("result", made, tensors["result"])
        self.build(partial(_deselect, found))


def _deselect(found: ConvolutionProblem, graph: Any) -> None:
    notes = DOOR.binding.numerical_note
    graph.deselect_numeric_notes([getattr(notes, name) for name in found.without])
    graph.deselect_workspace_greater_than(WORKSPACE)


def use(found: LibraryConvolution, buffers: Sequence[Buffer], rounds: bool, repeatable: bool) -> RoutineUse:
    """The library's call for the convolution of a group; ``rounds`` allows TF32, ``repeatable`` asks for equal bits."""
    images = dict(found.images)
    element = images["image"].dtype
    epilogue = ", ".join([name for name in ("addend", "bias") if name in images] + ["relu"] * found.relu)
    exact = () if rounds or element.is_narrow else ROUNDING
    without = (*exact, *INEXACT, *(("NONDETERMINISTIC",) if repeatable else ()))
    ready = partial(ready_convolution, found, [b.name for b in buffers], without)
    routine = Routine(NAME, "conv_fprop", ", ".join(filter(None, (element.name, epilogue))), ready=ready)
    return RoutineUse(routine, tuple(buffers), found.operations, dim(WORKSPACE))


def ready_convolution(
    found: LibraryConvolution, names: Sequence[str], without: tuple[str, ...], sizes: Mapping[str, int],
    alignments: Sequence[int],
) -> Ready | str:  # fmt: skip
    """A function that calls the library for a convolution of these sizes; why it does not take them, as text."""
    tensors = tuple((name, _tensor(image, sizes)) for name, image in found.images)
    if any(0 in tensor.sizes for _, tensor in tensors):
        return "it has no elements"
    starts = {
        name: (names.index(image.buffer), image.at.evaluate(sizes) * image.dtype.itemsize)
        for name, image in found.images
    }
    if any(alignments[index] % ALIGNED or offset % ALIGNED for index, offset in starts.values()):
        return f"addresses are no multiples of {ALIGNED} bytes"
    problem = ConvolutionProblem(tensors, found.strides, found.dilation, found.relu, without)
    made = planned(problem, driver().device(), Fprop)
    if isinstance(made, str):
        return made
    if made.workspace > WORKSPACE:
        return f"it needs {made.workspace} bytes to work in, more than are planned"
    return partial(_call, made, starts)


def _call(made: Any, starts: Mapping[str, tuple[int, int]], addresses: Sequence[int], stream: int) -> None:
    made({name: addresses[index] + offset for name, (index, offset) in starts.items()}, addresses[-1], stream)


def _tensor(image: Image, sizes: Mapping[str, int]) -> TensorDescriptor:
    n, c, h, w = (size.evaluate(sizes) for size in image.sizes)
    steps = tuple(step.evaluate(sizes) for step in image.steps)
    return TensorDescriptor(image.dtype, (n, c, h, w), (steps[0], steps[1], steps[2], steps[3]))
