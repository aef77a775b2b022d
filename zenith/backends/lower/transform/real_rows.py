"""Real rows as half as many complex numbers, each of two neighbours: their spectra are mixed, and are separated.

A real row of an even length is one of half as many complex numbers, whose transform is untangled afterwards; for the
inverse the spectrum is tangled before (W. Press et al., *Numerical Recipes*, 3rd edition, section 12.3).
"""

from __future__ import annotations

from zenith.backends.expressions import Apply, Expr, Load, Name, Position
from zenith.backends.kernel import (
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
)
from zenith.backends.lower.transform.rows import (
    MATRIX,
    PARTS,
    TASK,
    K,
    Rows,
    added,
    angle_of,
    difference,
    kernel_of,
    of_angle,
    part_of,
    task_loop,
)
from zenith.ir.dims import Dim
from zenith.ir.types import float64

# Of two elements of a spectrum, the sum of one and the conjugate of the other, and a root times their difference.
_SUM_RE, _SUM_IM, _TURNED_RE, _TURNED_IM = (
    Name(f"fft_{name}", float64) for name in ("sum_re", "sum_im", "turned_re", "turned_im")
)


def untangled(label: str, of: Rows) -> Kernel:
    """The spectrum of real rows from the transforms of their pairs, in place: elements k and half - k at a time."""
    begin, end = part_of(of.points // 2 + 1)
    row = TASK // PARTS * of.pitches[1]
    near, far = (row + K) * 2, (row + of.points - K) * 2
    read_far = (row + (of.points - K) % of.points) * 2  # the last element follows from the first
    stores = [
        _store(of, ("out0", near), "(x + y) * 0.5", _SUM_RE, _TURNED_IM),
        _store(of, ("out0", near + 1), "(x - y) * 0.5", _SUM_IM, _TURNED_RE),
        _store(of, ("out0", far), "(x - y) * 0.5", _SUM_RE, _TURNED_IM),
        _store(of, ("out0", far + 1), "(x + y) * -0.5", _SUM_IM, _TURNED_RE),
    ]
    body = (*_mixed(of, "out0", near, read_far, is_spectrum=False), *stores)
    task = task_loop(of.tasks, [Loop(str(K), begin, end, True, body)])
    return kernel_of(label, of, ["out0"], of.tasks, of.points // PARTS * 60, [task])


def tangled(label: str, of: Rows) -> Kernel:
    """What the pairs of real rows are transforms of, from half of their spectrum."""
    begin, end = part_of(of.points)
    row = TASK // PARTS * (of.points + 1)
    at = (TASK // PARTS * of.points + K) * 2
    stores = [_store(of, (MATRIX, at), "x - y", _SUM_RE, _TURNED_IM),
              _store(of, (MATRIX, at + 1), "x + y", _SUM_IM, _TURNED_RE)]  # fmt: skip
    body = (*_mixed(of, of.source, (row + K) * 2, (row + of.points - K) * 2, is_spectrum=True), *stores)
    task = task_loop(of.tasks, [Loop(str(K), begin, end, True, body)])
    return kernel_of(label, of, [of.source, MATRIX], of.tasks, of.points // PARTS * 60, [task])


def _mixed(of: Rows, buffer: str, near: Dim, far: Dim, is_spectrum: bool) -> list[Statement]:
    """The sum of an element and the conjugate of another, and a power of a root of unity times their difference."""
    names = ("re", "im", "far_re", "far_im", "cos", "sin", "difference_re", "difference_im")
    re, im, far_re, far_im, cos, sin, x, y = (Name(f"fft_{name}", float64) for name in names)
    elements = [Apply("x", (Load(buffer, at, of.dtype),), float64) for at in (near, near + 1, far, far + 1)]
    if is_spectrum:  # the imaginary parts of its first and last element say nothing
        elements[1::2] = [Apply("where(x == 0, 0.0, y)", (Position(K), part), float64) for part in elements[1::2]]
    bound = {
        **dict(zip((re, im, far_re, far_im), elements, strict=True)),
        _SUM_RE: Apply("x + y", (re, far_re), float64), _SUM_IM: Apply("x - y", (im, far_im), float64),
        x: Apply("x - y", (re, far_re), float64), y: Apply("x + y", (im, far_im), float64),
        Name("fft_angle", float64): angle_of(of, K, of.points * 2),
        cos: of_angle("cos(x)"), sin: of_angle("sin(x)"),
        _TURNED_RE: difference(cos, x, sin, y), _TURNED_IM: added(cos, y, sin, x),
    }  # fmt: skip
    return [Let(name.name, value) for name, value in bound.items()]


def _store(of: Rows, to: tuple[str, Dim], text: str, x: Expr, y: Expr) -> Store:
    return Store(*to, Apply("x", (Apply(text, (x, y), float64),), of.dtype))
