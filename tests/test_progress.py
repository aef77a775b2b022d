"""Progress: a bar on terminals and in notebooks, for what takes long, and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from zenith import progress
from zenith.config import Config, ConfigError, config

ROOT = Path(__file__).resolve().parents[1]
# A compilation that takes a second, in a pass of the user's.
PROGRAM = """
import os, sys, threading, time
import numpy as np
import zenith, zenith.progress

zenith.progress.DELAY, zenith.progress.INTERVAL = 0.2, 0.05

def slow(graph):
    time.sleep(0.6)
    return graph

def softened(x):
    return np.sum(np.exp(x), axis=0), np.sum(np.tanh(x), axis=1)

def compiled(step, backend="reference"):
    return zenith.jit(softened, passes=[step], backend=backend)(np.ones((3, 4)))

def threads():
    return [t.name for t in threading.enumerate() if t.name == "zenith-progress"]
"""
CALL = PROGRAM + "compiled(slow)\nprint('done', threads())"


def started(code: str, stderr: int, **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)  # fmt: skip


def on_terminal(code: str, until: bytes = b"", **variables: str) -> tuple[str, str]:
    """What a program writes to stdout, and to the terminal that is its stderr; interrupted once that has ``until``."""
    terminal, slave = pty.openpty()
    with started(code, slave, **variables) as process:
        os.close(slave)
        seen = b""
        while True:
            try:
                read = os.read(terminal, 4096)
            except OSError:  # the other side is closed
                break
            seen += read
            if until and until in seen:
                process.send_signal(signal.SIGINT)
                until = b""
        assert process.stdout is not None
        written = process.stdout.read()
    os.close(terminal)
    assert process.returncode == 0, seen
    return written, seen.decode()


def left_on_screen(seen: str) -> str:
    """What a terminal's line shows in the end, of what was written without a line's end."""
    return re.split(r"\x1b\[2K|\r", seen)[-1]


SESSION = (
    PROGRAM
    + """
import warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # what forks here is tested

def at(mark):
    print(mark, threads())
    print(f"<{mark}>", end="", file=sys.stderr, flush=True)

compiled(slow)
at("shown")

def broken(graph):
    time.sleep(0.6)
    raise KeyError("a pass of the user's")

try:
    compiled(broken)
except KeyError:
    at("raised")

def forks(graph):
    time.sleep(0.4)
    forks.child = os.fork()
    return graph

def ended(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

compiled(forks)
if not forks.child:
    os._exit(threads() != [])
ended(forks.child)
at("forked")
child = os.fork()
if not child:
    compiled(slow)
    os._exit(0)
ended(child)
at("child")
thread = threading.Thread(target=compiled, args=(slow,))
thread.start()
thread.join()
at("thread")
zenith.config.progress = False
compiled(slow)
at("off")
zenith.config.progress, zenith.progress.DELAY = None, 60.0
compiled(slow)
at("short")
"""
)


def test_what_a_terminal_shows() -> None:
    """A bar that is gone after results, errors and forks; children, threads and short compilations show none."""
    written, seen = on_terminal(SESSION)
    marks = ["shown", "raised", "forked", "child", "thread", "off", "short"]
    assert written.splitlines() == [f"{mark} []" for mark in marks]
    parts = re.split("<([a-z]+)>", seen)
    assert parts[1::2] == marks and parts[-1] == "" and "\x1b[?25l" not in seen, "the cursor was never hidden"
    for part in parts[0:6:2]:
        assert "softened: tracing" in part and left_on_screen(part) == ""
    assert parts[6::2] == [""] * 5


def test_kernels_are_counted() -> None:
    code = f"""{PROGRAM}
from zenith.backends.cpu import compiler
optimized = compiler.optimized_kernel
compiler.optimized_kernel = lambda written: (time.sleep(0.5), optimized(written))[1]
compiled(lambda graph: graph, backend="cpu")
"""
    _, seen = on_terminal(code, ZENITH_CACHE="0")  # where another test may have stored one of them
    assert "softened: kernels 1 of 3" in seen and "softened: kernels 2 of 3" in seen and left_on_screen(seen) == ""


DRAWS = """
import random
random.seed(5)
expected = random.getstate()
compiled(slow)
assert "rich.progress" in sys.modules and random.getstate() == expected
"""
REPORT = """
import random, sys, zenith
from zenith.batches import batches_of
expected = random.getstate()
REPORTED
assert "rich.style" in sys.modules and random.getstate() == expected
"""


@pytest.mark.parametrize(
    "code",
    [
        PROGRAM + DRAWS,
        REPORT.replace("REPORTED", "str(zenith.kernels.table())"),
        REPORT.replace("REPORTED", "list(batches_of('batches', [1, 2], progress=True))"),
    ],
)
def test_python_s_random_numbers_stay_the_program_s(code: str) -> None:
    """rich draws one when it is imported, which was refused as a module's own where it was traced meanwhile."""
    with started(code, subprocess.PIPE, ZENITH_PROGRESS="1") as process:
        errors = process.communicate()[1]
    assert process.returncode == 0, errors


@pytest.mark.parametrize(("setting", "shows"), [("auto", False), ("1", True)])
def test_pipes_stay_empty_unless_it_is_asked_for(setting: str, shows: bool) -> None:
    with started(CALL, subprocess.PIPE, ZENITH_PROGRESS=setting) as process:
        written, errors = process.communicate()
    assert written == "done []\n" and ("softened: tracing" in errors) == shows and bool(errors) == shows


def test_an_interrupt_leaves_a_clean_terminal() -> None:
    code = f"""{PROGRAM}
try:
    compiled(slow)
except KeyboardInterrupt:
    print("interrupted", threads())
"""
    written, seen = on_terminal(code, until=b"tracing")
    assert written == "interrupted []\n" and left_on_screen(seen) == ""


class Terminal:
    """A stderr that is one, and is closed when something is written."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise ValueError("I/O operation on closed file")

    def flush(self) -> None:
        raise ValueError("I/O operation on closed file")


def test_a_terminal_that_goes_away_does_not_stop_the_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "DELAY", 0.01)
    with progress.shown("step"):
        drawing = [t for t in threading.enumerate() if t.name == "zenith-progress"]
        assert progress.current().name == "step" and len(drawing) == 1
        with progress.shown("inner"):
            assert progress.current().name == "step", "what is compiled meanwhile is a part of it"
        drawing[0].join(timeout=60)
        assert not drawing[0].is_alive()
    assert progress.current().name == ""


@pytest.mark.parametrize(
    ("isatty", "term", "setting", "wanted"),
    [(True, "xterm", None, True), (True, "dumb", None, False), (True, "xterm", False, False),
     (False, "xterm", None, False), (False, "dumb", True, True)],
)  # fmt: skip
def test_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, isatty: bool, term: str, setting: bool | None, wanted: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(terminal, "isatty", lambda: isatty)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(config, "progress", setting)
    assert progress._is_wanted() == wanted
    monkeypatch.setattr(progress, "_is_in_pool", lambda: True)
    assert not progress._is_wanted()


def test_without_threads_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(progress, "_is_wanted", lambda: True)
    monkeypatch.setattr(threading.Thread, "start", refused)
    with progress.shown("step"):
        assert progress.current().name == "step"
    assert progress.current().name == ""


def test_the_setting() -> None:
    assert config.progress is None
    for text, value in {"auto": None, "0": False, "1": True}.items():
        assert Config.from_environment({"ZENITH_PROGRESS": text}).progress is value
    with pytest.raises(ConfigError, match=r"ZENITH_PROGRESS=2 .* must be 0, 1 or auto"):
        Config.from_environment({"ZENITH_PROGRESS": "2"})
    with pytest.raises(ConfigError, match="must be True, False or None"):
        Config().progress = "auto"  # type: ignore[assignment]


def test_a_kernel_of_a_notebook_shows_it_below_the_cell() -> None:
    """The messages of a real kernel: texts that replace each other, and an empty one at the end."""
    manager = pytest.importorskip("jupyter_client.manager")
    with tempfile.TemporaryDirectory() as folder:
        kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(ROOT), env={
            **os.environ, "IPYTHONDIR": folder, "PYTHONPATH": str(ROOT)})  # fmt: skip
        shown: list[dict[str, Any]] = []
        try:
            reply = client.execute_interactive(CALL, timeout=120, output_hook=shown.append)
        finally:
            client.stop_channels()
            kernel.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply
    assert [m["content"]["text"] for m in shown if m["msg_type"] == "stream"] == ["done []\n"]
    first, *later = [m for m in shown if m["msg_type"] in ("display_data", "update_display_data")]
    texts = [message["content"]["data"]["text/plain"] for message in later]
    assert first["msg_type"] == "display_data" and {m["msg_type"] for m in later} == {"update_display_data"}
    assert any(text.startswith("softened: tracing") for text in texts) and texts[-1] == ""
