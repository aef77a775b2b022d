"""What random functions compute by linear algebra and Fourier transforms.

``settle`` makes the results multiples of a quarter, which rounding does not reach: no condition hangs on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plain.random_functions import Writer

SETTLE = """
    def settle(x):
        return np.clip(np.floor(x * 4.0 + 0.318309886) * 0.25, -16.0, 16.0)
"""


def compute(writer: Writer, depth: int) -> None:
    """A product, transform or solution, in this or in each turn of a loop."""
    writer.number += 1
    writer.random.choice([_algebra, _algebra, _transform, _stepped])(writer, depth)


def _matrix(writer: Writer, depth: int) -> str:
    """The name of a matrix that is positive definite and well-conditioned, of a fixed size or the arrays'."""
    a, m = writer.pick("u", "v", "w"), f"m{writer.number}"
    part = writer.pick("[:4]", "[:3]", "", "[1:]", f"[:{writer.random.choice(writer.counters or ['n'])} + 1]")
    writer.line(depth, f"c{m} = np.clip({a}{part}, -2.0, 2.0)")
    writer.line(depth, f"{m} = np.eye(len(c{m})) * {writer.pick('4.0', '9.0')} + np.outer(c{m}, c{m})")
    return m


def _algebra(writer: Writer, depth: int) -> None:
    """Of a matrix, a number or a vector, which is stored."""
    m = _matrix(writer, depth)
    s, b, i = writer.pick("s", "t", "r"), writer.pick("u", "v", "w"), writer.integer()
    number = writer.pick(
        f"np.linalg.det({m} * 0.125)", f"np.linalg.inv({m})[0, -1]", f"np.linalg.slogdet({m})[1]", f"np.trace({m})",
        f"np.linalg.cholesky({m})[-1, 0]", f"np.linalg.eigvalsh({m})[0]", f"np.linalg.norm(c{m})",
        f"np.linalg.norm({m}, {writer.pick('1', '2', 'np.inf')})", f"abs(np.linalg.qr({m})[1][0, -1])",
        f"np.linalg.svd({m}, compute_uv=False)[-1]", f"(c{m} @ {m} @ c{m})", f"np.linalg.pinv({m})[0, 0]",
        f"np.linalg.matrix_power({m} * 0.25, 2)[0, 0]", f"np.linalg.lstsq({m}, c{m}, rcond=None)[0][0]",
        f"np.linalg.eigh({m})[0][-1]", f"np.einsum('ij,j->i', {m}, c{m})[({i}) % len(c{m})]",
    )  # fmt: skip
    vector = writer.pick(f"np.linalg.solve({m}, c{m})", f"{m} @ c{m}", f"np.linalg.inv({m}) @ c{m}", f"{m}.sum(axis=0)")
    writer.line(depth, writer.pick(
        f"{s} = settle({number})", f"{s} = settle({number})", f"{b}[: len(c{m})] = settle({vector})[: len({b})]",
        f"{s} = settle({vector})[({i}) % len(c{m})]", f"if settle({number}) > {s}: {b}[0] = {s}",
    ))  # fmt: skip


def _transform(writer: Writer, depth: int) -> None:
    """Of an array, a part of it or what a mask selects."""
    s, a, b = writer.pick("s", "t", "r"), writer.pick("u", "v", "w"), writer.pick("u", "v", "w")
    part = f"np.clip({a}, -4.0, 4.0)" + writer.pick("", "", "[:4]", "[1:]", "[::-1]")
    same = writer.pick(
        f"np.fft.fft({part}, len({b})).real", f"np.fft.ifft({part}, len({b})).imag",
        f"abs(np.fft.fft({part}, n=len({b})))",
        f"np.fft.irfft(np.fft.rfft({part}), len({b}))", f"np.fft.fftshift(np.clip({b}, -4.0, 4.0))",
        f"np.convolve({part}, [0.5, 1.0, -0.25], 'same')[:4].sum()", f"np.fft.fftfreq(len({b}))",
    )  # fmt: skip
    number = writer.pick(
        f"abs(np.fft.rfft({part})).max()", f"np.fft.rfft({part})[-1].real", f"np.sum(np.abs(np.fft.fft({part})) ** 2)",
        f"np.fft.fft2(np.outer({part}, {part}[:3]))[-1, 1].imag", f"np.fft.fft({part}[{part} > 0.25], 8)[1].real",
    )  # fmt: skip
    writer.line(depth, writer.pick(f"{b}[:] = settle({same})", f"{s} = settle({number})", f"{s} = settle({number})"))


def _stepped(writer: Writer, depth: int) -> None:
    """A state that each turn multiplies, solves for or transforms."""
    a, i, m = writer.pick("u", "v", "w"), f"i{writer.number}", _matrix(writer, depth)
    state = f"x{writer.number}"
    writer.line(depth, f"{state} = c{m} * 0.5")
    writer.line(depth, f"for {i} in range({writer.pick('3', 'n', 'm', f'len({a})')}):")
    if writer.random.random() < 0.3:
        writer.line(depth + 1, f"if {state}[0] > {writer.number_(2)}:")
        writer.line(depth + 2, writer.pick("break", "continue", f"{state} = -{state}", f"{m} = {m} * 0.5"))
    writer.line(depth + 1, writer.pick(
        f"{state} = settle(np.linalg.solve({m}, {state} + 1.0))", f"{state} = settle(0.125 * ({m} @ {state}))",
        f"{state} = settle(np.fft.ifft(np.fft.fft({state}) * 0.5).real)", f"{m}[0, 0] += 0.5 + abs({state}[0])",
        f"{state} = settle(np.linalg.inv({m})[{i} % len({state})])",
        f"{state}[{i} % len({state})] -= settle(np.linalg.det({m}[:2, :2] * 0.125))",
        f"{state} = settle(np.linalg.eigvalsh({m} + np.diag({state} ** 2)) * 0.125)",
    ))  # fmt: skip
    writer.line(depth, writer.pick(f"s = 0.5 * s + 0.125 * {state}.sum()", f"t = settle({state}[-1] + {m}[0, 0])"))
