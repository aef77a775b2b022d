"""``quantize``: a function or module whose products by fixed matrices are computed in bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from zenith.api.jit import Jitted, jit
from zenith.api.pickling import Reduced, goes_by_name_to_workers, reduced
from zenith.errors import ArgumentError, UnsupportedError, ZenithError, user_line
from zenith.quantization.calibration import batches_of, observe
from zenith.quantization.modules import ModuleFunction, of_module
from zenith.quantization.observers import Method
from zenith.quantization.quantizer import Quantizer, choose
from zenith.quantization.recipe import Granularity, Recipe, Scheme
from zenith.quantization.report import QuantizationReport
from zenith.quantization.smoothing import Strength


class Quantized(Jitted):
    """What :func:`quantize` returns: a compiled function, with a ``report``."""

    FRONT = "jit"
    __slots__ = ("_released", "_releases", "report")

    def __init__(self, *options: Any, report: QuantizationReport, releases: bool = False) -> None:
        super().__init__(*options)
        self.report, self._releases, self._released = report, releases, False

    def _call_any(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        result = super()._call_any(args, kwargs)
        if self._releases and self._specializer.compilations:  # not for a call that became part of another program
            self._releases, self._released = False, True
            self._quantizer.table.release()
            if isinstance(self.function, ModuleFunction):
                self.function.release()
        return result

    @property
    def plain(self) -> Jitted:
        """The function that was quantised, compiled as it is."""
        backend, dims, most, numerics, passes, converts = self._options
        return Jitted(self.function, self._signature, backend, dims, most, numerics, passes[:-1], converts)

    @property
    def _quantizer(self) -> Quantizer:
        found = self._passes[-1]
        assert isinstance(found, Quantizer)
        return found

    def __repr__(self) -> str:
        return f"<zenith.quantize of {self.__name__}>"

    def __reduce__(self) -> Reduced:
        if self._released:
            raise ZenithError(f"{self.__name__} cannot be copied or pickled: its weights are released",
                              fix="save() it and load the file there, or keep them: release_weights=False")  # fmt: skip
        options = self.function, self._signature, *self._options
        return reduced(self, _quantized, (options, self.report, self._releases))


def _quantized(options: Sequence[Any], report: QuantizationReport, releases: bool) -> Quantized:
    return Quantized(*options, report=report, releases=releases)


goes_by_name_to_workers(Quantized)


def quantize(
    function: Any,
    calibration: Iterable[object] | None = None,
    *,
    scheme: Scheme = "static",
    method: Method = "minmax",
    percentile: float = 99.99,
    granularity: Granularity = "channel",
    symmetric: bool = False,
    smooth: Strength = "auto",
    exclude: Sequence[str] = (),
    progress: bool = False,
    release_weights: bool = False,
) -> Quantized:
    """Compute the products by fixed matrices in bytes: four times smaller, and as much faster where products take time.

    Parameters
    ----------
    function: a function of arrays whose weights are captured (:func:`zenith.jit` of it as well), a PyTorch module or a
        compiled one, whose weights are taken as they are now.
    calibration: batches, each a tuple or list of arguments, a dict of keywords, or a single argument, which stand for
        what the program will be called with. They are read in order, twice at most, and of activations only ranges,
        histograms and a few rows are kept; an iterator that can be read once is made a list.
    scheme: ``"static"``: the range of each activation is fixed by the calibration. ``"dynamic"``: each row (a token) of
        an activation has a range of its own in every call, which costs a pass over it.
    method: what the range covers: all that was seen (``"minmax"``), all but what lies outside of ``percentile`` percent
        (``"percentile"``), or what loses least by squared error (``"mse"``) or information (``"entropy"``).
    percentile: in percent, for that method.
    granularity: whether each column of a matrix has a scale (``"channel"``), or all have one (``"tensor"``).
    symmetric: whether zero is in the middle of ranges with both signs: less exact, and a little faster.
    smooth: how much of an activation's outliers moves to the matrix, channel by channel:
        SmoothQuant's strength, from 0 for nothing to 1; "auto" chooses for each product.
    exclude: patterns (``*``, ``?``) of products' names, as the report shows them, that stay as they are.
    progress: show a progress bar while calibrating.
    release_weights: after the first call keep the bytes in their packed form only, and of a module nothing else.
        Another kind of call, a folder, or a Python file, which would need them again, then raises an error.

    Returns
    -------
    A :class:`Quantized`: called, inspected and saved like any compiled function, with a ``report``. With static ranges
    what is nan in an activation becomes the lowest level. Outputs of model classes (Hugging Face's) become dicts. Where
    another trace or transform calls it, such as ``jit`` or ``grad``, it is the function that was quantised.

    Raises
    ------
    ArgumentError: no calibration, nan or infinities in it, unknown options. UnsupportedError: nothing to quantise.

    >>> import numpy as np, zenith
    >>> w = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    >>> x = np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32)
    >>> small = zenith.quantize(lambda x: np.maximum(x @ w, 0), calibration=[x])
    >>> error = np.abs(small(x) - np.maximum(x @ w, 0)).max()
    >>> bool(error < 0.3), small.report.after < 0.3 * w.nbytes
    (True, True)
    """
    recipe = Recipe(scheme, method, percentile, granularity, symmetric, smooth, exclude)
    batches = batches_of("calibration", calibration, progress)
    plain = _plain(function, batches)
    names = plain.function.constants if isinstance(plain.function, ModuleFunction) else {}
    observed = observe(plain, names, batches, recipe)
    quantizer, report = choose(recipe, observed)
    if not report.products:
        listed = "".join(f"\n  {kept.name}: {kept.why}" for kept in report.kept)
        raise UnsupportedError(
            f"{plain.__name__} has no product by a fixed matrix to quantise{listed}",
            where=user_line(), fix="capture the weights in the function, not among its arguments",
        )  # fmt: skip
    backend, dims, most, numerics, passes, converts = plain._options
    return Quantized(
        plain.function, plain._signature, backend, dims, most, numerics, (*passes, quantizer), converts,
        report=report, releases=release_weights,
    )  # fmt: skip


def _plain(function: Any, batches: Iterable[object]) -> Jitted:
    """The function as one that jit compiles."""
    if isinstance(function, Quantized):
        raise ArgumentError(
            f"{function.__name__} is quantised already", fix="quantise the function that it was made of"
        )
    if isinstance(function, Jitted):
        return function
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(function, torch.nn.Module):
        function = of_module(function, next(iter(batches)))
    found: Jitted = jit(function)
    return found
