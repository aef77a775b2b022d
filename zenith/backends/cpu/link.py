"""Linking: from kernels to machine code. Each distinct kernel is compiled once on this machine, loaded once a process.

A kernel is known by its text (:mod:`texts`). Its machine code is looked for in the process, then in the cache on disk;
only what neither has is compiled, and only then Numba is imported.

Numba writes a kernel as LLVM IR, which takes the GIL, while LLVM, which does not, compiles the one before on a
background thread, where it is also loaded: LLVM's library admits one thread at a time. So whoever links begins all
kernels of a program, does meanwhile what needs but a few of them, and waits for each when it is needed. Another thread
that links waits until the first has left, so nothing is compiled twice.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from zenith import sources
from zenith.backends.cache import store
from zenith.backends.cpu import machine
from zenith.backends.cpu.code_memory import check_room
from zenith.backends.cpu.texts import kernel_function
from zenith.backends.cpu.vectors import select
from zenith.cached import cached_property
from zenith.errors import CompileError
from zenith.interrupts import deferred
from zenith.progress import current
from zenith.sources import digest
from zenith.temporary import Temporary

_HERE = Path(__file__).resolve().parent
_GENERATOR = (_HERE, _HERE.parent / "vecmath", _HERE.parent / "scalars.py")  # the sources that give a text its meaning
_RUNTIME = "runtime"
RECENT = 256  # objects that stay loaded though no program has them: functions are often made anew with equal kernels
_SOON = 2e-4  # seconds after which a thread that waits for the GIL gets it, while there is a background thread

_SHORT = 0.05  # seconds for which the handler of a signal waits at most

Symbols = tuple[str, ...]


def _switch_soon() -> float:
    """Have threads release the GIL soon; returns the interval that was set before."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SOON))
    return before


# A thread that returns from LLVM waits for the GIL until the one that writes kernels releases it: by default for 5 ms,
# and that some twenty times a kernel.
_switching_soon = Temporary(_switch_soon, sys.setswitchinterval)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Linked:
    """Machine code in this process, which is unloaded with this object: whoever runs it must have that.

    ``symbols`` and addresses of its functions, in order; the ``text`` it was made from; the object ``code`` as it is
    stored; what getting it took, in milliseconds, and whether it came from disk.
    """

    name: str
    symbols: Symbols
    loaded: machine.LoadedCode
    text: str
    code: bytes
    milliseconds: float
    cached: bool

    @property
    def addresses(self) -> tuple[int, ...]:
        """The addresses of its functions; those of other code once this is gone."""
        return self.loaded.addresses

    @property
    def address(self) -> int:
        """The address of its first function."""
        return self.addresses[0]


class _Source(NamedTuple):
    """The source of machine code: a kernel's text, or "" for the native functions; its name and symbols."""

    name: str
    text: str
    symbols: Symbols


class _Code(NamedTuple):
    """Object code, whether it was in the cache, and the milliseconds that making it took."""

    code: bytes
    cached: bool
    milliseconds: float


class _Linker:
    """The process's machine code that is in use, by symbols. ``lock`` is held by the thread that links."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.linked: weakref.WeakValueDictionary[Symbols, Linked] = weakref.WeakValueDictionary()
        self.recent: deque[Linked] = deque(maxlen=RECENT)
        self.count = 0
        self._loading = threading.Lock()

    def load(self, source: _Source, made: _Code) -> Linked:
        """The machine code of a source, from here or loaded from object code."""
        with self._loading:
            known = self.linked.get(source.symbols)
            if known is None:
                started = time.perf_counter()
                loaded = machine.load(made.code, source.symbols)
                took = made.milliseconds + _milliseconds_since(started)
                known = Linked(source.name, source.symbols, loaded, source.text, made.code, took, made.cached)
                self.linked[source.symbols] = known
                self.recent.append(known)
                self.count += 1
            return known


_LINKER = _Linker()


def linked_count() -> int:
    """How many objects this process has linked, those that are unloaded by now included."""
    return _LINKER.count


class Linking:
    """Machine code that is being made, as long as :func:`linking` is not left."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self._is_alone = False
        self._work = current()
        self._begun: dict[Symbols, Future[Linked]] = {}

    def kernels(self, texts: Mapping[str, str]) -> dict[str, Future[Linked]]:
        """The machine code of kernels, by their names."""
        sources = [_Source(name, text, (_symbol(text),)) for name, text in texts.items()]
        self._work.expect(len({source.symbols for source in sources} - {*self._begun}))
        return {source.name: self._begin(source, self._kernel) for source in sources}

    def runtime(self, symbols: Symbols) -> Future[Linked]:
        """The machine code of Zenith's own native functions (:mod:`zenith.backends.cpu.native`)."""
        return self._begin(_Source(_RUNTIME, "", symbols), self._native)

    def _begin(self, source: _Source, write: Callable[[_Source], Callable[[], Any]]) -> Future[Linked]:
        """Look for machine code in the process and on disk; what is in neither is written, and compiled meanwhile."""
        if source.symbols not in self._begun:
            known = self._known(source)
            future = self._begun[source.symbols] = self._written(source, write) if known is None else _done(known)
            if source.name != _RUNTIME:
                future.add_done_callback(lambda _: self._work.advance())
        return self._begun[source.symbols]

    def _known(self, source: _Source) -> Linked | None:
        """Machine code that is in the process or on disk."""
        known = _LINKER.linked.get(source.symbols)
        if known is None:
            self._alone()  # from now on, so that another thread may be the one that makes it
            known = _LINKER.linked.get(source.symbols)
        stored = _stored(source) if known is None else None
        return known if stored is None else _LINKER.load(source, stored)

    def _written(self, source: _Source, write: Callable[[_Source], Callable[[], Any]]) -> Future[Linked]:
        check_room()
        started = time.perf_counter()
        optimized = write(source)
        return self._submit(partial(_made, source, optimized, _milliseconds_since(started)))

    def _kernel(self, source: _Source) -> Callable[[], Any]:
        """Write a kernel; what is returned optimises it."""
        from zenith.backends.cpu import compiler

        with _explained(source.text):
            written = compiler.written_kernel(kernel_function(source.text), *source.symbols)
        return lambda: compiler.optimized_kernel(written)

    def _native(self, source: _Source) -> Callable[[], Any]:
        """Write the native functions; what is returned optimises them."""
        from zenith.backends.cpu import compiler

        written = compiler.written_runtime()
        return lambda: compiler.optimized_runtime(written, {*source.symbols})

    def _alone(self) -> None:
        """Wait until no other thread links, and keep it so."""
        while not self._is_alone:
            with deferred():
                if _LINKER.lock.acquire(timeout=_SHORT):
                    self._ends.callback(_LINKER.lock.release)
                    self._is_alone = True

    def finish(self) -> None:
        """Wait for all that was begun."""
        for future in self._begun.values():
            future.result()

    def _submit(self, job: Callable[[], Linked]) -> Future[Linked]:
        try:
            with deferred():
                return self._thread.submit(job)
        except RuntimeError:  # the main thread has ended, and executors take no work any more
            return _done(job())

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        """The background thread. After an error it ends when the kernel that it is compiling is done."""
        self._ends.enter_context(_switching_soon)
        thread = ThreadPoolExecutor(1, "zenith-link")
        self._ends.callback(thread.shutdown, wait=False, cancel_futures=True)  # nobody waits for what nobody wants
        return thread


@contextmanager
def linking() -> Iterator[Linking]:
    """Machine code for a program: all that was begun is there when this is left, unless by an error."""
    ends = ExitStack()
    try:
        begun = Linking(ends)
        yield begun
        begun.finish()
    finally:
        _end(ends)


def _end(ends: ExitStack) -> None:
    """Run all callbacks, although an interrupt may come before the first."""
    try:
        with deferred():
            ends.close()
    except BaseException:
        ends.close()
        raise


def link_kernels(texts: Mapping[str, str]) -> dict[str, Linked]:
    """The machine code of kernels, ``void(int64 begin, int64 end, int64* args)``, by their names."""
    with linking() as begun:
        return finished(begun.kernels(texts))


def link_kernel(name: str, text: str) -> Linked:
    """The machine code of one kernel's text."""
    return link_kernels({name: text})[name]


def link_runtime(symbols: Symbols) -> Linked:
    """The machine code of Zenith's own native functions."""
    with linking() as begun:
        return begun.runtime(symbols).result()


def finished(begun: Mapping[str, Future[Linked]]) -> dict[str, Linked]:
    """Machine code that was begun, when it is there."""
    return {name: future.result() for name, future in begun.items()}


@contextmanager
def adopted_kernels(codes: Iterable[tuple[str, str, bytes]]) -> Iterator[None]:
    """Have object code from somewhere else: names, kernels' texts and codes; linking these inside compiles nothing."""
    loaded = [_LINKER.load(_Source(name, text, (_symbol(text),)), _Code(code, True, 0.0)) for name, text, code in codes]
    yield
    loaded.clear()


@contextmanager
def adopted_runtime(symbols: Symbols, code: bytes) -> Iterator[None]:
    """The same for the native functions."""
    loaded = [_LINKER.load(_Source(_RUNTIME, "", symbols), _Code(code, True, 0.0))]
    yield
    loaded.clear()


def kernel_module(text: str, symbol: str) -> Any:
    """The optimised LLVM module of a kernel's text."""
    from zenith.backends.cpu import compiler

    with _explained(text):
        return compiler.kernel_module(kernel_function(text), symbol)


def _symbol(text: str) -> str:
    return f"kernel_{digest([select().name, text])}"


def _made(source: _Source, optimized: Callable[[], Any], milliseconds: float) -> Linked:
    """Compile a source that was written in so many milliseconds, and store its object in the cache."""
    from zenith.backends.cpu import compiler

    started = time.perf_counter()
    with _explained(source.text):
        code = compiler.object_code(optimized())
    return _LINKER.load(source, _keep(source, code, milliseconds + _milliseconds_since(started)))


def _done(linked: Linked) -> Future[Linked]:
    future: Future[Linked] = Future()
    future.set_result(linked)
    return future


@contextmanager
def _explained(text: str) -> Iterator[None]:
    """Errors contain the text that does not compile."""
    try:
        yield
    except CompileError as error:
        fix = "this is a defect of Zenith: report it with the text above"
        raise CompileError(f"{error.what}\n{text}", fix=fix) from None


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


@cache
def _environment() -> dict[str, str]:
    """What object code depends on in addition to its text."""
    return {
        "generator": sources.OWN.digest(*_GENERATOR),
        "python": platform.python_version(),
        "numba": _numba_version(),
        **machine.processor(),
    }


def _numba_version() -> str:
    """The version that this process has imported; of one that it has not, the one that is installed."""
    imported = sys.modules.get("numba")
    return importlib.metadata.version("numba") if imported is None else str(imported.__version__)


def _depends(source: _Source) -> dict[str, str]:
    """What the object code of a text follows from."""
    return {"text": digest([source.text or source.name]), "instructions": select().name, **_environment()}


def _stored(source: _Source) -> _Code | None:
    """The object code of a text from the cache."""
    started = time.perf_counter()
    folder = store()
    found = None if folder is None else folder.read("object", _depends(source), bytes)
    return None if found is None else _Code(found, True, _milliseconds_since(started))


def _keep(source: _Source, code: bytes, milliseconds: float) -> _Code:
    """Object code that was compiled here, stored in the cache.

    Unless another Numba made it than was installed when the cache was first asked.
    """
    folder = store()
    if folder is not None and _numba_version() == _environment()["numba"]:
        folder.write("object", _depends(source), source.name, source.text, code)
    return _Code(code, False, milliseconds)


def _after_fork_in_child() -> None:
    _LINKER.lock, _LINKER._loading = threading.RLock(), threading.Lock()  # only the parent has their owners


os.register_at_fork(after_in_child=_after_fork_in_child)
