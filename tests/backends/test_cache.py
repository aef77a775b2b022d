"""The cache on disk: entries are read as written or not at all, whatever happens to files and whoever else writes."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zenith.backends import cache
from zenith.backends.archive import FORMAT
from zenith.backends.cache import ABANDONED, SUFFIX, TEMPORARY, DiskCache
from zenith.errors import CacheWarning

ROOT = Path(__file__).resolve().parents[2]
MADE_OF = {"text": "x + y", "version": "1"}
PAYLOAD = bytes(range(256)) * 10 + b"\n{}\n"


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 1 << 20)


def put(store: DiskCache, text: str = "x + y", payload: bytes = PAYLOAD) -> Path:
    """Write an entry; its file."""
    store.write("object", MADE_OF | {"text": text}, text, text, payload)
    return store._path("object", MADE_OF | {"text": text})


def test_an_entry_is_read_as_it_was_written(store: DiskCache) -> None:
    assert store.read("object", MADE_OF, bytes) is None
    file = put(store)
    assert store.read("object", MADE_OF, bytes) == PAYLOAD and b'"x + y"' in file.read_bytes()
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("other", [{"text": "x - y"}, {"version": "2"}, {"processor": "new"}], ids=str)
def test_whatever_it_depends_on_is_in_its_name(store: DiskCache, other: dict[str, str]) -> None:
    put(store)
    assert store.read("object", MADE_OF | other, bytes) is None and store.read("program", MADE_OF, bytes) is None


def _spoil(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda file: (file.write_bytes(change(file.read_bytes())), None)[1]


def _replace_by_link(file: Path) -> None:
    file.rename(file.with_suffix(".elsewhere"))
    file.symlink_to(file.with_suffix(".elsewhere"))


def _replace_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda file: (file.unlink(), make(file), None)[2]


def _socket(file: Path) -> None:
    here = os.open(file.parent, os.O_RDONLY)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{file.name}")
    os.close(here)


def _replaced_by_another(file: Path) -> None:
    """A whole entry under another's name."""
    os.replace(put(DiskCache(file.parent, 1 << 20), "x - y"), file)


def _replaced_by_text(file: Path) -> None:
    DiskCache(file.parent, 1 << 20).write("object", MADE_OF, "x + y", "x + y", "text")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a changed byte": (_spoil(lambda data: data[:-20] + b"?" + data[-19:]), "have changed"),
    "a changed byte of the payload": (_spoil(lambda data: data.replace(PAYLOAD, PAYLOAD[::-1])), "have changed"),
    "cut off": (_spoil(lambda data: data[:-1]), "cut off"),
    "cut off in the header": (_spoil(lambda data: data[:30]), "cut off"),
    "nothing": (_spoil(lambda data: b""), "not saved by Zenith"),
    "another header": (_spoil(lambda data: b"[1]" + data[data.index(b"\n") :]), "not saved by Zenith"),
    "a changed header": (_spoil(lambda data: data.replace(b"x + y", b"x - y")), "have changed"),
    "an older format": (_spoil(lambda data: data.replace(FORMAT.encode(), b"zenith archive 0")), "has the format"),
    "made from something else": (_replaced_by_another, "something else"),
    "another type": (_replaced_by_text, "not what was written"),
    "writable by the group": (lambda file: file.chmod(0o660), "other users may write"),
    "writable by all": (lambda file: file.chmod(0o602), "other users may write"),
    "a link": (_replace_by_link, "symbolic links"),
    "nested brackets": (_spoil(lambda data: b"[" * 100_000 + b"\n" + data), "not saved by Zenith"),
    "a pipe": (_replace_by(os.mkfifo), "Not a regular file"),
    "a socket": (_replace_by(_socket), "No such device|Not a regular file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_trusted_is_a_miss_and_one_warning(store: DiskCache, damage: str) -> None:
    spoil, why = DAMAGES[damage]
    spoil(put(store))
    with pytest.warns(CacheWarning, match=f"(?s)object-.* is not used: .*{why}.*fix: ") as seen:
        assert store.read("object", MADE_OF, bytes) is None
    assert len(seen) == 1
    put(store)
    assert store.read("object", MADE_OF, bytes) == PAYLOAD, "the next compilation repairs it"


def test_what_belongs_to_another_user_is_not_used(store: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(store)
    for path in (file, store.folder) if os.geteuid() == 0 else ():
        os.chown(path, 54321, -1)  # root is trusted
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(CacheWarning, match="it belongs to another user"):
        assert store.read("object", MADE_OF, bytes) is None
    with pytest.warns(CacheWarning, match="(?s)the cache folder .* belongs to another user.*ZENITH_CACHE_DIR"):
        other = DiskCache(store.folder, store.limit)
    put(other)
    assert other.read("object", MADE_OF, bytes) is None


def test_a_folder_that_others_can_write_is_not_used(store: DiskCache) -> None:
    put(store)
    store.folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="(?s)other users may write to it.*chmod go-w"):
        other = DiskCache(store.folder, store.limit)
    assert other.read("object", MADE_OF, bytes) is None


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("where", ["mkstemp", "write"])
def test_a_folder_that_cannot_be_written_is_one_warning(
    store: DiskCache, monkeypatch: pytest.MonkeyPatch, problem: int, where: str
) -> None:
    put(store)

    class Full:
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, _: bytes) -> None:
            raise OSError(problem, os.strerror(problem))

    def refuse(*_: object, **__: object) -> Any:
        raise OSError(problem, os.strerror(problem))

    if where == "mkstemp":
        monkeypatch.setattr(cache.tempfile, "mkstemp", refuse)
    else:
        monkeypatch.setattr(os, "fdopen", lambda *_: Full())
    with pytest.warns(CacheWarning, match=r"(?s)nothing more is cached in .*\[Errno.*ZENITH_CACHE=0"):
        put(store, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put(store, "2")
    monkeypatch.undo()
    assert store.read("object", MADE_OF, bytes) is not None, "what is there is used"
    assert [f.name for f in store.folder.iterdir() if f.name.startswith(TEMPORARY)] == []


def _refusing(problem: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(problem, os.strerror(problem))

    return refuse


@pytest.mark.parametrize("problem", [errno.EROFS, errno.EPERM, errno.EACCES])
def test_a_folder_that_is_only_read_is_used_without_a_warning(
    store: DiskCache, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    put(store)
    monkeypatch.setattr(os, "utime", _refusing(problem))
    for _ in range(2):
        assert store.read("object", MADE_OF, bytes) == PAYLOAD


def test_what_belongs_to_root_is_used_by_others(store: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.stat(put(store))
    as_root = os.stat_result((status.st_mode, *status[1:4], 0, *status[5:]))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    for function in ("stat", "fstat"):
        monkeypatch.setattr(os, function, lambda *_, **__: as_root)
    assert DiskCache(store.folder, store.limit).read("object", MADE_OF, bytes) is not None


@pytest.mark.parametrize("problem", [errno.EACCES, errno.EPERM, errno.ENOTDIR])
def test_a_folder_that_cannot_be_read_is_one_warning(
    store: DiskCache, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    put(store)
    monkeypatch.setattr(os, "open", _refusing(problem))
    with pytest.warns(CacheWarning, match=r"(?s)the cache folder .* is not used: \[Errno.*ZENITH_CACHE_DIR") as seen:
        for text in "abc":
            assert store.read("object", MADE_OF | {"text": text}, bytes) is None
    assert len(seen) == 1


def test_the_least_recently_used_entry_goes_first(tmp_path: Path) -> None:
    store = DiskCache(tmp_path / "cache", 40_000)
    files = [put(store, str(i), bytes(8_000)) for i in range(4)]
    for age, file in zip((400, 300, 200, 100), files, strict=True):
        os.utime(file, (time.time() - age,) * 2)
    assert store.read("object", MADE_OF | {"text": "0"}, bytes) is not None
    put(store, "4", bytes(8_000))
    assert [f.exists() for f in files] == [True, False, True, True]
    put(store, "too large", bytes(50_000))
    assert len(store.entries()) == 4


def test_files_of_dead_writers_are_removed(store: DiskCache) -> None:
    old, new = store.folder / f"{TEMPORARY}old{SUFFIX}", store.folder / f"{TEMPORARY}new{SUFFIX}"
    put(store)
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * ABANDONED,) * 2)
    assert len(store.entries()) == 1 and not old.exists() and new.exists()


def test_listing_and_clearing(store: DiskCache) -> None:
    assert store.entries() == [] and store.clear() == 0
    put(store, "a")
    os.utime(put(store, "b"), (time.time() - 100,) * 2)
    broken = f"object-{'0' * 40}{SUFFIX}"
    (store.folder / broken).write_bytes(b"?")
    (store.folder / "foreign.txt").write_text("not an entry")
    by_name = {e.name: e for e in store.entries()}
    assert set(by_name) == {"a", "b", broken}
    assert by_name["a"].has_source and not by_name[broken].has_source
    assert 99 < by_name["b"].age < 200 and by_name["a"].bytes > len(PAYLOAD)
    assert store.clear() == 3 and [f.name for f in store.folder.iterdir()] == ["foreign.txt"]


def test_a_users_files_in_the_cache_folder_stay(tmp_path: Path) -> None:
    """Saved functions among them, which end as entries do, and what others are writing."""
    store = DiskCache(tmp_path, 20_000)
    names = [
        f"layer{SUFFIX}",
        f"object-{'0' * 39}{SUFFIX}",
        f"object-{'0' * 40}{SUFFIX}.bak",
        "tuning.json",
        ".writing-x",
    ]
    for name in names:
        (tmp_path / name).write_bytes(bytes(5_000))
        os.utime(tmp_path / name, (time.time() - 2 * ABANDONED,) * 2)
    folder = tmp_path / f"{TEMPORARY}saved{SUFFIX}"
    folder.mkdir()
    os.utime(folder, (time.time() - 2 * ABANDONED,) * 2)
    for i in range(5):
        put(store, str(i), bytes(8_000))
    assert len(store.entries()) == 2 and store.clear() == 2
    assert {f.name for f in tmp_path.iterdir()} == {*names, folder.name}


# --- processes ----------------------------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from zenith.backends.cache import DiskCache
store = DiskCache(Path(sys.argv[1]), 60_000)
for round in range(40):
    for i in range(8):
        depends = {"text": str(i)}
        assert store.read("object", depends, bytes) in (None, bytes([i]) * 10_000)
        store.write("object", depends, str(i), "", bytes([i]) * 10_000)
"""

_PROGRAM = """
import sys
import numpy as np
import zenith

@zenith.jit
def step(x, w):
    y = np.tanh(x @ w)
    return y / np.sum(y * y, axis=-1, keepdims=True)

x, w = np.linspace(0, 1, 60, dtype=np.float32).reshape(5, 12), np.ones((12, 7), np.float32)
y = np.tanh(x @ w)
np.testing.assert_allclose(step(x, w), y / np.sum(y * y, axis=-1, keepdims=True), rtol=1e-5)
step(x[:3], w)
print(*[name for name in ("numba", "zenith.backends.cpu.compiler") if name in sys.modules])
"""


def _start(code: str, *args: str, **environment: str) -> subprocess.Popen[str]:
    command, environment = [sys.executable, "-W", "error", "-c", code, *args], {**os.environ, **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=pipe, stderr=pipe, env=environment)


def _end(process: subprocess.Popen[str]) -> str:
    output, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    return output.strip()


def _end_all(processes: list[subprocess.Popen[str]]) -> None:
    """Wait for all, so that none is left running when one fails."""
    outcomes = [(p.communicate(timeout=300), p.returncode) for p in processes]
    assert [(complaint, code) for (_, complaint), code in outcomes] == [("", 0)] * len(processes)


def test_processes_that_write_and_trim_at_once(tmp_path: Path) -> None:
    """The limit is the size of six of the eight entries, so that each process removes what the others write."""
    folder = tmp_path / "cache"
    _end_all([_start(_WRITER, str(folder)) for _ in range(3)])
    assert sum(f.stat().st_size for f in folder.iterdir()) <= 70_000
    assert [f.name for f in folder.iterdir() if f.name.startswith(TEMPORARY)] == []


def test_the_second_process_runs_without_numba(tmp_path: Path) -> None:
    """Two that start at once both compile, or one finds what the other stored; the next one finds everything."""
    folder = tmp_path / "cache"
    _end_all([_start(_PROGRAM, ZENITH_CACHE_DIR=str(folder)) for _ in range(2)])
    before = sorted(f.name for f in folder.iterdir())
    assert _end(_start(_PROGRAM, ZENITH_CACHE_DIR=str(folder))) == ""
    assert sorted(f.name for f in folder.iterdir()) == before


_HOMELESS = """
import pwd
def nobody(*_):
    raise KeyError
pwd.getpwuid = nobody  # a container's user that no list has
import zenith
from zenith.backends.cache import store
from zenith.backends.cuda import tuning
assert store() is None and store() is None and tuning.own_file() is None and not tuning.in_use().entries
"""


@pytest.mark.parametrize("home", [None, "relative"])
def test_a_user_without_a_home_directory(tmp_path: Path, home: str | None) -> None:
    """All works; without a cache, which is reported once and can be switched off."""
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "ZENITH_CACHE_DIR", "XDG_CACHE_HOME")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({} if home is None else {"HOME": home})
    for setting, expected in (("0", ""), ("1", "nothing is cached: this user has no home directory")):
        done = subprocess.run(
            [sys.executable, "-c", _HOMELESS], cwd=tmp_path, env=environment | {"ZENITH_CACHE": setting}, text=True,
            capture_output=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0 and done.stderr.count("CacheWarning:") == bool(expected), done.stderr
        assert expected in done.stderr and os.listdir(tmp_path) == []


def test_the_cache_can_be_turned_off(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    compiled = _end(_start(_PROGRAM, ZENITH_CACHE_DIR=str(folder), ZENITH_CACHE="0"))
    assert compiled.split() == ["numba", "zenith.backends.cpu.compiler"] and not folder.exists()
