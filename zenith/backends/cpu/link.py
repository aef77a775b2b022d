"""Linking: from kernels to machine code. Each distinct kernel is compiled once on this machine, loaded once a process.

A kernel is known by its *text*: its source without names, comments and lines, so equal layers share one. Its object
code is looked for in the process, then in the cache on disk; only what neither has is compiled, and only then Numba is
imported. A thread that needs machine code waits while another makes that of a program, so nothing is compiled twice.
Numba writes a kernel in LLVM's language, which takes Python's lock, while LLVM, which does not, optimises the one in
front on a thread beside.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import linecache
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

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


class _Code(NamedTuple):
    """Object code, whether it was in the cache, and the milliseconds that making it took."""

    code: bytes
    cached: bool
    milliseconds: float


class _Linker:
    """The process's machine code, by symbols."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.linked: dict[tuple[str, ...], Linked] = {}

    def get(self, text: str, name: str, symbols: tuple[str, ...], obtain: Callable[[], _Code]) -> Linked:
        """The machine code of ``text``, known by its symbols, from here or as it is obtained."""
        known = self.linked.get(symbols)
        if known is not None:
            return known
        with self.lock:
            if symbols not in self.linked:
                code, cached, milliseconds = obtain()
                started = time.perf_counter()
                addresses = machine.load(code, symbols)
                milliseconds += _milliseconds_since(started)
                self.linked[symbols] = Linked(name, addresses, text, code, milliseconds, cached)
            return self.linked[symbols]


_LINKER = _Linker()


def linked_count() -> int:
    """How many objects this process has linked."""
    return len(_LINKER.linked)


def link_kernel(name: str, text: str) -> Linked:
    """The machine code of a kernel's text, ``void(int64 begin, int64 end, int64* args)``."""
    return link_kernels({name: text})[name]


def link_kernels(texts: Mapping[str, str]) -> dict[str, Linked]:
    """The machine code of kernels, by their names."""
    symbols = {name: (_symbol(text),) for name, text in texts.items()}
    if not all(known in _LINKER.linked for known in symbols.values()):
        _link_missing({symbols[name]: (name, text) for name, text in texts.items()})
    return {name: _LINKER.linked[known] for name, known in symbols.items()}


def _link_missing(kernels: Mapping[tuple[str], tuple[str, str]]) -> None:
    with _LINKER.lock:
        missing = {known: kernel for known, kernel in kernels.items() if known not in _LINKER.linked}
        optimizer = ThreadPoolExecutor(1)
        try:
            obtained = {known: _begin(name, text, known[0], optimizer) for known, (name, text) in missing.items()}
            for known, (name, text) in missing.items():
                _LINKER.get(text, name, known, obtained[known])
        finally:
            optimizer.shutdown(cancel_futures=True)  # after an error the rest is not waited for


def adopt_kernel(name: str, text: str, code: bytes) -> None:
    """Take the object code of a kernel's text from somewhere else; :func:`link_kernel` then compiles nothing."""
    _LINKER.get(text, name, (_symbol(text),), lambda: _Code(code, True, 0.0))


def _symbol(text: str) -> str:
    return f"kernel_{digest([select().name, text])}"


def link_runtime(symbols: tuple[str, ...]) -> Linked:
    """The machine code of Zenith's own native functions (:mod:`zenith.backends.cpu.launching`)."""

    def obtain() -> _Code:
        stored = _stored("", _RUNTIME)
        if stored is not None:
            return stored
        from zenith.backends.cpu import compiler

        started = time.perf_counter()
        code = compiler.object_code(compiler.runtime_module(set(symbols)))
        return _keep("", _RUNTIME, code, _milliseconds_since(started))

    return _LINKER.get("", _RUNTIME, symbols, obtain)


def adopt_runtime(symbols: tuple[str, ...], code: bytes) -> None:
    """Take the object code of the native functions from somewhere else; see :func:`adopt_kernel`."""
    _LINKER.get("", _RUNTIME, symbols, lambda: _Code(code, True, 0.0))


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

    with _explained(text):
        return compiler.optimized_kernel(_written(text, symbol))


def _written(text: str, symbol: str) -> Any:
    """A kernel's text in LLVM's language."""
    from zenith.backends.cpu import compiler

    function = define(text, "kernel", {**NAMESPACE, **TILE_FUNCTIONS, **compiler.INDEX_FUNCTIONS})
    return compiler.written_kernel(function, symbol)


@contextmanager
def _explained(text: str) -> Iterator[None]:
    """An error tells the text that does not compile."""
    try:
        yield
    except CompileError as error:
        fix = "this is a defect of Zenith: report it with the text above"
        raise CompileError(f"{error.what}\n{text}", fix=fix) from None


def _begin(name: str, text: str, symbol: str, optimizer: Executor) -> Callable[[], _Code]:
    """Look for a kernel in the cache, or write it and have it optimised; what is returned waits for its code."""
    stored = _stored(text, name)
    if stored is not None:
        return lambda: stored
    started = time.perf_counter()
    with _explained(text):
        written = _written(text, symbol)
    job = partial(_optimized, name, text, written, _milliseconds_since(started))
    try:
        return optimizer.submit(job).result
    except RuntimeError:  # the main thread has ended, and executors take no work any more
        return job


def _optimized(name: str, text: str, written: Any, milliseconds: float) -> _Code:
    """The object code of a kernel that took so long to write, kept in the cache."""
    from zenith.backends.cpu import compiler

    started = time.perf_counter()
    with _explained(text):
        code = compiler.object_code(compiler.optimized_kernel(written))
    return _keep(text, name, code, milliseconds + _milliseconds_since(started))


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


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


def _depends(text: str, name: str) -> dict[str, str]:
    """What the object code of a text follows from."""
    return {"text": digest([text or name]), "instructions": select().name, **_environment()}


def _stored(text: str, name: str) -> _Code | None:
    """The object code of a text from the cache."""
    started = time.perf_counter()
    folder = store()
    found = None if folder is None else folder.read("object", _depends(text, name))
    return None if found is None else _Code(found.payload, True, _milliseconds_since(started))


def _keep(text: str, name: str, code: bytes, milliseconds: float) -> _Code:
    """Object code that was made here, kept in the cache."""
    folder = store()
    if folder is not None:
        folder.write("object", _depends(text, name), {"name": name, "source": text}, code)
    return _Code(code, False, milliseconds)
