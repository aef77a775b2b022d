"""Engines that call CUDA's libraries, and when they are worth it.

A call of a library takes longer on the host than a launch, and a replay as a CUDA graph copies its arguments and
results, since the library alone knows the parameters of its kernels. Where it lacks what stands behind a product, that
takes a kernel more, which reads and writes the product once more. Against this stands the time by which the library is
faster. All is counted in operations, so that it is a formula of the sizes: below :data:`CALL` seconds of gain kernels
run. Rates are about those of large GPUs, and estimates; a few times more or less moves the limit by as much.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from zenith.backends.cuda import cublaslt, cudnn, dnn_attention, lt_product
from zenith.backends.engines import Calls, Engine, Refusal
from zenith.backends.lower import library_attention
from zenith.backends.lower.epilogue import find_epilogue
from zenith.backends.lower.library_attention import Attention
from zenith.backends.lower.library_product import PRODUCT, Product, buffers_of, describe, kernel_behind
from zenith.config import config
from zenith.ir.dims import Dim, product
from zenith.ir.graph import Graph
from zenith.ir.target import Target
from zenith.ir.types import DType

CALL = 8e-6  # seconds: what a call through Python's bindings, or the copies of a replay, take more than a launch
LAUNCH = 3e-6  # seconds from the end of a kernel to the work of the next one
BANDWIDTH = 2.5e12  # bytes a second


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations a second, of Zenith's kernels and of the library."""

    own: float
    library: float

    @property
    def saved(self) -> float:
        """Seconds that an operation is faster."""
        return 1 / self.own - 1 / self.library


RATES = {  # by the type of the factors, and whether kernels run on tensor cores
    ("f32", False): Rates(20e12, 45e12),
    ("f32", True): Rates(120e12, 300e12),
    ("f16", False): Rates(20e12, 600e12),
    ("f16", True): Rates(250e12, 600e12),
    ("bf16", False): Rates(20e12, 600e12),
    ("bf16", True): Rates(250e12, 600e12),
    ("f64", False): Rates(8e12, 40e12),
}
COST = 0.25  # where it is worth it, a library is faster than kernels on tensor cores
ATTENTION = {False: Rates(20e12, 450e12), True: Rates(150e12, 450e12)}
RESULTS = {"f32": ("f32",), "f64": ("f64",), "f16": ("f16", "f32"), "bf16": ("bf16", "f32")}


LIBRARIES = (cublaslt.NAME, cudnn.NAME)


def _absent(target: Target, library: Any) -> str:
    """Why a library is not called for a target, or cannot be called here."""
    return str(library.problem()) if library.NAME in target.libraries else f"{target.name} calls no {library.NAME}"


def _offer(calls: Calls, target: Target, library: Any, engine: str) -> float | Refusal:
    """The cost of calls that are worth it for some sizes. The library is looked for last: that may take a second."""
    known = calls.gain.static
    if known is not None and known < calls.least and engine not in config.engines:
        return Refusal(f"it gains {known:.1e} operations, a call costs as much as {calls.least:.1e}")
    why = _absent(target, library)
    return Refusal(why) if why else COST


def _accepts_product(body: Graph, target: Target) -> float | Refusal:
    if cublaslt.NAME not in target.libraries:
        return Refusal(_absent(target, cublaslt))
    found = _product(body, target)
    return (
        Refusal(found) if isinstance(found, str) else _offer(_calls(body, target, found), target, cublaslt, "cublaslt")
    )


def _lower_product(body: Graph, target: Target, fixed: Collection[str]) -> Calls:
    found = _product(body, target)
    assert not isinstance(found, str), "an engine lowers what it accepted"
    return _calls(body, target, found)


def _product(body: Graph, target: Target) -> Product | str:
    """A group's product as the library computes it, with its epilogue where it has it; else why not."""
    plain = describe(body, None)
    operands = plain.left.dtype
    if operands != plain.right.dtype or operands.name not in RESULTS:
        return f"it multiplies no matrices of {operands} and {plain.right.dtype}"
    if not (plain.left.has_neighbours and plain.right.has_neighbours):
        return "an operand has neighbours neither in rows nor in columns"
    epilogue = find_epilogue(body)
    if not isinstance(epilogue, str):
        found = describe(body, epilogue)
        if _fits(found):
            return found
    if len({v.shape for v in body.outputs}) > 1:
        return "its results have several shapes"
    return plain


def _fits(found: Product) -> bool:
    """Whether the library has the types and steps of an epilogue."""
    result, of = found.result, found.epilogue
    read = [operand for operand in (of.addend, of.bias, of.saved) if operand is not None]
    alike = all(operand.dtype == result.dtype and operand.steps[-1] == 1 for operand in read)
    return result.dtype.name in RESULTS[found.left.dtype.name] and alike and result.steps[-1] == 1


def _calls(body: Graph, target: Target, found: Product) -> Calls:
    operands = found.left.dtype
    rates = RATES[operands.name, _has_cores(target, operands)]
    call = lt_product.use(body, found, buffers_of(body, found), target.tf32)
    if found.result.buffer != PRODUCT:
        return Calls((call,), found.operations, round(CALL / rates.saved))
    behind = kernel_behind(body)
    moved = 2 * product(found.shape) * found.result.dtype.itemsize  # the product, written and read once more
    gain: Dim = found.operations - moved * round(1 / BANDWIDTH / rates.saved)
    return Calls((call, behind), gain, round((CALL + LAUNCH) / rates.saved))


def _accepts_attention(body: Graph, target: Target) -> float | Refusal:
    if cudnn.NAME not in target.libraries:
        return Refusal(_absent(target, cudnn))
    found = _attention(body)
    if isinstance(found, str):
        return Refusal(found)
    return _offer(_attention_calls(body, target, found), target, cudnn, "cudnn")


def _lower_attention(body: Graph, target: Target, fixed: Collection[str]) -> Calls:
    found = _attention(body)
    assert not isinstance(found, str), "an engine lowers what it accepted"
    return _attention_calls(body, target, found)


def _attention(body: Graph) -> Attention | str:
    found = library_attention.describe(body)
    if isinstance(found, str) or all(
        n.static is None or dnn_attention.fits(n.static) for n in (found.size, found.columns)
    ):
        return found
    return f"sizes of queries and values are no multiples of {dnn_attention.STEP} up to {dnn_attention.LARGEST}"


def _attention_calls(body: Graph, target: Target, found: Attention) -> Calls:
    call = dnn_attention.use(found, library_attention.buffers_of(body, found))
    rates = ATTENTION[_has_cores(target, found.matrices["q"].dtype)]
    return Calls((call,), found.operations, round(CALL / rates.saved))


def _has_cores(target: Target, factors: DType) -> bool:
    """Whether kernels multiply factors of a type on tensor cores."""
    return any(tile.instruction.element == factors for tile in target.matrix_tiles)


LIBRARY_ENGINES: tuple[Engine, ...] = (
    Engine("cublaslt", ("product",), "matrix products by NVIDIA's cuBLASLt, with bias, relu, gelu and sums behind", 0,
           _accepts_product, _lower_product, cublaslt.NAME),
    Engine("cudnn", ("attention",), "attention of 16-bit floats without a mask by NVIDIA's cuDNN", 0,
           _accepts_attention, _lower_attention, cudnn.NAME),
)  # fmt: skip
