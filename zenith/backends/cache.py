"""The cache on disk: what was compiled once is loaded by the next process of the same user on the same machine.

An entry is one file: a line of JSON, the *header*, then the payload. Its name is the hash of what it was compiled from
and of everything else it depends on, so nothing is ever changed, only added and removed: a change of Zenith's sources,
of a library's version or of the processor gives another name. The header repeats what was hashed for the name and has
the payload's sha256; nothing is unpickled. Files appear by renaming, so a reader sees a whole entry or none, whoever
else writes. What is damaged, or could have been written by another user than root, is a miss and a warning; a folder
that cannot be written, or not be read, is one warning, and the work goes on without it.

A lookup marks its entry as used (the file's time), where that is allowed; a folder in a container's image often is
read-only. When the folder grows beyond its limit, the least recently used entries are removed first.
"""

from __future__ import annotations

import hashlib
import json
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
from typing import Any

from zenith import sources
from zenith.config import config
from zenith.errors import CacheWarning
from zenith.sources import digest

FORMAT = 1
SUFFIX = ".zenith"
ENTRY = re.compile(r"[a-z]+-[0-9a-f]{40}\.zenith")  # files of other names are not ours, whatever their suffix
TEMPORARY = ".writing-"
TRIMMED = 0.9  # of the limit, the size after entries had to be removed
_OWN_FOLDER = "give a folder of your own with ZENITH_CACHE_DIR"
ABANDONED = 3600  # seconds after which a temporary file's writer is taken for dead


@dataclass(frozen=True, slots=True)
class Entry:
    """The contents of an entry's file: the header, the payload."""

    header: Mapping[str, Any]
    payload: bytes


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


class Store:
    """The entries in one folder, at most ``limit`` bytes of them. Safe to use from several threads and processes."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._total: int | None = None  # bytes in the folder, as far as this process knows
        self._readable = self._writable = True
        self._check_folder()

    def read(self, kind: str, depends: Mapping[str, str]) -> Entry | None:
        """The entry made from ``depends``, or None; a damaged one is a miss and a warning."""
        path = self._path(kind, depends)
        if not self._readable:
            return None
        try:
            entry = _checked(path, kind, depends)
        except FileNotFoundError:
            return None
        except (PermissionError, NotADirectoryError) as problem:  # all entries will be like it
            self._readable = False
            _warn(f"the cache folder {self.folder} is not used: {problem}", _OWN_FOLDER)
            return None
        except (Damaged, OSError) as problem:
            _warn(
                f"the cache entry {path.name} is not used: {problem}", "it is compiled again; nothing needs to be done"
            )
            return None
        with suppress(OSError):  # the time of use is for trimming, which a folder that is only read does not need
            os.utime(path)
        return entry

    def write(self, kind: str, depends: Mapping[str, str], about: Mapping[str, Any], payload: bytes) -> None:
        """Add an entry; ``about`` joins the header. A folder that cannot be written is a warning, once."""
        header = {
            **about, "format": FORMAT, "kind": kind, "depends": dict(depends), "bytes": len(payload),
            "sha256": hashlib.sha256(payload).hexdigest(),
        }  # fmt: skip
        data = json.dumps(header).encode() + b"\n" + payload
        if not self._writable or len(data) > self.limit:
            return
        try:
            self._make_folder()
            _write_whole(self._path(kind, depends), data)
            self._total = self._scan() if self._total is None else self._total + len(data)
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
        """All entries, the latest used first; of a damaged one only the file's name is known."""
        now = time.time()
        found = []
        for path, status in self._files():
            header = _header(path)
            name, kind = str(header.get("name", path.name)), str(header.get("kind", "damaged"))
            found.append(Listed(name, kind, now - status.st_mtime, status.st_size, bool(header.get("source"))))
        return sorted(found, key=lambda e: e.age)

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
def _store(folder: Path, limit: int) -> Store:
    return Store(folder, limit)


def store() -> Store | None:
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


def _checked(path: Path, kind: str, depends: Mapping[str, str]) -> Entry:
    """Read an entry and compare it with what its name promises; raises Damaged, FileNotFoundError or OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Damaged("it is not a regular file")  # a pipe would wait for somebody who writes
    with os.fdopen(descriptor, "rb") as file:
        _refuse_foreign(status)
        line, _, payload = file.read().partition(b"\n")
    header = _parsed(line)
    if header.get("format") != FORMAT or header.get("kind") != kind or header.get("depends") != dict(depends):
        raise Damaged("it was made from something else than its name says")
    if header.get("bytes") != len(payload) or header.get("sha256") != hashlib.sha256(payload).hexdigest():
        raise Damaged("its contents are damaged or cut off")
    return Entry(header, payload)


def _refuse_foreign(status: os.stat_result) -> None:
    if hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid()):  # root may do as it likes anyway
        raise Damaged(f"it belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Damaged("other users may write to it")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise Damaged("its header is not JSON") from None
    if not isinstance(header, dict):
        raise Damaged("its header is not a JSON object")
    return header


def _header(path: Path) -> dict[str, Any]:
    """The header of an entry for a listing; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            return _parsed(file.readline())
    except (Damaged, OSError):
        return {}


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
