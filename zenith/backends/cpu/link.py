"""Linking: from kernels to machine code. Each distinct kernel is compiled once on this machine, loaded once a process.

A kernel is known by its *text*: its source without names, comments and lines, so equal layers share one. Its object
code is looked for in the process, then in the cache on disk; only what neither has is compiled, and only then Numba is
imported. Threads that ask for the same kernel at once wait for one compilation.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import linecache
import platform
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from zenith.backends.cache import digest, sources_digest, store
from zenith.backends.cpu import machine
from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.foreign import call_native
from zenith.backends.cpu.running import RUNNING_FUNCTIONS
from zenith.backends.cpu.softmax import softmax_tile
from zenith.backends.cpu.tile import gathered_tile, pack_panel, product_tile
from zenith.backends.cpu.vectors import select
from zenith.backends.held import held_product, stage_tile
from zenith.backends.kernel import Kernel
from zenith.backends.scalars import NAMESPACE
from zenith.backends.shared_product import shared_product, tf32_product
from zenith.errors import CompileError

TILE_FUNCTIONS = {
    "product_tile": product_tile, "gathered_tile": gathered_tile,
    "pack_panel": pack_panel, "shared_product": shared_product,
    "stage_tile": stage_tile, "held_product": held_product,
    "tf32_product": tf32_product,
    "softmax_tile": softmax_tile, "call_native": call_native, **RUNNING_FUNCTIONS,
}  # fmt: skip
_HERE = Path(__file__).resolve().parent
_GENERATOR = (_HERE, _HERE.parent / "vecmath", _HERE.parent / "scalars.py")  # the sources that give a text its meaning
_RUNTIME = "runtime"
_COMMENT = re.compile(r"\s+#.*")
_WORD = re.compile(r"\b[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Linked:
    """Machine code in this process.

    ``addresses`` of its functions, in order; the ``text`` it was made from; the object ``code`` as it is stored; what
    getting it took, in milliseconds, and whether it came from disk.
    """

    name: str
    addresses: tuple[int, ...]
    text: str
    code: bytes
    milliseconds: float
    cached: bool

    @property
    def address(self) -> int:
        """The address of its first function."""
        return self.addresses[0]


class _Linker:
    """The process's machine code, by symbols."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.linked: dict[tuple[str, ...], Linked] = {}

    def get(self, text: str, name: str, symbols: tuple[str, ...], obtain: Callable[[], tuple[bytes, bool]]) -> Linked:
        """The machine code of ``text``, known by its symbols, from here or as it is obtained."""
        known = self.linked.get(symbols)
        if known is not None:
            return known
        with self.lock:
            if symbols not in self.linked:
                started = time.perf_counter()
                code, cached = obtain()
                addresses = machine.load(code, symbols)
                milliseconds = (time.perf_counter() - started) * 1e3
                self.linked[symbols] = Linked(name, addresses, text, code, milliseconds, cached)
            return self.linked[symbols]


_LINKER = _Linker()


def linked_count() -> int:
    """How many objects this process has linked."""
    return len(_LINKER.linked)


def link_kernel(name: str, text: str) -> Linked:
    """The machine code of a kernel's text, ``void(int64 begin, int64 end, int64* args)``."""
    symbol = _symbol(text)
    return _LINKER.get(text, name, (symbol,), lambda: _object(text, name, lambda: compile_kernel(text, symbol)))


def adopt_kernel(name: str, text: str, code: bytes) -> None:
    """Take the object code of a kernel's text from somewhere else; :func:`link_kernel` then compiles nothing."""
    _LINKER.get(text, name, (_symbol(text),), lambda: (code, True))


def _symbol(text: str) -> str:
    return f"kernel_{digest([select().name, text])}"


def link_runtime(symbols: tuple[str, ...]) -> Linked:
    """The machine code of Zenith's own native functions (:mod:`zenith.backends.cpu.launching`)."""

    def compiled() -> bytes:
        from zenith.backends.cpu import compiler

        return compiler.object_code(compiler.runtime_module(set(symbols)))

    return _LINKER.get("", _RUNTIME, symbols, lambda: _object("", _RUNTIME, compiled))


def adopt_runtime(symbols: tuple[str, ...], code: bytes) -> None:
    """Take the object code of the native functions from somewhere else; see :func:`adopt_kernel`."""
    _LINKER.get("", _RUNTIME, symbols, lambda: (code, True))


def kernel_text(kernel: Kernel) -> tuple[str, tuple[str, ...]]:
    """What a kernel's machine code follows from, and the sizes that it takes, in order.

    Sizes are named by the order of their first appearance, so that kernels equal but for symbols' names are one
    (where the names sort alike: products in index expressions are written in the order of names).
    """
    plain = replace(kernel, name="kernel", doc="", sizes=())
    words = dict.fromkeys(_WORD.findall(_source(plain)))
    sizes = tuple(word for word in words if word in kernel.sizes)
    stem = "size"
    while any(re.fullmatch(rf"{stem}\d+", word) for word in words):
        stem += "_"
    names = {size: f"{stem}{number}" for number, size in enumerate(sizes)}
    source = _source(replace(plain, sizes=sizes))
    return _WORD.sub(lambda match: names.get(match.group(), match.group()), source), sizes


def _source(kernel: Kernel) -> str:
    """A kernel's source without comments and documentation."""
    lines = CpuPrinter(with_lines=False).kernel(kernel).splitlines()
    return "\n".join(_COMMENT.sub("", line) for line in lines if line.strip() != '"""."""') + "\n"


def kernel_module(text: str, symbol: str) -> Any:
    """The optimised LLVM module of a kernel's text."""
    from zenith.backends.cpu import compiler

    function = define(text, "kernel", {**NAMESPACE, **TILE_FUNCTIONS, **compiler.INDEX_FUNCTIONS})
    try:
        return compiler.kernel_module(function, symbol)
    except CompileError as error:
        raise CompileError(
            f"{error.what}\n{text}", fix="this is a defect of Zenith: report it with the text above"
        ) from None


def compile_kernel(text: str, symbol: str) -> bytes:
    """The object code of a kernel's text."""
    from zenith.backends.cpu import compiler

    return compiler.object_code(kernel_module(text, symbol))


def define(source: str, name: str, namespace: Mapping[str, Any]) -> Any:
    """The Python function that a source defines; tracebacks and debuggers can show its text."""
    short = hashlib.sha256(source.encode()).hexdigest()[:8]
    filename = f"<zenith {name} {short}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = dict(namespace)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]


@cache
def _environment() -> dict[str, str]:
    """What object code depends on besides its text."""
    return {
        "generator": sources_digest(*_GENERATOR),
        "python": platform.python_version(),
        "numba": importlib.metadata.version("numba"),
        **machine.processor(),
    }


def _object(text: str, name: str, compile: Callable[[], bytes]) -> tuple[bytes, bool]:
    """The object code of a text, and whether it was in the cache."""
    folder = store()
    if folder is None:
        return compile(), False
    depends = {"text": digest([text or name]), "instructions": select().name, **_environment()}
    found = folder.read("object", depends)
    if found is not None:
        return found.payload, True
    code = compile()
    folder.write("object", depends, {"name": name, "source": text}, code)
    return code, False
