"""What quantisation did: for each product and embedding its error and its memory, and what stayed as it was and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from zenith.api.tables import Shown, table
from zenith.errors import ArgumentError, user_line
from zenith.quantization.products import Kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure
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
    loses: the relative error of its result if it alone were in bytes, on sampled rows; None without a tolerance.
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
    loses: float | None = None


@dataclass(frozen=True, slots=True)
class QuantizedEmbedding:
    """A table in bytes, of which rows are gathered.

    Attributes
    ----------
    name: that of its parameter, or where the user wrote it.
    rows, columns: its sizes.
    mse, relative: as of a product's matrix.
    before, after: its bytes; ``before`` is 0 where the table is the matrix of a product, too, and counted there.
    precision: "int8".
    """

    name: str
    rows: int
    columns: int
    mse: float
    relative: float
    before: int
    after: int
    precision: str = "int8"


@dataclass(frozen=True, repr=False)
class QuantizationReport(Shown):
    """All products and embeddings of a quantised function; ``str`` and notebooks show a table, ``json`` is plain data.

    ``accuracy`` is the error at the outputs on batches that were held out, where a tolerance was asked for;
    ``float64_sums`` says that this one needed sums in float64.
    """

    products: tuple[QuantizedProduct, ...]
    kept: tuple[Kept, ...]
    batches: int
    accuracy: AccuracyReport | None = None
    float64_sums: bool = False
    embeddings: tuple[QuantizedEmbedding, ...] = ()

    @property
    def before(self) -> int:
        """The bytes of the quantised matrices and tables as they were."""
        return sum(p.before for p in self.products) + sum(e.before for e in self.embeddings)

    @property
    def after(self) -> int:
        """The bytes of the quantised matrices and tables, with scales, zeros and sums."""
        return sum(p.after for p in self.products) + sum(e.after for e in self.embeddings)

    @property
    def mse(self) -> float:
        """The mean squared error over all quantised elements."""
        sizes = [(p.mse, p.terms * p.columns) for p in self.products]
        sizes += [(e.mse, e.rows * e.columns) for e in self.embeddings]
        return sum(mse * size for mse, size in sizes) / max(1, sum(size for _, size in sizes))

    def json(self) -> dict[str, object]:
        """The report as dicts, lists, numbers and text."""
        return {**asdict(self), "before": self.before, "after": self.after, "mse": self.mse}

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        rows = [
            (p.name, p.precision, f"{p.terms} x {p.columns}", _interval(p.range), _interval(p.seen),
             f"{p.relative:.2%}", f"{p.after:,}", *([] if p.loses is None else [f"{p.loses:.2%}"]))
            for p in self.products
        ]  # fmt: skip
        rows += [
            (e.name, e.precision, f"{e.rows} rows of {e.columns}", "", "", f"{e.relative:.2%}", f"{e.after:,}")
            for e in self.embeddings
        ]
        columns = ["product", "in", "matrix", "range", "seen", "relative error", "bytes"]
        columns += ["loses in bytes"] if any(len(row) > len(columns) for row in rows) else []
        rows = [(*row, *[""] * (len(columns) - len(row))) for row in rows]
        share = self.after / max(1, self.before)
        total = f"{self.after:,} bytes, {share:.3f} of before; mean squared error {self.mse:.2e}"
        shown = [table("products of fewer bits", columns, rows), total] if rows else ["no product has fewer bits"]
        kept = [f"{k.name} stays as it was: {k.why}{_loss(k.loses)}" for k in self.kept]
        sums = ["sums of float32 are added in float64"] if self.float64_sums else []
        return Group(*shown, *kept, *sums, *([self.accuracy] if self.accuracy else []))

    def plot(self) -> Figure:
        """A matplotlib Figure: what each product loses in bytes, and its precision; for a report with a tolerance."""
        from matplotlib.figure import Figure

        of_kept = [(k.name, "as it was", k.loses) for k in self.kept]
        lines = [*((p.name, p.precision, p.loses) for p in self.products), *of_kept]
        known = [(name, precision, 100 * loses) for name, precision, loses in lines if loses is not None]
        if not known:
            raise ArgumentError("the report has no errors of single products", where=user_line(),
                                fix="quantise within a tolerance: tolerance=1e-2")  # fmt: skip
        figure = Figure(figsize=(8, 0.8 + 0.3 * len(known)), layout="constrained")
        axes = figure.add_subplot()
        for precision in sorted({precision for _, precision, _ in known}):
            of_it = [(place, loses) for place, (_, other, loses) in enumerate(known) if other == precision]
            axes.barh([place for place, _ in of_it], [loses for _, loses in of_it], label=precision)
        axes.set_yticks(range(len(known)), [name for name, _, _ in known])
        axes.invert_yaxis()
        axes.set_xlabel("error of the result in bytes, %")
        axes.legend()
        return figure


def _loss(loses: float | None) -> str:
    return "" if loses is None else f"; it would lose {loses:.2%} in bytes"


def _interval(of: tuple[float, float] | None) -> str:
    return "" if of is None else f"{of[0]:.4g} .. {of[1]:.4g}"
