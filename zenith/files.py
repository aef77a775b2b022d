"""Files that users name: Zenith replaces files that Zenith wrote, and no others, atomically.

Links are followed, as ``open`` does. A file there that somebody else wrote is an error before anything is changed: a
mistyped name must not cost a file.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from zenith.errors import ZenithError

IsOurs = Callable[[Path], bool]
WRITING = ".writing-"  # the prefix of temporary folders in which files are written


def resolved(path: Path) -> Path:
    """The path that a name leads to, through all links; it need not exist yet."""
    return Path(os.path.realpath(path))


def open_regular(path: Path, more_flags: int = 0) -> BinaryIO:
    """Open a file for reading; OSError where there is none, or something else, which might never be read to its end."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | more_flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def starts_with(start: bytes) -> IsOurs:
    """A test whether a file begins with these bytes, the magic number of a format."""

    def is_ours(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(start)) == start

    return is_ours


def check_replaceable(path: Path, is_ours: IsOurs) -> Path:
    """Where to write what is called ``path``: a new file, an empty one, or one that ``is_ours``; else ZenithError.

    Raises OSError when what is there cannot be read.
    """
    target = resolved(path)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(status.st_mode):
        raise ZenithError(f"{path} is not a regular file, and is not replaced", fix="give the name of a file")
    if status.st_size and not is_ours(target):
        raise ZenithError(f"{path} is there already, and is no file that this would write",
                          fix="give another name, or remove it first")  # fmt: skip
    return target


@contextmanager
def replacing(path: Path, is_ours: IsOurs) -> Iterator[BinaryIO]:
    """A file to be written, which replaces ``path`` when all went well; see :func:`check_replaceable`."""
    target = check_replaceable(path, is_ours)
    with tempfile.TemporaryDirectory(prefix=WRITING, dir=target.parent) as folder:
        made = Path(folder) / target.name
        with made.open("xb") as file:
            yield file
        os.replace(made, target)
