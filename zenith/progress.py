"""Progress of compilations: what a long one is at, as a bar that is gone when it ends.

A compilation of the main thread says what it is doing (``BertModel: kernels 9 of 14``) when it has taken two seconds,
where somebody may look: on a terminal or in a notebook, and by default nowhere else (``zenith.config.progress``). Pipes
and files, threads of servers and processes of pools show nothing, and neither do forked children.

Stages report to the *work* of their thread, which costs nothing where nothing is shown. A thread draws: it starts with
the compilation and has ended when that does, by an error or an interrupt, too.
"""

from __future__ import annotations

import contextvars
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from zenith.config import config
from zenith.interrupts import deferred

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

DELAY = 2.0  # seconds before anything is shown
INTERVAL = 0.2  # seconds between two pictures
WIDTH = 80  # of a bar in a notebook

log = logging.getLogger("zenith.progress")


@dataclass
class Work:
    """One compilation: its name, the stage that it is at, how many parts that has, and those that are done."""

    name: str
    stage: str = "tracing"
    total: int = 0
    _done: list[None] = field(default_factory=list)  # threads append to it, which takes no lock

    def begin(self, stage: str, total: int = 0) -> None:
        """Go to a stage of so many parts; of none where they are not counted, or found later."""
        self.stage, self.total, self._done = stage, total, []

    def expect(self, parts: int) -> None:
        """Add parts to the stage."""
        self.total += parts

    def advance(self) -> None:
        """Note that one part is done."""
        self._done.append(None)

    @property
    def done(self) -> int:
        """How many parts are done."""
        return len(self._done)

    def __str__(self) -> str:
        count = f" {self.done} of {self.total}" if self.total else ""
        return f"{self.name}: {self.stage}{count}"


class _Here(threading.local):
    """What is shown for a thread."""

    work: Work | None = None


_here = _Here()
_is_child: list[None] = []  # empty in a process that was not forked while this module was there
os.register_at_fork(after_in_child=lambda: _is_child.append(None))


def current() -> Work:
    """The work of this thread that is shown, or one that nobody sees."""
    return _here.work or Work("")


@contextmanager
def shown(name: str) -> Iterator[None]:
    """While this lasts longer than ``DELAY``, what it is doing is shown, if it is to be shown here at all."""
    if not _is_wanted():
        yield
        return
    import_rich()  # here, where nobody else draws meanwhile: tracing refuses modules that draw
    work, ended, process = Work(name), threading.Event(), os.getpid()
    context = contextvars.copy_context()  # by which a notebook knows the cell
    thread = threading.Thread(target=context.run, args=(_show, work, ended), name="zenith-progress", daemon=True)
    try:
        _here.work = work
        _start(thread)
        yield
    finally:
        with deferred():
            _here.work = None
            if os.getpid() == process and thread.ident is not None:  # a forked child has no such thread
                ended.set()
                thread.join()


def import_rich() -> None:
    """Import rich, which draws a number of Python's generator as it is imported: the program's stay the same."""
    if "rich.style" not in sys.modules:
        state = random.getstate()
        import rich.style  # noqa: F401

        random.setstate(state)


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # the process ends, or has too many threads: it compiles all the same
        log.debug("progress is not shown: %s", error)


def _is_wanted() -> bool:
    """Whether a compilation that begins here is to be shown; one inside of another is part of that."""
    if config.progress is False or _here.work is not None or threading.current_thread() is not threading.main_thread():
        return False
    if _is_child or _is_in_pool():
        return False
    return config.progress is True or _is_notebook() or _is_terminal()


def _is_in_pool() -> bool:
    """Whether this process was started by :mod:`multiprocessing`."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _is_terminal() -> bool:
    """Whether errors go to a terminal that can draw a line again."""
    try:
        return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"
    except ValueError:  # it is closed
        return False


def _show(work: Work, ended: threading.Event) -> None:
    """Draw the work from ``DELAY`` on until it has ended."""
    began = time.monotonic()
    if ended.wait(DELAY):
        return
    try:
        view: _View = _Notebook() if _is_notebook() else _Terminal()
        try:
            while not ended.is_set():
                view.draw(work, time.monotonic() - began)
                ended.wait(INTERVAL)
        finally:
            view.remove()
    except (OSError, ValueError) as error:  # the terminal is gone, or stderr closed: there is nowhere to draw
        log.debug("progress is not shown any more: %s", error)


class _View(Protocol):
    def draw(self, work: Work, seconds: float) -> None:
        """Draw what was done after so many seconds."""

    def remove(self) -> None:
        """Leave nothing."""


class _Terminal:
    """A line of a terminal, by rich."""

    def __init__(self) -> None:
        from rich.console import Console

        class VisibleCursor(Console):
            """The cursor stays: a process that is killed could not show it again."""

            def show_cursor(self, show: bool = True) -> bool:
                return False

        self._console = VisibleCursor(stderr=True, force_terminal=True)
        self._bar = _bar(self._console)

    def draw(self, work: Work, seconds: float) -> None:
        _update(self._bar, work, seconds)
        self._bar.start()
        self._bar.refresh()

    def remove(self) -> None:
        self._bar.stop()


class _Notebook:
    """A text below a cell, which is replaced."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def draw(self, work: Work, seconds: float) -> None:
        self._handle.update({"text/plain": picture(work, seconds)}, raw=True)

    def remove(self) -> None:
        self._handle.update({"text/plain": ""}, raw=True)


def picture(work: Work, seconds: float) -> str:
    """What is shown in a notebook.

    >>> work = Work("step", "kernels", 2)
    >>> work.advance()
    >>> print(picture(work, 3.4))
    step: kernels 1 of 2 ━━━━━━━━━━━━━━━━━━━━                     3 s
    """
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_jupyter=False)
    bar = _bar(console)
    _update(bar, work, seconds)
    with console.capture() as drawn:
        console.print(bar.get_renderable())
    return drawn.get().rstrip()


def _bar(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[seconds]} s"))
    bar = Progress(*columns, console=console, auto_refresh=False, transient=True,
                   redirect_stdout=False, redirect_stderr=False)  # fmt: skip
    bar.add_task("", total=None, seconds=0)
    return bar


def _update(bar: Progress, work: Work, seconds: float) -> None:
    task = bar.task_ids[0]
    bar.update(task, description=str(work), completed=work.done, total=work.total or None, seconds=round(seconds))
