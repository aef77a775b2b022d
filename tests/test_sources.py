"""Code is never stored as that of other sources: files that change under a running process end its use of the cache."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zenith
from zenith import sources
from zenith.config import config
from zenith.errors import CacheWarning, ZenithError
from zenith.sources import Sources


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "a.py", "inner/b.py"):
        (package / name).write_text(f"NAME = {name!r}\n")
    return package


def rewrite(folder: Path) -> None:
    (folder / "a.py").write_text("NAME = 'other'\n")


def replace_in_secret(folder: Path) -> None:
    """Another file of the same length, with the time of the old one, as package managers link them."""
    status = (folder / "a.py").stat()
    (folder / "new").write_text("NAME = 'b.py'\n")
    os.utime(folder / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(folder / "new", folder / "a.py")


def move_folder(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("copy"))
    os.rename(folder, folder.with_name("old"))
    os.rename(folder.with_name("copy"), folder)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": rewrite,
    "replaced": replace_in_secret,
    "added": lambda folder: (folder / "inner" / "c.py").write_text(""),
    "removed": lambda folder: (folder / "inner" / "b.py").unlink(),
    "all of them": move_folder,
    "nothing is left": shutil.rmtree,
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_files_are_seen_and_their_digest_is_refused(folder, monkeypatch, name):
    monkeypatch.setattr(sources, "INTERVAL", 0.0)
    found, other = Sources(folder), Sources(folder)
    known = found.digest(folder)
    assert found.unchanged() and known == found.digest(folder) != found.digest(folder / "inner")
    CHANGES[name](folder)
    assert not found.unchanged() and found.digest(folder) == known, "what was imported had this digest"
    with pytest.raises(ZenithError, match=r"(?s)have changed since.*fix: start the process again"):
        found.digest(folder / "a.py") if folder.exists() else found.digest(folder.parent)
    with pytest.raises(ZenithError, match="have changed since"):
        other.digest(folder if folder.exists() else folder.parent)  # asked for the first time
    assert not other.unchanged()


def test_what_python_writes_itself_is_no_change(folder, monkeypatch):
    monkeypatch.setattr(sources, "INTERVAL", 0.0)
    found = Sources(folder)
    for cache in (folder / "__pycache__", folder / "inner" / "__pycache__"):
        cache.mkdir()
        (cache / "a.cpython-311.pyc").write_bytes(b"")
    assert found.unchanged()


def test_locks_of_editors_are_no_sources(folder, monkeypatch):
    monkeypatch.setattr(sources, "INTERVAL", 0.0)
    found = Sources(folder)
    before = Sources(folder).digest(folder)
    (folder / ".#a.py").symlink_to("user@host.1234:5678")  # leads nowhere
    (folder / "inner" / ".hidden.py").write_text("")
    assert found.unchanged() and found.digest(folder) == before == Sources(folder).digest(folder)
    (folder / "lost.py").symlink_to("nowhere")
    assert Sources(folder).unchanged() and found.unchanged()


def test_importing_zenith_begins_with_a_look_at_its_files():
    """Before any module that a digest covers, but those that this needs."""
    text = Path(zenith.__file__).read_text()
    assert text.index("import sources") < text.index("from zenith.api")
    assert sources.OWN.digest(Path(zenith.__file__)) != sources.OWN.digest(Path(sources.__file__))


def test_a_process_whose_sources_have_changed_stores_nothing(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(sources, "INTERVAL", 0.0)
    monkeypatch.setattr(sources, "OWN", Sources(folder))
    rewrite(folder)
    x = np.ones(3, np.float32)
    with pytest.warns(CacheWarning, match=r"(?s)files have changed.*fix: start the process again") as seen:
        np.testing.assert_allclose(zenith.jit(lambda x: x * 1.25 - 17)(x), -15.75)
    assert len(seen) == 1 and not (tmp_path / "cache").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zenith.jit(lambda x: x * 1.25 - 17)(x)
