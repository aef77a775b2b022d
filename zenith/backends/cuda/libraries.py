"""Engines that call CUDA's libraries, and when they are worth it.

A call of a library takes longer on the host than a launch, and a replay as a CUDA graph copies its arguments and
results, since the library alone knows the parameters of its kernels. An epilogue that it lacks takes one more kernel,
which reads and writes the product once more. These costs are weighed against the time by which the library is faster,
in operations, so that the gain is a formula of the sizes: below :data:`CALL` seconds of gain kernels run. Rates are
estimates for large GPUs; a factor in them moves the limit by the same factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from zenith.backends.cuda import cublaslt, cudnn, cupy_calls, dnn_attention, dnn_convolution, lt_product
from zenith.backends.cuda.library import Door
from zenith.backends.engines import Engine, Refusal, RoutineCalls, RowSums, in_two_steps
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention import library as library_attention
from zenith.backends.lower.attention.library import Attention
from zenith.backends.lower.convolution import library as library_convolution
from zenith.backends.lower.convolution.library import LibraryConvolution
from zenith.backends.lower.product.epilogue import Epilogue
from zenith.backends.lower.product.library import (
    PRODUCT,
    Product,
    buffers_of,
    describe,
    epilogue_kernel,
    remaining_kernel,
    summed_side,
)
from zenith.backends.lower.product.library_cut import cut
from zenith.backends.target import Target
from zenith.config import config
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType, DType, float32

CALL = 8e-6  # seconds that a call through Python's bindings, or the copies of a replay, cost more than a launch
LAUNCH = 3e-6  # seconds from the end of a kernel to the work of the next one
BANDWIDTH = 2.5e12  # bytes a second


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations a second, of Zenith's kernels and of the library."""

    own: float
    library: float

    @property
    def saved(self) -> float:
        """Seconds by which an operation of the library is faster."""
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
CONVOLVED = {"f16", "bf16", "f32"}
LIBRARIES = (cublaslt.NAME, cudnn.NAME, *cupy_calls.DOORS)


@dataclass(frozen=True, slots=True)
class _Group:
    """A group's product for the library, and the kernel of results that the library does not write, with the reason."""

    product: Product
    kernel: Kernel | None
    why: str = ""


def _product_calls(body: Graph, target: Target) -> RoutineCalls | str:
    found = _group(body)
    if isinstance(found, str):
        return found
    whole, kernel, rates = found.product, found.kernel, _rates(found.product, target)
    call = lt_product.use(body, whole, buffers_of(body, whole), target.tf32)
    if kernel is None:
        return RoutineCalls((call,), whole.operations, round(CALL / rates.saved))
    uses = {
        PRODUCT: 2,
        whole.result.buffer: 1,
        whole.auxiliary.buffer if whole.auxiliary else "": 1,
    }  # written, read once more
    moved = sum((uses.get(b.name, 0) * b.size * b.dtype.itemsize for b in kernel.buffers if b.role != "out"), dim(0))
    gain: Dim = whole.operations - moved * round(1 / BANDWIDTH / rates.saved)
    return RoutineCalls((call, kernel), gain, round((CALL + LAUNCH) / rates.saved), found.why)


def _group(body: Graph) -> _Group | str:
    """A group's product for the library, with the epilogue where the library has it; else why not."""
    plain = describe(body, None)
    operands = plain.left.dtype
    if operands != plain.right.dtype or operands.name not in RESULTS:
        return f"it multiplies no matrices of {operands} and {plain.right.dtype}"
    if not (plain.left.has_neighbours and plain.right.has_neighbours):
        return "an operand has neighbours neither in rows nor in columns"
    where = cut(body)
    if not isinstance(where, str):
        found = describe(body, where)
        if _fits(found):
            return _Group(found, remaining_kernel(body, where), where.why)
        where = "its epilogue has other types or steps"
    if len({v.shape for v in body.outputs}) > 1:
        return "its results have several shapes"
    return _Group(plain, epilogue_kernel(body), where)


def _fits(found: Product) -> bool:
    """Whether the library has the types and steps of an epilogue."""
    result, epilogue = found.result, found.epilogue
    read = [operand for operand in (epilogue.addend, epilogue.bias, epilogue.saved) if operand is not None]
    alike = all(operand.dtype == result.dtype and operand.steps[-1] == 1 for operand in read)
    return result.dtype.name in RESULTS[found.left.dtype.name] and alike and result.steps[-1] == 1


def _row_sums(body: Graph, target: Target, name: str, sums: ArrayType) -> RoutineCalls | Refusal:
    """A product with the sums of an operand's rows (a bias gradient), which the library computes as an epilogue."""
    found = _group(body)
    assert not isinstance(found, str), "an engine lowers what it accepted"
    epilogue, result = found.product.epilogue, found.product.result
    if found.kernel is not None or epilogue.function or epilogue.bias is not None:
        return Refusal("the product has another epilogue, and the library has one")
    if sums.dtype != result.dtype:
        return Refusal(f"the sums are {sums.dtype}, and the library gives them in the product's type {result.dtype}")
    side = summed_side(body, name, sums.shape[0])
    assert side is not None, "a pair is a product whose terms are the rows"
    whole, rates = replace(found.product, summed=side), _rates(found.product, target)
    call = lt_product.use(body, whole, buffers_of(body, whole), target.tf32)
    read = whole.terms * sums.shape[0] * whole.left.dtype.itemsize  # once less
    gain: Dim = whole.operations + read * round(1 / BANDWIDTH / rates.saved)
    return RoutineCalls((call,), gain, round(CALL / rates.saved))


def _rates(found: Product, target: Target) -> Rates:
    return RATES[found.left.dtype.name, _has_cores(target, found.left.dtype)]


def _attention_calls(describe: Callable[[Graph], Attention | str], body: Graph, target: Target) -> RoutineCalls | str:
    found = describe(body)
    if isinstance(found, str):
        return found
    if any(n.static is not None and not dnn_attention.fits(n.static) for n in (found.size, found.columns)):
        return f"sizes of queries and values are no multiples of {dnn_attention.STEP} up to {dnn_attention.LARGEST}"
    call = dnn_attention.use(found, library_attention.buffers_of(body, found), not target.atomics)
    rates = ATTENTION[_has_cores(target, found.matrices["q"].dtype)]
    return RoutineCalls((call,), found.operations, round(CALL / rates.saved))


def _convolution_calls(body: Graph, target: Target) -> RoutineCalls | str:
    """A convolution with its epilogue; in float32 also one whose epilogue the library lacks, followed by a kernel."""
    alone = library_convolution.describe(body, None)
    if isinstance(alone, str):
        return alone
    kinds = {image.dtype.name for name, image in alone.images if name != "result"}
    if len(kinds) > 1 or not kinds <= CONVOLVED:
        return f"it convolves no arrays of {' and '.join(sorted(kinds))}"
    (kind,), found = kinds, _convolution_with_epilogue(body, target)
    if not isinstance(found, str):
        return _convolution_call(body, target, found, None, "")
    if kind != "f32":
        return found
    if len({v.shape for v in body.outputs}) > 1:
        return "its results have several shapes"
    return _convolution_call(body, target, alone, epilogue_kernel(body), found)


def _convolution_with_epilogue(body: Graph, target: Target) -> LibraryConvolution | str:
    where = cut(body)
    found = where if isinstance(where, str) else library_convolution.describe(body, where)
    if isinstance(found, str) or isinstance(where, str):
        return str(found)
    kinds = {image.dtype for _, image in found.images}
    if len(kinds) > 1:
        return "its epilogue has other types"
    if kinds == {float32} and not target.tf32 and where.epilogue != Epilogue():
        return "the epilogue is fused on tensor cores alone, which would round float32 to TF32"
    return found


def _convolution_call(
    body: Graph, target: Target, found: LibraryConvolution, kernel: Kernel | None, why: str
) -> RoutineCalls:
    buffers, element = library_convolution.buffers_of(body, found), dict(found.images)["image"].dtype
    call = dnn_convolution.use(found, buffers, target.tf32, not target.atomics)
    rates = RATES[element.name, _has_cores(target, element)]
    if kernel is None:
        return RoutineCalls((call,), found.operations, round(CALL / rates.saved))
    (whole,) = [b for b in buffers if b.name == PRODUCT]
    moved = 2 * whole.size * whole.dtype.itemsize
    gain: Dim = found.operations - moved * round(1 / BANDWIDTH / rates.saved)
    return RoutineCalls((call, kernel), gain, round((CALL + LAUNCH) / rates.saved), why)


def _has_cores(target: Target, factors: DType) -> bool:
    """Whether kernels multiply factors of a type on tensor cores."""
    return any(tile.instruction.element == factors for tile in target.matrix_tiles)


def _engine(
    name: str, kind: str, doc: str, library: Door, calls: Callable[[Graph, Target], RoutineCalls | str],
    row_sums: RowSums | None = None,
) -> Engine:  # fmt: skip
    """An engine whose calls pay for some sizes. It looks for the library last, since that takes long."""

    def offer(body: Graph, target: Target) -> RoutineCalls | Refusal:
        if library.name not in target.libraries:
            return Refusal(f"{target.name} calls no {library.name}")
        found = calls(body, target)
        if isinstance(found, str):
            return Refusal(found)
        known = found.gain.static
        if known is not None and known < found.least and name not in config.engines:
            return Refusal(f"it gains {known:.1e} operations, a call costs as much as {found.least:.1e}")
        why = library.problem()
        return Refusal(why) if why else found

    accepts, lower = in_two_steps(COST, offer, lambda body, target, fixed, found: found)
    return Engine(name, (kind,), doc, 0, accepts, lower, library.name, row_sums)


LIBRARY_ENGINES: tuple[Engine, ...] = (
    _engine("cublaslt", "product", "matrix products by NVIDIA's cuBLASLt, with epilogues: bias, relu, gelu, row sums",
            cublaslt.DOOR, _product_calls, _row_sums),
    _engine("cudnn", "attention", "attention of 16-bit floats without a mask by NVIDIA's cuDNN",
            cudnn.DOOR, partial(_attention_calls, library_attention.describe)),
    _engine("cudnn_vjp", "attention_vjp", "the backward pass of such attention, by cuDNN too",
            cudnn.DOOR, partial(_attention_calls, library_attention.describe_vjp)),
    _engine("cudnn_convolution", "convolution", "convolutions over two axes by cuDNN, with epilogues: sums, bias, relu",
            cudnn.DOOR, _convolution_calls),
)  # fmt: skip
