"""Interrupts: what must not be interrupted half-way is done before the handlers of signals run.

Python runs a handler in the main thread between any two byte codes, and many raise: KeyboardInterrupt, or the
exception of a time limit. Where that would leave a lock taken or a table half written, handlers wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

Handler = Callable[[int, FrameType | None], object]
_NAMES = ("SIGINT", "SIGALRM", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))


class deferred:
    """Defer handlers until this is left; for work of a moment. In other threads, which run none, it does nothing.

    >>> import signal
    >>> before = signal.signal(signal.SIGALRM, lambda *_: print("handled"))
    >>> with deferred():
    ...     signal.raise_signal(signal.SIGALRM)
    ...     print("to the end")
    to the end
    handled
    >>> _ = signal.signal(signal.SIGALRM, before)
    """

    def __init__(self) -> None:
        self._before: dict[int, Handler] = {}
        self._arrived: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._before[number] = handler
                    signal.signal(number, self._note)
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        handlers = dict(self._before)
        self._restore()
        self._run(handlers)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append((number, frame))

    def _run(self, handlers: Mapping[int, Handler]) -> None:
        """Run the handlers of all signals that arrived, though one may raise."""
        while self._arrived:
            number, frame = self._arrived.pop(0)
            try:
                handlers[number](number, frame)
            except BaseException:
                self._run(handlers)
                raise

    def _restore(self) -> None:
        try:
            while self._before:
                number = next(iter(self._before))
                signal.signal(number, self._before[number])
                del self._before[number]
        except BaseException:
            self._restore()
            raise
