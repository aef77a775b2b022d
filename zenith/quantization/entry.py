"""``quantize``: a function or module whose products by fixed matrices are computed in bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from zenith.api.compilable import Compilable
from zenith.api.jit import Jitted, jit
from zenith.batches import arguments_of, batches_of
from zenith.errors import ArgumentError
from zenith.ir.numerics import EXACT
from zenith.quantization.calibration import observe
from zenith.quantization.modules import ModuleFunction, of_module
from zenith.quantization.products import Names
from zenith.quantization.quantized import Quantized, nothing_to_quantise
from zenith.quantization.quantizer import choose
from zenith.quantization.recipe import Granularity, Method, Recipe, Scheme, Strength
from zenith.quantization.tolerances import Search, cheapest, fewest_bits

P = ParamSpec("P")
R = TypeVar("R")


def quantize(
    function: Callable[P, R],
    calibration: Iterable[object] | None = None,
    *,
    scheme: Scheme = "static",
    method: Method = "minmax",
    percentile: float = 99.99,
    granularity: Granularity = "channel",
    bits: int = 8,
    symmetric: bool = False,
    smooth: Strength = "auto",
    exclude: Sequence[str] = (),
    progress: bool = False,
    release_weights: bool = False,
    tolerance: float | None = None,
    precision: str | None = None,
) -> Quantized[P, R]:
    """Compute products and convolutions by fixed weights in bytes: four times smaller, and as much faster.

    Embeddings, rows that are gathered of fixed tables, are bytes in memory, too.

    Parameters
    ----------
    function: a function of arrays whose weights are captured (:func:`zenith.jit` of it as well), a PyTorch module or a
        compiled one, whose weights are taken as they are now.
    calibration: batches, each a tuple or list of arguments, a dict of keywords, or a single argument, which stand for
        what the program will be called with. They are read in order, twice at most, and of activations only ranges,
        histograms and a few rows are kept; an iterator that can be read once is made a list. Where no range is fixed
        and nothing moves (``smooth``), the first one serves as an example; Hugging Face's models need none there.
    scheme: ``"static"``: the range of each activation is fixed by the calibration; convolutions are in bytes by this
        one alone. ``"dynamic"``: each row (a token) of an activation has a range of its own in every call, which costs
        a pass over it. ``"weight_only"``: activations stay floats, and bytes of matrices are made floats in registers:
        for products of a few rows, which take as long as reading the matrix does. With scales of groups both are
        multiplied as integers instead, and groups of an activation are rounded to 127 levels of each sign.
    method, percentile: what the range covers: all that was seen (``"minmax"``), all but what is outside of so many
        percent (``"percentile"``), or what loses least by squared error (``"mse"``) or information (``"entropy"``).
    granularity: whether each column of a matrix has a scale (``"channel"``), all have one (``"tensor"``), or of each
        column every so many terms (``"group:64"``), for weights only: less error, and a few more bytes.
    bits: of a matrix' levels: 8, or 4, for weights only, best in groups: an eighth of the memory of float32.
    symmetric: whether zero is in the middle of ranges with both signs: less exact, and a little faster.
    smooth: how much of an activation's outliers moves to the matrix, channel by channel:
        SmoothQuant's strength, from 0 for nothing to 1; "auto" chooses for each product.
    exclude: patterns (``*``, ``?``) of products' and embeddings' names, as the report shows them, that stay.
    progress: show a progress bar while calibrating.
    release_weights: after the first call keep the bytes in their packed form only, and of a module nothing else.
        Another kind of call, a folder, or a Python file, which would need them again, then raises an error.
    tolerance: the largest error of any output against float64, relative by root mean squares, on batches that are held
        out of the calibration, every fourth one. The products that cost most are in bfloat16, or stay as they are.
    precision: of float32 products that stay, such as attention's (see :func:`zenith.jit`); None for the function's own.

    Returns
    -------
    A :class:`Quantized`: called, inspected and saved like any compiled function, with a ``report``. With static ranges
    what is nan in an activation becomes the lowest level. Outputs of model classes (Hugging Face's) become dicts. Where
    another trace or transform calls it, such as ``jit`` or ``grad``, it is the function that was quantised.

    Raises
    ------
    ArgumentError: bad calibration, unknown options. UnsupportedError: nothing to quantise, or not within the tolerance.

    >>> import numpy as np, zenith
    >>> w = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    >>> x = np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32)
    >>> small = zenith.quantize(lambda x: np.maximum(x @ w, 0), calibration=[x])
    >>> error = np.abs(small(x) - np.maximum(x @ w, 0)).max()
    >>> bool(error < 0.3), small.report.after < 0.3 * w.nbytes
    (True, True)
    """
    recipe = Recipe(scheme, method, percentile, granularity, symmetric, smooth, exclude, bits)
    recipe.check()
    if calibration is None and recipe.keeps_floats:
        calibration = _any_call(function)
    batches = batches_of("calibration", calibration, progress)
    plain = _plain(function, batches, precision)
    if tolerance is not None:
        return fewest_bits(Search.of(tolerance, plain, _names(plain), batches, recipe, release_weights))
    quantizer, report = choose(recipe, observe(plain, _names(plain), batches, recipe))
    if not (report.products or report.embeddings):
        raise nothing_to_quantise(plain, report)
    return Quantized.of(plain, quantizer, report, release_weights)


def within_tolerance(function: Any, tolerance: float, calibration: Iterable[object] | None) -> Quantized:
    """A function, or a module, in the cheapest precisions within a tolerance: see :func:`zenith.jit`."""
    batches = batches_of("calibration", calibration)
    plain = _plain(function, batches)
    return cheapest(Search.of(tolerance, plain, _names(plain), batches, Recipe(), releases=False))


def _names(plain: Jitted) -> Names:
    """Those of constants that are parameters of a module."""
    return plain.function.constants if isinstance(plain.function, ModuleFunction) else {}


def _any_call(function: Any) -> list[dict[str, object]] | None:
    """A call of a model of Hugging Face's, whose values do not matter; None for anything else."""
    inputs = getattr(function, "dummy_inputs", None)
    if not isinstance(inputs, dict):
        return None
    parameters = signature(function.forward).parameters.values()
    hands_on = hasattr(getattr(function, "config", None), "use_cache")  # what a wrapper such as peft's is given
    caches = any(p.name == "use_cache" or (hands_on and p.kind is p.VAR_KEYWORD) for p in parameters)
    flags = {"use_cache": False} if caches else {}
    return [{**inputs, **flags}]


def _plain(function: Callable[P, R], batches: Iterable[object], precision: str | None = None) -> Jitted[P, R]:
    """The function as one that jit compiles, in a precision if one is given."""
    plain = _jitted(function, batches)
    if precision is None:
        return plain
    return Jitted(*plain.made_with(plain._passes, replace(plain.numerics, precision=precision)))


def _jitted(function: Callable[P, R], batches: Iterable[object]) -> Jitted[P, R]:
    if isinstance(function, Quantized):
        raise ArgumentError(
            f"{function.__name__} is quantised already", fix="quantise the function that it was made of"
        )
    if isinstance(function, Jitted):
        return function
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(function, torch.nn.Module):
        return jit(function)
    example = next(iter(batches))
    flags = [name for name, value in arguments_of(example)[1].items() if isinstance(value, bool | str)]
    numerics = asdict(function.numerics if isinstance(function, Compilable) else EXACT)
    found = jit(of_module(function, example), static_argnames=flags, **numerics)  # Python branches on flags
    return found
