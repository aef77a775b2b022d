"""Whatever writes a file that the user names replaces its own files and no others; links are followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zenith
from zenith.backends.cuda import tuning
from zenith.errors import ArgumentError, ZenithError
from zenith.files import starts_with

W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
X = np.ones((2, 4), np.float32)


@pytest.fixture(scope="module")
def function():
    jitted = zenith.jit(lambda x: x @ W)
    jitted(X)
    report = jitted.profile(X)
    jitted.profile = lambda x: report
    return jitted


WRITERS: dict[str, Callable[..., None]] = {
    "saved.zenith": lambda function, path: function.save(path),
    "ejected.py": lambda function, path: function.eject(path),
    "ejected.npz": lambda function, path: function.eject(path.with_suffix(".py")),
    "trace.json": lambda function, path: function.profile(X).to_chrome(path),
    "table.json": lambda function, path: tuning.write(path, tuning.TuningTable()),
}  # fmt: skip
FOREIGN = {
    "text": b"mine",
    "JSON": b'{"mine": 1}',
    "a list": b"[]",
    "a program": b"# not what Zenith wrote this file for\n",
    "a docstring": b'"""A module."""\n# Zenith wrote this file\n',
    "no UTF-8": bytes(range(256)),
    "a zip archive": b"PK\5\6" + bytes(18),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_users_file_is_not_replaced(function, tmp_path, name):
    path = tmp_path / name
    for content in FOREIGN.values():
        path.write_bytes(content)
        with pytest.raises(ZenithError, match=r"(?s)is there already.*fix: ") as caught:
            WRITERS[name](function, path)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == content and os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_its_own_file_is_replaced_and_an_empty_one(function, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"")
    WRITERS[name](function, path)
    first = path.stat()
    assert first.st_size
    WRITERS[name](function, path)
    assert path.stat().st_ino != first.st_ino and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", WRITERS)
def test_links_are_followed(function, tmp_path, name):
    path, target = tmp_path / name, tmp_path / "there" / ("version 1" + Path(name).suffix)
    target.parent.mkdir()
    path.symlink_to(target)
    WRITERS[name](function, path)
    assert path.is_symlink() and target.stat().st_size
    target.write_bytes(b"mine")
    with pytest.raises(ZenithError, match="is there already"):
        WRITERS[name](function, path)
    assert path.is_symlink() and target.read_bytes() == b"mine"


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_no_file_is_refused(function, tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(ZenithError, match="is not a regular file"):
        WRITERS[name](function, path)
    path.unlink()
    path.symlink_to("/dev/null")
    with pytest.raises(ZenithError, match="is not a regular file"):
        WRITERS[name](function, path)
    assert path.is_symlink() and not Path("/dev/null").is_file()


def test_a_program_and_its_weights_need_two_names(function, tmp_path):
    with pytest.raises(ArgumentError, match="is the name of the weights"):
        function.eject(tmp_path / "layer.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_start_longer_than_the_file(tmp_path):
    (tmp_path / "short").write_bytes(b"ab")
    assert not starts_with(b"abc")(tmp_path / "short") and starts_with(b"ab")(tmp_path / "short")
