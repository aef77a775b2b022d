"""Machine code without a compiler: the processor as LLVM names it, and relocatable objects brought into memory.

Only llvmlite is imported here, so a process that finds its objects in the cache never loads Numba. An object says by a
symbol where a function begins. It is placed in the process's code memory, and freed with what :func:`load` returns.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from zenith.backends.cpu import ufuncs
from zenith.backends.cpu.code_memory import CodeMemory
from zenith.backends.cpu.objects import RelocatableObject, UnsupportedObject, needed
from zenith.backends.cpu.vectors import code_features
from zenith.forking import hold_over_fork


def processor() -> dict[str, str]:
    """What machine code depends on: architecture, processor, its features, and the version of the code generator."""
    return {
        "triple": llvm.get_process_triple(),
        "cpu": llvm.get_host_cpu_name(),
        "features": code_features(),
        "llvmlite": llvmlite.__version__,
    }


@cache
def target_machine() -> llvm.TargetMachine:
    """LLVM's code generator for this processor."""
    return _new_target_machine()


def _new_target_machine() -> llvm.TargetMachine:
    """A code generator with Numba's settings for JIT code; an engine needs one of its own."""
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
    """The triple and the data layout of a module for this machine, as LLVM writes them."""
    return processor()["triple"], str(target_machine().target_data)


class LoadedCode(NamedTuple):
    """Machine code in memory: the addresses of its functions, and what it is freed with."""

    addresses: tuple[int, ...]
    memory: object


MEMORY = CodeMemory()
hold_over_fork("code memory", MEMORY.lock)


def load(code: bytes, symbols: tuple[str, ...]) -> LoadedCode:
    """Place an object in memory, for as long as somebody has what is returned, and find its symbols.

    Raises ValueError when a symbol is not in the object, or what it needs not in the process, which LLVM would end;
    CodeMemoryError when there is no memory.
    """
    _refuse_unknown(needed(code))
    try:
        read = RelocatableObject(code)
    except UnsupportedObject:
        return load_by_engine(code, symbols)
    offsets = {symbol: read.offset(symbol) for symbol in symbols}
    _refuse_missing([symbol for symbol, offset in offsets.items() if offset is None])
    block = MEMORY.take(read.length)
    MEMORY.write(block, read.placed(block.address, _address_of))
    return LoadedCode(tuple(block.address + (offset or 0) for offset in offsets.values()), block)


def load_by_engine(code: bytes, symbols: tuple[str, ...]) -> LoadedCode:
    """The same by LLVM's own linker, for other processors and systems: each object has an engine and maps to itself."""
    for symbol in ufuncs.symbols_in(code):
        _refuse_unknown([symbol])
        llvm.add_symbol(symbol, _address_of(symbol))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    addresses = tuple(engine.get_function_address(symbol) for symbol in symbols)
    _refuse_missing([s for s, address in zip(symbols, addresses, strict=True) if not address])
    return LoadedCode(addresses, engine)


def _refuse_unknown(symbols: list[str]) -> None:
    missing = [name for name in symbols if _address_of(name) is None]
    if missing:
        raise ValueError(f"an object needs {', '.join(missing)}, which this process has not")


def _refuse_missing(symbols: list[str]) -> None:
    if symbols:
        raise ValueError(f"an object has no function {', '.join(symbols)}")


@cache
def _address_of(symbol: str) -> int | None:
    """The address of a symbol that objects need: a function of libc, or a loop of a ufunc's.

    LLVM knows those of libc only once there is an engine.
    """
    if symbol.startswith(ufuncs.PREFIX):
        return ufuncs.address_of(symbol)
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value
    except AttributeError:
        return None
