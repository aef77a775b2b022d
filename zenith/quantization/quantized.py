"""What quantisation gives: a compiled function whose products by fixed matrices are computed in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ParamSpec, TypeVar

from zenith.api.compilable import Compilable
from zenith.api.jit import Jitted
from zenith.api.pickling import Reduced, goes_by_name_to_workers, reduced
from zenith.backends.cpu.heap import trim
from zenith.errors import UnsupportedError, ZenithError, user_line
from zenith.passes.pipeline import Pass
from zenith.quantization.modules import ModuleFunction
from zenith.quantization.quantizer import Quantizer
from zenith.quantization.report import QuantizationReport

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Quantized(Jitted[P, R]):
    """What :func:`quantize` returns: a compiled function, with a ``report``."""

    FRONT = "jit"
    __slots__ = ("_released", "_releases", "report")

    def __init__(self, *options: Any, report: QuantizationReport, releases: bool = False) -> None:
        super().__init__(*options)
        self.report, self._releases, self._released = report, releases, False

    def _call_any(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        result = super()._call_any(args, kwargs)
        if self._releases and self._specializer.compilations:  # not for a call that became part of another program
            self.release()
        return result

    def release(self) -> None:
        """Keep of the weights what programs have packed: other programs, folders and files would need them."""
        self._releases, self._released = False, True
        self._quantizer.table.release()
        if isinstance(self.function, ModuleFunction):
            self.function.release()
        trim()

    @classmethod
    def of(
        cls, plain: Jitted[P, R], quantizer: Quantizer, report: QuantizationReport, releases: bool,
        then: Sequence[Pass] = (),
    ) -> Quantized[P, R]:  # fmt: skip
        """A function with the quantizer's products, on which other passes may follow."""
        return cls(*plain.made_with((*plain._passes, quantizer, *then)), report=report, releases=releases)

    @property
    def reference(self) -> Compilable[P, R]:
        """The function that was quantised, compiled as it is."""
        return Jitted(*self.made_with(self._passes[: self._passes.index(self._quantizer)]))

    @property
    def _quantizer(self) -> Quantizer:
        (found,) = (step for step in self._passes if isinstance(step, Quantizer))
        return found

    def __repr__(self) -> str:
        return f"<zenith.quantize of {self.__name__}>"

    def __reduce__(self) -> Reduced:
        if self._released:
            raise ZenithError(f"{self.__name__} cannot be copied or pickled: its weights are released",
                              fix="save() it and load the file there, or keep them: release_weights=False")  # fmt: skip
        return reduced(self, _quantized, (self.made_with(self._passes), self.report, self._releases))


def _quantized(options: Sequence[Any], report: QuantizationReport, releases: bool) -> Quantized[..., Any]:
    return Quantized(*options, report=report, releases=releases)


goes_by_name_to_workers(Quantized)


def nothing_to_quantise(plain: Jitted[..., Any], report: QuantizationReport) -> UnsupportedError:
    """The error for a function without a product that could have fewer bits; ``report`` says why of those it has."""
    listed = "".join(f"\n  {kept.name}: {kept.why}" for kept in report.kept)
    return UnsupportedError(f"{plain.__name__} has no product by a fixed matrix to quantise{listed}", where=user_line(),
                            fix="capture the weights in the function, not among its arguments")  # fmt: skip
