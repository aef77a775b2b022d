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

_A, _B, _C, _S, _U, _V = (Name(f"fft_{name}", float64) for name in ("a", "b", "cos", "sin", "u", "v"))


def untangled(label: str, of: Rows) -> Kernel:
    """The spectrum of real rows from the transforms of their pairs, in place: elements k and half - k at a time."""
    begin, end = part_of(of.points // 2 + 1)
    row = TASK // PARTS * of.pitches[1]
    near, far = (row + K) * 2, (row + (of.points - K) % of.points) * 2
    body = [*_mixed(of, ("out0", near), ("out0", far), None), *_pair(of, near, (row + of.points - K) * 2)]
    task = task_loop(of.tasks, [Loop(str(K), begin, end, True, tuple(body))])
    return kernel_of(label, of, ["out0"], of.tasks, of.points // PARTS * 60, [task])


def tangled(label: str, of: Rows) -> Kernel:
    """What the pairs of real rows are transforms of, from half of their spectrum."""
    begin, end = part_of(of.points)
    row = TASK // PARTS * (of.points + 1)
    at = (TASK // PARTS * of.points + K) * 2
    near, far = (row + K) * 2, (row + of.points - K) * 2
    stores = [Store(MATRIX, at, _cast(of, "x - y", Name("fft_p", float64), _V)),
              Store(MATRIX, at + 1, _cast(of, "x + y", Name("fft_q", float64), _U))]  # fmt: skip
    body = [*_mixed(of, (of.source, near), (of.source, far), Position(K)), *stores]
    task = task_loop(of.tasks, [Loop(str(K), begin, end, True, tuple(body))])
    return kernel_of(label, of, [of.source, MATRIX], of.tasks, of.points // PARTS * 60, [task])


def _mixed(of: Rows, near: tuple[str, Dim], far: tuple[str, Dim], number: Expr | None) -> list[Statement]:
    """Names for the sum of an element and the conjugate of another, and for a root of unity times their difference.

    The imaginary parts of the first and the last element of a spectrum say nothing: those of ``number`` 0.
    """
    (a, b), (c, d) = (
        [Apply("x", (Load(buffer, at + part, of.dtype),), float64) for part in (0, 1)] for buffer, at in (near, far)
    )
    if number is not None:
        b, d = (Apply("where(x == 0, 0.0, y)", (number, part), float64) for part in (b, d))
    names = {n: Name(f"fft_{n}", float64) for n in ("re", "im", "far_re", "far_im", "p", "q", "x", "y")}

    def let(name: str, text: str, *args: str) -> Let:
        return Let(f"fft_{name}", Apply(text, tuple(names[n] for n in args), float64))

    return [
        Let("fft_re", a), Let("fft_im", b), Let("fft_far_re", c), Let("fft_far_im", d),
        let("p", "x + y", "re", "far_re"), let("q", "x - y", "im", "far_im"),
        let("x", "x - y", "re", "far_re"), let("y", "x + y", "im", "far_im"),
        Let("fft_angle", angle_of(of, K, of.points * 2)),
        Let(_C.name, of_angle("cos(x)")), Let(_S.name, of_angle("sin(x)")),
        Let(_U.name, difference(_C, names["x"], _S, names["y"])), Let(_V.name, added(_C, names["y"], _S, names["x"])),
    ]  # fmt: skip


def _pair(of: Rows, near: Dim, far: Dim) -> list[Statement]:
    """The elements k and half - k of a spectrum."""
    p, q = Name("fft_p", float64), Name("fft_q", float64)
    texts = {near: "(x + y) * 0.5", near + 1: "(x - y) * 0.5", far: "(x - y) * 0.5", far + 1: "(x + y) * -0.5"}
    pairs = ((p, _V), (q, _U), (p, _V), (q, _U))
    return [Store("out0", at, _cast(of, text, *pair)) for (at, text), pair in zip(texts.items(), pairs, strict=True)]


def _cast(of: Rows, text: str, x: Expr, y: Expr) -> Expr:
    return Apply("x", (Apply(text, (x, y), float64),), of.dtype)
