"""Zenith's own source files: their digest, and whether they are still those that this process has imported.

What is compiled is stored under the digest of the sources that compiled it. They are read when that is first wanted,
and modules are imported when they are first needed, so another version may have been installed meanwhile: old code
would be stored as new code's. Therefore importing Zenith notes each file's time, size and number, which takes a quarter
of the time of reading them. Once one of these differs, nothing is known for sure until the process starts again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from zenith.errors import ZenithError

INTERVAL = 1.0  # seconds after which files are looked at again

_Status = tuple[str, int, int, int]


class Sources:
    """The Python files in and below a folder, as they are now."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._imported = self._now()
        self._unchanged = True
        self._asked = time.monotonic()
        self._digests: dict[tuple[Path, ...], str] = {}

    def unchanged(self) -> bool:
        """Whether all files are as they were, by a look that is not older than ``INTERVAL``; False stays False."""
        if self._unchanged and time.monotonic() - self._asked > INTERVAL:
            self._unchanged = self._now() == self._imported
            self._asked = time.monotonic()
        return self._unchanged

    def digest(self, *paths: Path) -> str:
        """The hash of all files at and below ``paths``; ZenithError when these could be others than were imported."""
        if paths not in self._digests:
            files = [file for path in paths for file in _files(path)]
            found = digest([item for file in files for item in (file.name, file.read_bytes())])
            if not self._unchanged or self._now() != self._imported:
                self._unchanged = False
                raise ZenithError(f"the files in {self._folder} have changed since this process imported them",
                                  fix="start the process again")  # fmt: skip
            self._digests[paths] = found
        return self._digests[paths]

    def _now(self) -> frozenset[_Status]:
        return frozenset(_statuses(self._folder))


def digest(items: Sequence[str | bytes]) -> str:
    """A hash of a sequence of texts; only equal sequences have equal hashes."""
    total = hashlib.sha256()
    for item in items:
        data = item.encode() if isinstance(item, str) else item
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:40]


def _files(path: Path) -> list[Path]:
    """A file, or all Python files of a folder but hidden ones, such as editors' locks."""
    found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [file for file in found if not file.name.startswith(".")]


def _statuses(folder: str) -> Iterator[_Status]:
    """The states of the same files, without those that vanish meanwhile."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.name.endswith(".py"):
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield entry.path, status.st_mtime_ns, status.st_size, status.st_ino
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _statuses(entry.path)


OWN = Sources(Path(__file__).resolve().parent)  # of Zenith; `import zenith` begins with it
