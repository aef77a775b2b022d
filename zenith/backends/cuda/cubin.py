"""The resources of a kernel by its machine code: registers, stack and shared memory, read from ELF sections.

The sections ``.nv.info`` hold attributes as a format byte, an attribute byte, a length and a value; for those of
interest the value is a symbol's number and a count. CUDA's binary utilities call them EIATTR_REGCOUNT and so on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SIZED = 4  # the format of attributes with a length
_REGISTERS, _FRAME = 0x2F, 0x11
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers and bytes of stack (with spills) of a thread, and bytes of shared memory of a block."""

    registers: int
    stack: int
    shared: int


def resources(cubin: bytes) -> Resources:
    """The resources of the one kernel in a cubin.

    Raises ValueError for bytes that are no cubin.
    """
    if cubin[:4] != b"\x7fELF":
        raise ValueError("these bytes are no cubin: they do not begin as ELF files do")
    found, shared = {_REGISTERS: 0, _FRAME: 0}, 0
    for name, start, size in _sections(cubin):
        if name == ".nv.info":
            for attribute, count in _attributes(cubin[start : start + size]):
                if attribute in found:
                    found[attribute] = max(found[attribute], count)
        elif name.startswith(".nv.shared."):
            shared = size
    return Resources(found[_REGISTERS], found[_FRAME], shared)


def _sections(elf: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each section."""
    (*_, table, _, _, _, _, length, count, names) = _HEADER.unpack_from(elf)
    headers = [_SECTION.unpack_from(elf, table + i * length) for i in range(count)]
    texts = headers[names][4]
    for name, _, _, _, start, size, *_ in headers:
        end = elf.index(b"\0", texts + name)
        yield elf[texts + name : end].decode(), start, size


def _attributes(data: bytes) -> Iterator[tuple[int, int]]:
    """Attributes that are a symbol's number and a count."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if value == 8:
                yield attribute, struct.unpack_from("<II", data, at)[1]
            at += value
