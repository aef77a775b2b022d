"""The cache on disk: what was compiled once is loaded by the next process of the same user on the same machine.

An entry is one file, an archive (:mod:`zenith.backends.archive`). Its name is the hash of what it was compiled from and
of everything else it depends on, so nothing is ever changed, only added and removed: a change of Zenith's sources, of a
library's version or of the processor gives another name. The archive repeats what was hashed for the name.
Files appear by renaming, so a reader sees a whole entry or none, whoever else writes. What is damaged, or could have
been written by another user than root, is a miss and a warning; a folder that cannot be written, or not be read, is one
warning, and the work goes on without it.

A lookup marks its entry as used (the file's time), where that is allowed; a folder in a container's image often is
read-only. When the folder grows beyond its limit, the least recently used entries are removed first.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from zenith import sources
from zenith.backends.archive import parsed, read_from, write_to
from zenith.backends.codec import Tree
from zenith.config import config
from zenith.errors import CacheWarning, LoadError
from zenith.files import open_regular
from zenith.sources import digest

SUFFIX = ".zenith"
ENTRY = re.compile(r"[a-z]+-[0-9a-f]{40}\.zenith")  # files of other names are not ours, whatever their suffix
TEMPORARY = ".writing-"
TRIMMED = 0.9  # of the limit, the size after entries had to be removed
_OWN_FOLDER = "give a folder of your own with ZENITH_CACHE_DIR"
ABANDONED = 3600  # seconds after which a temporary file's writer is taken for dead


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a listing; ``age`` is in seconds since the last use."""

    name: str
    kind: str
    age: float
    bytes: int
    has_source: bool


class Damaged(Exception):
    """An entry cannot be trusted; the message says why."""


class DiskCache:
    """The entries in one folder, at most ``limit`` bytes of them. Safe to use from several threads and processes."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._total: int | None = None  # bytes in the folder, as far as this process knows
        self._readable = self._writable = True
        self._check_folder()

    def read(self, kind: str, depends: Mapping[str, str], type: type[Tree]) -> Tree | None:
        """The content, an object of some type, of the entry made from ``depends``; a damaged one is a miss."""
        path = self._path(kind, depends)
        if not self._readable:
            return None
        try:
            content = _read(path, {"kind": kind, **depends}, type)
        except FileNotFoundError:
            return None
        except (PermissionError, NotADirectoryError) as problem:  # all entries will be like it
            self._readable = False
            _warn(f"the cache folder {self.folder} is not used: {problem}", _OWN_FOLDER)
            return None
        except (Damaged, LoadError, OSError) as problem:
            why = problem.what if isinstance(problem, LoadError) else problem
            _warn(f"the cache entry {path.name} is not used: {why}", "it is compiled again; nothing needs to be done")
            return None
        with suppress(OSError):  # the time of use is for trimming, which a folder that is only read does not need
            os.utime(path)
        return content

    def write(self, kind: str, depends: Mapping[str, str], name: str, source: str, content: object) -> None:
        """Add an entry, with the text that it was compiled from for people who look into the file.

        A folder that cannot be written is a warning, once.
        """
        if not self._writable:
            return
        data = io.BytesIO()
        write_to(data, {"kind": kind, **depends}, (source, content), name=name, has_source=bool(source))
        length = data.tell()
        if length > self.limit:
            return
        try:
            self._make_folder()
            _write_whole(self._path(kind, depends), data.getvalue())
            self._total = self._scan() if self._total is None else self._total + length
            if self._total > self.limit:
                self._total = self._trim()
        except OSError as problem:
            self._writable = False
            fix = "make room, or give another folder with ZENITH_CACHE_DIR; ZENITH_CACHE=0 turns the cache off"
            _warn(f"nothing more is cached in {self.folder}: {problem}", fix)

    def check(self) -> None:
        """Write and remove a file; raises OSError or Damaged when the folder cannot be used."""
        self._make_folder()
        _refuse_foreign(os.stat(self.folder))
        with tempfile.TemporaryFile(dir=self.folder) as file:
            file.write(b"zenith")

    def entries(self) -> list[Listed]:
        """All entries, the latest used first."""
        return sorted((_listed(path, status) for path, status in self._files()), key=lambda e: e.age)

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        removed = sum(_remove(path) for path, _ in self._files())
        self._total = None
        return removed

    def _path(self, kind: str, depends: Mapping[str, str]) -> Path:
        return self.folder / f"{kind}-{digest([f'{k}={depends[k]}' for k in sorted(depends)])}{SUFFIX}"

    def _check_folder(self) -> None:
        """Use the folder only when nobody else can write to it."""
        try:
            _refuse_foreign(os.stat(self.folder))
        except FileNotFoundError:
            return
        except (Damaged, OSError) as problem:
            self._readable = self._writable = False
            fix = f"chmod go-w {self.folder}, or {_OWN_FOLDER}"
            _warn(f"the cache folder {self.folder} is not used: {problem}", fix)

    def _make_folder(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every entry with its status; those that vanish meanwhile are left out."""
        try:
            paths = list(self.folder.iterdir())
        except FileNotFoundError:
            return
        for path in paths:
            try:
                status = path.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if ENTRY.fullmatch(path.name):
                yield path, status
            elif _is_temporary(path) and time.time() - status.st_mtime > ABANDONED:
                _remove(path)

    def _scan(self) -> int:
        return sum(status.st_size for _, status in self._files())

    def _trim(self) -> int:
        """Remove the least recently used entries; returns the bytes that remain."""
        files = sorted(self._files(), key=lambda f: f[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        for path, status in files:
            if total <= TRIMMED * self.limit:
                break
            _remove(path)
            total -= status.st_size
        return total


@cache
def _store(folder: Path, limit: int) -> DiskCache:
    return DiskCache(folder, limit)


def store() -> DiskCache | None:
    """The cache that the configuration names; None when it is turned off, has no folder, or could be given wrong code.

    The last is so when Zenith's files have changed since they were imported.
    """
    if not config.cache:
        return None
    if config.cache_dir is None:
        _warn_of_no_home()
        return None
    if not sources.OWN.unchanged():
        _warn_of_other_sources()
        return None
    return _store(Path(config.cache_dir), config.cache_bytes)


@cache
def _warn_of_other_sources() -> None:
    _warn("nothing more is cached: Zenith's files have changed since this process imported them",
          "start the process again")  # fmt: skip


@cache
def _warn_of_no_home() -> None:
    _warn("nothing is cached: this user has no home directory", f"{_OWN_FOLDER}; ZENITH_CACHE=0 turns the cache off")


def _read(path: Path, made_for: Mapping[str, str], kind: type[Tree]) -> Tree:
    """The content of an entry that is what its name promises; raises Damaged, LoadError, FileNotFoundError, OSError."""
    with open_regular(path, getattr(os, "O_NOFOLLOW", 0)) as file:
        _refuse_foreign(os.fstat(file.fileno()))
        archive = read_from(file, path, tuple)
    if archive.made_for != made_for:
        raise Damaged("it was made from something else than its name says")
    match archive.content:
        case (_, content) if isinstance(content, kind):
            return content
    raise Damaged("its contents are not what was written")


def _refuse_foreign(status: os.stat_result) -> None:
    if hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid()):  # root may do as it likes anyway
        raise Damaged(f"it belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Damaged("other users may write to it")


def _listed(path: Path, status: os.stat_result) -> Listed:
    """The line of an entry in a listing; of a damaged one only the file's name is known."""
    name, kind, has_source = path.name, "damaged", False
    with suppress(LoadError, OSError), path.open("rb") as file:
        head = parsed(file.readline(), path)
        name, kind = str(head.get("name", name)), str(head["made_for"].get("kind", kind))
        has_source = bool(head.get("has_source"))
    return Listed(name, kind, time.time() - status.st_mtime, status.st_size, has_source)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears at once, or not at all."""
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, suffix=SUFFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        _remove(Path(temporary))
        raise


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(TEMPORARY) and path.suffix == SUFFIX


def _remove(path: Path) -> bool:
    """Remove a file, unless somebody else was faster."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _warn(what: str, fix: str) -> None:
    warnings.warn(CacheWarning(what, fix), stacklevel=3)
