"""Files in GGUF, written from the definition of the format, with what their blocks stand for, number by number."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Block = tuple[bytes, list[float]]  # of a row, and the numbers that it stands for
NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q8_0": 8, "Q2_K": 10, "Q4_K": 12, "Q5_K": 13,
           "Q6_K": 14, "BF16": 30}  # fmt: skip


def _half(rng: np.random.Generator, size: float) -> np.float16:
    return np.float16(rng.uniform(0.5, 1.5) * size)


def _q8_0(rng: np.random.Generator, size: float) -> Block:
    d, q = _half(rng, size / 127), rng.integers(-127, 128, 32, dtype=np.int8)
    return d.tobytes() + q.tobytes(), [float(d) * int(level) for level in q]


def _q4_0(rng: np.random.Generator, size: float) -> Block:
    d, q = _half(rng, size / 8), rng.integers(0, 256, 16, dtype=np.uint8)
    levels = [int(byte) & 15 for byte in q] + [int(byte) >> 4 for byte in q]
    return d.tobytes() + q.tobytes(), [float(d) * (level - 8) for level in levels]


def _q4_1(rng: np.random.Generator, size: float) -> Block:
    d, m, q = _half(rng, size / 8), _half(rng, -size), rng.integers(0, 256, 16, dtype=np.uint8)
    levels = [int(byte) & 15 for byte in q] + [int(byte) >> 4 for byte in q]
    return d.tobytes() + m.tobytes() + q.tobytes(), [float(d) * level + float(m) for level in levels]


def _q5_0(rng: np.random.Generator, size: float) -> Block:
    d, fifth, q = _half(rng, size / 16), int(rng.integers(0, 2**32)), rng.integers(0, 256, 16, dtype=np.uint8)
    levels = [int(byte) & 15 for byte in q] + [int(byte) >> 4 for byte in q]
    levels = [level | (fifth >> place & 1) << 4 for place, level in enumerate(levels)]
    return d.tobytes() + struct.pack("<I", fifth) + q.tobytes(), [float(d) * (level - 16) for level in levels]


def _six_bits(q: np.ndarray, j: int) -> tuple[int, int]:
    """A scale and a minimum, as llama.cpp's ``get_scale_min_k4`` defines them."""
    b = [int(byte) for byte in q]
    if j < 4:
        return b[j] & 63, b[j + 4] & 63
    return b[j + 4] & 15 | b[j - 4] >> 6 << 4, b[j + 4] >> 4 | b[j] >> 6 << 4


def _q45_k(bits: int, rng: np.random.Generator, size: float) -> Block:
    top = 1 << bits
    d, least = _half(rng, size / 32 / top), _half(rng, size / 64)
    s, q = rng.integers(0, 256, 12, dtype=np.uint8), rng.integers(0, 256, 128, dtype=np.uint8)
    high = rng.integers(0, 256, 32 if bits == 5 else 0, dtype=np.uint8)
    numbers = []
    for j in range(8):
        scale, m = _six_bits(s, j)
        for i in range(32):
            byte = int(q[j // 2 * 32 + i])
            level = (byte >> 4 if j % 2 else byte & 15) | ((int(high[i]) >> j & 1) << 4 if bits == 5 else 0)
            numbers.append(float(d) * scale * level - float(least) * m)
    return d.tobytes() + least.tobytes() + s.tobytes() + high.tobytes() + q.tobytes(), numbers


def _q6_k(rng: np.random.Generator, size: float) -> Block:
    low, high = rng.integers(0, 256, 128, dtype=np.uint8), rng.integers(0, 256, 64, dtype=np.uint8)
    scales, d = rng.integers(-64, 64, 16, dtype=np.int8), _half(rng, size / 2048)
    numbers = []
    for e in range(256):
        half, inside = divmod(e, 128)
        quarter, i = divmod(inside, 32)
        byte = int(low[half * 64 + quarter % 2 * 32 + i])
        level = (byte >> 4 if quarter > 1 else byte & 15) | (int(high[half * 32 + i]) >> 2 * quarter & 3) << 4
        numbers.append(float(d) * int(scales[e // 16]) * (level - 32))
    return low.tobytes() + high.tobytes() + scales.tobytes() + d.tobytes(), numbers


BLOCKS: dict[str, tuple[int, Callable[[np.random.Generator, float], Block]]] = {
    "Q8_0": (32, _q8_0), "Q4_0": (32, _q4_0), "Q4_1": (32, _q4_1), "Q5_0": (32, _q5_0),
    "Q4_K": (256, lambda rng, size: _q45_k(4, rng, size)), "Q5_K": (256, lambda rng, size: _q45_k(5, rng, size)),
    "Q6_K": (256, _q6_k),
}  # fmt: skip


def drawn(kind: str, rows: int, columns: int, rng: np.random.Generator) -> tuple[bytes, np.ndarray]:
    """The bytes of a tensor of blocks, and its numbers in float32."""
    length, block = BLOCKS[kind]
    blocks = [block(rng, columns**-0.5) for _ in range(rows * columns // length)]
    numbers = np.array([numbers for _, numbers in blocks], np.float64).reshape(rows, columns)
    return b"".join(stored for stored, _ in blocks), numbers.astype(np.float32)


def plain(kind: str, numbers: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The bytes of a tensor of floats, and the numbers that are left of it."""
    if kind == "BF16":
        upper = numbers.astype(np.float32).view(np.uint32) & 0xFFFF0000
        return (upper >> 16).astype(np.uint16).tobytes(), upper.view(np.float32)
    stored = numbers.astype({"F32": np.float32, "F16": np.float16}[kind])
    return stored.tobytes(), stored.astype(np.float32)


def write(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    """Write a file in version 3; of tensors type, shape and bytes."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    head += [_text(key) + _value(value) for key, value in metadata.items()]
    place, body = 0, []
    for name, (kind, shape, stored) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head.append(_text(name) + sizes + struct.pack("<IQ", NUMBERS[kind], place))
        body.append(stored + bytes(-len(stored) % 32))
        place += len(body[-1])
    start = b"".join(head)
    path.write_bytes(start + bytes(-len(start) % 32) + b"".join(body))


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        of = 8 if isinstance(value[0], str) else 5
        items = [_text(v) if of == 8 else struct.pack("<i", v) for v in value]
        return struct.pack("<IIQ", 9, of, len(value)) + b"".join(items)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)
