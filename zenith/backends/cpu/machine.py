"""Machine code without a compiler: the processor as LLVM names it, and the one engine that holds relocatable objects.

Only llvmlite is imported here, so a process that finds its objects in the cache never loads Numba. An object says by a
symbol where a function begins; the engine places it in memory for the life of the process and tells the address.
"""

from __future__ import annotations

import platform
import struct
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from zenith.backends.cpu.vectors import code_features

_ELF = b"\x7fELF\x02\x01"  # of 64 bits, the lowest byte first
_SYMBOLS = 2  # the kind of a section that lists symbols
_WEAK = 2  # the binding of a symbol that may be missing


def processor() -> dict[str, str]:
    """What machine code depends on: architecture, processor, its features, and the version of the code generator."""
    return {
        "triple": llvm.get_process_triple(),
        "cpu": llvm.get_host_cpu_name(),
        "features": code_features(),
        "llvmlite": llvmlite.__version__,
    }


@cache
def target_machine() -> Any:
    """LLVM's code generator for this processor, set as Numba sets it for code that runs at once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    here = processor()
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
    return llvm.Target.from_triple(here["triple"]).create_target_machine(
        cpu=here["cpu"], features=here["features"], opt=3, reloc="static" if x86 else "default",
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


@cache
def conventions() -> tuple[str, str]:
    """What a module says of the machine it is for, as LLVM writes it: its triple, and how values lie in memory."""
    return processor()["triple"], str(target_machine().target_data)


@cache
def _engine() -> Any:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def load(code: bytes, symbols: tuple[str, ...]) -> tuple[int, ...]:
    """Place an object in memory and return the addresses of its symbols, which no other object may have.

    Not for two threads at once; raises ValueError when a symbol is not in the object, or what it needs not in the
    process, where LLVM would end it.
    """
    engine = _engine()
    missing = [name for name in _needed(code) if llvm.address_of_symbol(name) is None]
    if missing:
        raise ValueError(f"an object needs {', '.join(missing)}, which this process has not")
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    addresses = tuple(engine.get_function_address(symbol) for symbol in symbols)
    if not all(addresses):
        missing = [s for s, address in zip(symbols, addresses, strict=True) if not address]
        raise ValueError(f"an object has no function {', '.join(missing)}")
    return addresses


def _needed(code: bytes) -> list[str]:
    """The symbols that an object must find elsewhere, where objects are ELF files ("Symbol Table" of their ABI)."""
    if not code.startswith(_ELF):
        return []
    (start,), (size, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<2H", code, 58)
    sections = [struct.unpack_from("<2I4Q2I", code, start + number * size) for number in range(count)]
    needed = []
    for _, kind, _, _, at, length, names, _ in sections:
        if kind == _SYMBOLS:
            for name, info, _, section, *_ in struct.iter_unpack("<I2BH2Q", code[at : at + length]):
                if name and not section and info >> 4 != _WEAK:
                    first = sections[names][4] + name
                    needed.append(code[first : code.index(0, first)].decode())
    return needed
