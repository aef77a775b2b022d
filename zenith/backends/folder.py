"""Folders: a saved function in files that people and other programs can read.

``manifest.json`` holds the tree (:mod:`zenith.backends.codec`) and the sha256 of every other file: texts (graph, plan
and kernels of each program), ``weights.safetensors``, and object code in ``kernels``. Reading gives the same as an
archive (:mod:`zenith.backends.archive`).

A folder may hold other files, which belong to the user: one that is saved again replaces what its manifest lists.
Meanwhile the manifest lists the old and the new files and has no content, so that a folder whose saving was interrupted
is not read, and can be saved again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zenith.backends import safetensors
from zenith.backends.archive import Archive, damaged, decoded
from zenith.backends.codec import Json, Large, StoredText, Tree, encode
from zenith.errors import LoadError, ZenithError
from zenith.files import WRITING, open_regular, resolved
from zenith.ir.types import NDArray

FORMAT = "zenith folder 2"
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"


class _Shelf:
    """What goes into a folder: arrays by name, and files of texts and object code."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray] = {}
        self.files: dict[str, bytes] = {}

    def put(self, leaf: Large, name: str) -> Json:
        """What refers to a leaf, by its name; others of this name have numbers after it."""
        numbered = (f"{name}-{i}" if i else name for i in itertools.count())
        if isinstance(leaf, np.ndarray):
            name = next(n for n in numbered if n not in self.arrays or _same(self.arrays[n], leaf))
            self.arrays[name] = leaf
            return [name, str(leaf.dtype), list(leaf.shape)]
        data, form = (leaf, "kernels/{}.o") if isinstance(leaf, bytes) else (leaf.encode(), "{}.txt")
        form = "{}.py" if name == "kernels" else form
        file = next(file for file in map(form.format, numbered) if self.files.get(file, data) == data)
        self.files[file] = data
        return file


def _same(one: NDArray, other: NDArray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def write(path: Path, made_for: Mapping[str, str], content: object) -> None:
    """Write a folder, or replace its contents; ZenithError when others' files are in the way, OSError."""
    path, shelf = resolved(path), _Shelf()
    old, tree = _listed(path), encode(content, shelf.put)
    files = {**shelf.files, WEIGHTS: b"".join(safetensors.encode(shelf.arrays))}
    _check_free(path, old, files)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"made_for": dict(made_for), "content": tree, "files": digests}
    exists = path.is_dir()
    with tempfile.TemporaryDirectory(prefix=WRITING, dir=path if exists else path.parent) as folder:
        made = Path(folder) / "new"
        for name, data in {**files, MANIFEST: _spelled(manifest)}.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        if not exists:
            os.rename(made, path)
            return
        begun = Path(folder) / "begun.json"
        begun.write_bytes(_spelled({**manifest, "content": None, "files": {**old, **digests}}))
        os.replace(begun, path / MANIFEST)
        _replace_files(path, old, made, digests)
        os.replace(made / MANIFEST, path / MANIFEST)


def _spelled(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps({"format": FORMAT, "sha256": _digest(manifest), **manifest}, indent=1) + "\n").encode()


def _replace_files(path: Path, old: Mapping[str, str], made: Path, new: Iterable[str]) -> None:
    """Move new files into a folder, and remove old ones without successor that are as they were saved."""
    for name in new:
        (path / name).parent.mkdir(exist_ok=True)
        os.replace(made / name, path / name)
    for name in set(old).difference(new):
        if (path / name).is_file() and _sha256(path / name) == old[name]:
            (path / name).unlink()


def _listed(path: Path) -> dict[str, str]:
    """The files of a folder that an earlier save wrote, with their digests; ZenithError when none wrote there."""
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return {}
    try:
        if not path.is_dir() or (path / MANIFEST).is_symlink():
            raise LoadError(f"{path} is no folder of its own")
        files = _manifest(path / MANIFEST)["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except (LoadError, FileNotFoundError, IsADirectoryError, AttributeError) as problem:
        raise ZenithError(f"the folder {path} holds other files, or was not saved by this version of Zenith",
                          fix="give one that is empty, new, or was saved before") from problem  # fmt: skip


def _check_free(path: Path, old: Iterable[str], new: Iterable[str]) -> None:
    """ZenithError when a user's file has the name of a new one, or when a name leads out of the folder."""
    for name in (*old, *new):
        file = path / name
        inside = Path(os.path.realpath(file.parent)) / file.name == file and file.is_relative_to(path)
        if not inside or (os.path.lexists(file) and (name not in old or file.is_symlink() or not file.is_file())):
            raise ZenithError(f"{file} is there already, and was not saved by Zenith",
                              fix="give another folder, or move it elsewhere")  # fmt: skip


def read(path: Path, kind: type[Tree]) -> Archive[Tree]:
    """The content of a folder; LoadError when a file is missing, damaged, or not what save() writes."""
    manifest = _manifest(path / MANIFEST)
    if manifest["content"] is None:
        raise LoadError(f"{path} is incomplete: saving it was interrupted", fix="save it again")
    for name, digest in manifest["files"].items():
        if _sha256(_existing_file(path, name)) != digest:
            raise damaged(path / name, "its contents have changed")
    arrays = safetensors.read(_existing_file(path, WEIGHTS))

    def get(leaf: str, spelled: Any) -> Large:
        if leaf == "array":
            return _array(path / WEIGHTS, arrays, *spelled)
        data = _existing_file(path, spelled).read_bytes()
        return StoredText(data, "utf-8") if leaf == "text" else data

    length = sum((path / name).stat().st_size for name in manifest["files"])
    return Archive(path, manifest["made_for"], decoded(manifest["content"], kind, get, path), length)


def _manifest(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            found = json.loads(file.read())
        version = found["format"]
        manifest = {name: found[name] for name in ("made_for", "content", "files")}
        _ = manifest["made_for"].items(), manifest["files"].items()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise LoadError(
            f"{path} was not saved by Zenith, or is damaged", fix="give a folder that save() wrote"
        ) from None
    if version != FORMAT:
        raise LoadError(f"{path} has the format {version!r}, and this Zenith reads {FORMAT!r}",
                        fix="save it again with this version of Zenith")  # fmt: skip
    if found.get("sha256") != _digest(manifest):
        raise damaged(path, "its contents have changed")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _existing_file(folder: Path, name: str) -> Path:
    """A file of a folder; LoadError when it is not in there, wherever its name leads."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise damaged(folder / MANIFEST, f"it names the file {name!r}, which is not in the folder")
    if not path.is_file():
        raise damaged(path, "it is missing")
    return path


def _array(path: Path, arrays: Mapping[str, NDArray], name: str, dtype: str, shape: list[int]) -> NDArray:
    if name not in arrays:
        raise damaged(path, f"it has no array {name!r}")
    return arrays[name].reshape(-1).view(dtype).reshape(shape)


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
