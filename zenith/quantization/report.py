"""What quantisation did: for each product its range, its error and its memory, and what stayed as it was and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from zenith.api.tables import Shown, table
from zenith.quantization.products import Kept

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zenith.accuracy import AccuracyReport


@dataclass(frozen=True, slots=True)
class QuantizedProduct:
    """A product of fewer bits.

    Attributes
    ----------
    name: where the user wrote it.
    terms, columns: the sizes of its matrix.
    range: the numbers that the levels of the other operand cover; None where each row has its own, or it has none.
    seen: the least and the largest number in the calibration; None likewise.
    mse: the mean squared error of the matrix.
    relative: the root of that by the root mean square of the matrix.
    before, after: the bytes of the matrix.
    precision: "int8", or "bf16" where a tolerance leaves no bytes; of weights alone, the bits of their levels.
    """

    name: str
    terms: int
    columns: int
    range: tuple[float, float] | None
    seen: tuple[float, float] | None
    mse: float
    relative: float
    before: int
    after: int
    precision: str = "int8"


@dataclass(frozen=True, repr=False)
class QuantizationReport(Shown):
    """All products of a quantised function; ``str`` and notebooks show a table, ``json`` is plain data.

    ``accuracy`` is the error at the outputs on batches that were held out, where a tolerance was asked for.
    """

    products: tuple[QuantizedProduct, ...]
    kept: tuple[Kept, ...]
    batches: int
    accuracy: AccuracyReport | None = None

    @property
    def before(self) -> int:
        """The bytes of the quantised matrices as they were."""
        return sum(product.before for product in self.products)

    @property
    def after(self) -> int:
        """The bytes of the quantised matrices, with scales and sums."""
        return sum(product.after for product in self.products)

    @property
    def mse(self) -> float:
        """The mean squared error over all quantised elements."""
        elements = sum(p.terms * p.columns for p in self.products)
        return sum(p.mse * p.terms * p.columns for p in self.products) / elements

    def json(self) -> dict[str, object]:
        """The report as dicts, lists, numbers and text."""
        return {**asdict(self), "before": self.before, "after": self.after, "mse": self.mse}

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        rows = [
            (p.name, p.precision, f"{p.terms} x {p.columns}", _interval(p.range), _interval(p.seen),
             f"{p.relative:.2%}", f"{p.after:,}")
            for p in self.products
        ]  # fmt: skip
        columns = ("product", "in", "matrix", "range", "seen", "relative error", "bytes")
        total = f"{self.after:,} bytes, {self.after / self.before:.3f} of before; mean squared error {self.mse:.2e}"
        kept = [f"{k.name} stays as it was: {k.why}" for k in self.kept]
        accuracy = [self.accuracy] if self.accuracy else []
        return Group(table("products of fewer bits", columns, rows), total, *kept, *accuracy)


def _interval(of: tuple[float, float] | None) -> str:
    return "" if of is None else f"{of[0]:.4g} .. {of[1]:.4g}"
