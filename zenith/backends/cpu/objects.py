"""Relocatable objects of x86-64, as the ABI of ELF describes them: what a linker must know to place one in memory.

An object is sections, symbols that say where in a section something begins, and relocations, which say where in a
section the address of a symbol is to be written. LLVM's large code model asks for absolute addresses only, so an object
runs at any address. It is code and constants: nothing in it is written to, and it throws no exceptions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

_ELF = b"\x7fELF\x02\x01"  # of 64 bits, the lowest byte first
_RELOCATABLE, _X86_64 = 1, 62  # the kind of file, and its processor
_SYMBOLS, _RELOCATIONS, _ZEROS = 2, 4, 8  # kinds of sections
_WRITABLE, _LOADED, _OF_THREADS = 0x1, 0x2, 0x400  # flags of sections
_WEAK = 2  # the binding of a symbol that may be missing
_UNDEFINED = 0  # the number of no section
_LINE = 64  # bytes: code and constants share no line of a cache
_UNWINDING = ".eh_frame"

# Kinds of relocations: how the value is written, and whether it is relative to where it is written.
_FIELDS = {1: ("<Q", False), 2: ("<i", True), 4: ("<i", True), 24: ("<q", True)}  # 64, PC32, PLT32, PC64


class UnsupportedObject(Exception):
    """An object has something that this file does not know; the message says what."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    at: int
    size: int
    link: int
    info: int
    align: int
    entry: int

    def contents(self, code: bytes) -> bytes:
        return bytes(self.size) if self.kind == _ZEROS else code[self.at : self.at + self.size]


class _Symbol(NamedTuple):
    name: str
    is_weak: bool
    section: int
    value: int


class _Relocation(NamedTuple):
    """Write the address of a symbol plus ``addend``, in the form ``kind``, at an offset of the image."""

    at: int
    kind: int
    symbol: int
    addend: int


class RelocatableObject:
    """An object, laid out: ``length`` bytes of memory that begin on a page.

    Raises UnsupportedObject for other processors and formats, and for what generated code never has.
    """

    def __init__(self, code: bytes) -> None:
        if not code.startswith(_ELF) or struct.unpack_from("<2H", code, 16) != (_RELOCATABLE, _X86_64):
            raise UnsupportedObject("it is no ELF file for x86-64")
        self._code = code
        self._sections, self._names = _sections(code)
        self._offsets, self.length = self._laid_out()
        self._symbols = list(_symbols(code, self._sections))
        self._relocations = list(self._read_relocations())

    def offset(self, name: str) -> int | None:
        """The offset of a symbol that the object defines; None when it does not."""
        found = [s for s in self._symbols if s.name == name and s.section in self._offsets]
        return self._offsets[found[0].section] + found[0].value if found else None

    def placed(self, base: int, address_of: Callable[[str], int | None]) -> bytes:
        """The image in memory that begins at ``base``; ``address_of`` finds symbols that are defined elsewhere."""
        image = bytearray(self.length)
        for number, offset in self._offsets.items():
            section = self._sections[number]
            image[offset : offset + section.size] = section.contents(self._code)
        for at, kind, symbol, addend in self._relocations:
            form, is_relative = _FIELDS[kind]
            value = self._address(self._symbols[symbol], base, address_of) + addend - (base + at if is_relative else 0)
            try:
                struct.pack_into(form, image, at, value)
            except struct.error:
                raise UnsupportedObject(f"{self._symbols[symbol].name} is too far away") from None
        return bytes(image)

    def _address(self, symbol: _Symbol, base: int, address_of: Callable[[str], int | None]) -> int:
        if symbol.section in self._offsets:
            return base + self._offsets[symbol.section] + symbol.value
        address = address_of(symbol.name) if symbol.section == _UNDEFINED else None
        if address is None and not symbol.is_weak:
            raise UnsupportedObject(f"the symbol {symbol.name!r} is defined nowhere")
        return address or 0

    def _laid_out(self) -> tuple[dict[int, int], int]:
        """The offset of each section in the image, and the length of the image."""
        offsets, length = dict[int, int](), 0
        for number, section in enumerate(self._sections):
            name = _text(self._code, section.name, self._names)
            if not section.flags & _LOADED or not section.size or name == _UNWINDING:
                continue
            if section.flags & (_WRITABLE | _OF_THREADS):
                raise UnsupportedObject(f"the section {name} is written to")
            align = max(section.align, _LINE)
            offsets[number] = length = -(-length // align) * align
            length += section.size
        return offsets, length

    def _read_relocations(self) -> Iterator[_Relocation]:
        for table in self._sections:
            if table.kind == _RELOCATIONS and table.info in self._offsets:
                for at, info, addend in struct.iter_unpack("<2Qq", table.contents(self._code)):
                    if info & 0xFFFFFFFF not in _FIELDS:
                        raise UnsupportedObject(f"relocations of the kind {info & 0xFFFFFFFF}")
                    offset = self._offsets[table.info] + at
                    yield _Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)


def needed(code: bytes) -> list[str]:
    """The symbols that an ELF file, for whatever processor of 64 bits, must find elsewhere."""
    if not code.startswith(_ELF):
        return []
    symbols = _symbols(code, _sections(code)[0])
    return [s.name for s in symbols if s.section == _UNDEFINED and s.name and not s.is_weak]


def _sections(code: bytes) -> tuple[list[_Section], _Section]:
    """All sections, and the one that has their names."""
    (start,), (size, count, names) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<3H", code, 58)
    found = [_Section(*struct.unpack_from("<2I4Q2I2Q", code, start + number * size)) for number in range(count)]
    return found, found[names]


def _symbols(code: bytes, sections: list[_Section]) -> Iterator[_Symbol]:
    for table in sections:
        if table.kind == _SYMBOLS:
            names = sections[table.link]
            for name, info, _, section, value, _ in struct.iter_unpack("<I2BH2Q", table.contents(code)):
                yield _Symbol(_text(code, name, names), info >> 4 == _WEAK, section, value)


def _text(code: bytes, at: int, names: _Section) -> str:
    first = names.at + at
    return code[first : code.index(0, first)].decode()
