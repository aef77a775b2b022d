"""Engines that call CUDA's libraries, and when they are worth it.

A call of a library takes longer on the host than a launch, and where it lacks what stands behind a product, that takes
a kernel more, which reads and writes the product once more. Against this stands the time that the library is faster
than Zenith's kernels. All is counted in operations, so that it is a formula of the sizes: below :data:`CALL` seconds of
gain kernels run. Rates are about those of large GPUs; a few times more or less moves the limit by as much.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from zenith.backends.cuda import cublaslt, lt_product
from zenith.backends.engines import Calls, Engine, Refusal
from zenith.backends.lower.epilogue import find_epilogue
from zenith.backends.lower.library_product import PRODUCT, Product, buffers_of, describe, kernel_behind
from zenith.config import config
from zenith.ir.dims import Dim, product
from zenith.ir.graph import Graph
from zenith.ir.target import Target

CALL = 4e-6  # seconds: what a call through Python's bindings takes more than a launch
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


RATES = {
    ("f32", False): Rates(20e12, 45e12),
    ("f32", True): Rates(20e12, 300e12),
    ("f16", False): Rates(20e12, 600e12),
    ("bf16", False): Rates(20e12, 600e12),
    ("f64", False): Rates(8e12, 40e12),
}
RESULTS = {"f32": ("f32",), "f64": ("f64",), "f16": ("f16", "f32"), "bf16": ("bf16", "f32")}


def libraries() -> dict[str, str]:
    """Why each library cannot be called here; empty texts for those that can."""
    return {cublaslt.NAME: cublaslt.problem()}


def _accepts_product(body: Graph, target: Target) -> float | Refusal:
    why = _absent(target, cublaslt.NAME)
    if why:
        return Refusal(why)
    found = _product(body, target)
    if isinstance(found, str):
        return Refusal(found)
    calls = _calls(body, target, found)
    known = calls.gain.static
    if known is not None and known < calls.least and _product_engine.name not in config.engines:
        return Refusal(f"it gains {known:.1e} operations, a call costs as much as {calls.least:.1e}")
    return 0.5


def _absent(target: Target, library: str) -> str:
    """Why a library is not called for a target."""
    return target.libraries.get(library, f"{library} is not called for {target.name}")


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
    rates = RATES[operands.name, target.tf32 and operands.name == "f32"]
    call = lt_product.use(body, found, buffers_of(body, found), target.tf32)
    if found.result.buffer != PRODUCT:
        return Calls((call,), found.operations, round(CALL / rates.saved))
    behind = kernel_behind(body)
    moved = 2 * product(found.shape) * found.result.dtype.itemsize  # the product, written and read once more
    gain: Dim = found.operations - moved * round(1 / BANDWIDTH / rates.saved)
    return Calls((call, behind), gain, round((CALL + LAUNCH) / rates.saved))


_product_engine = Engine(
    "cublaslt", ("product",), "matrix products by NVIDIA's cuBLASLt, with bias, relu, gelu and sums behind them", 0,
    _accepts_product, _lower_product, cublaslt.NAME,
)  # fmt: skip
LIBRARY_ENGINES: tuple[Engine, ...] = (_product_engine,)
