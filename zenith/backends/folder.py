"""Folders: a saved function in files that people and other programs can read.

``manifest.json`` holds the content and the sha256 of every other file: texts (graph, plan and kernels of each program),
``weights.safetensors``, and object code in ``kernels``. Reading gives the same as an archive
(:mod:`zenith.backends.archive`).

A folder may hold other files, which belong to the user: one that is saved again replaces what its manifest lists.
Meanwhile the manifest lists the old and the new files and has no content, so that a folder whose saving was interrupted
is not read, and can be saved again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zenith.backends import safetensors
from zenith.backends.archive import Archive, Json
from zenith.errors import LoadError, ZenithError
from zenith.files import WRITING, open_regular, resolved

FORMAT = "zenith folder 1"
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"


class FolderShelf:
    """What goes into a folder, by name: arrays, object code, texts."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.arrays: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}

    def put(self, data: Any, name: str) -> int:
        """The number of an array, or of object code; what has one name is stored once."""
        if name not in self.names:
            self.names.append(name)
            if isinstance(data, bytes):
                self.files[f"kernels/{name}.o"] = data
            else:
                self.arrays[name] = data
        return self.names.index(name)

    def text(self, name: str, text: str) -> Json:
        """The reference that the content has for a text in a file of its own."""
        self.files[name] = text.encode()
        return {"file": name}


def write(path: Path, made_for: Mapping[str, str], content: Json, shelf: FolderShelf) -> None:
    """Write a folder, or replace its contents; ZenithError when others' files are in the way, OSError."""
    path = resolved(path)
    old = _listed(path)
    stored = [
        [name, *([str(shelf.arrays[name].dtype), shelf.arrays[name].shape] if name in shelf.arrays else [])]
        for name in shelf.names
    ]
    files = {**shelf.files, WEIGHTS: b"".join(safetensors.encode(shelf.arrays))}
    _check_free(path, old, files)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"made_for": dict(made_for), "content": content, "stored": stored, "files": digests}
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


def read(path: Path) -> Archive:
    """The content of a folder; LoadError when a file is missing, damaged, or not what save() writes."""
    manifest = _manifest(path / MANIFEST)
    if manifest["content"] is None:
        raise LoadError(f"{path} is incomplete: saving it was interrupted", fix="save it again")
    for name, digest in manifest["files"].items():
        if _sha256(_existing_file(path, name)) != digest:
            raise _damaged(path / name, "its contents have changed")
    arrays = safetensors.read(_existing_file(path, WEIGHTS))
    found = [_stored(path, arrays, *entry) for entry in manifest["stored"]]
    content = _with_texts(manifest["content"], path)
    return Archive(path, manifest["made_for"], content, found, sum(a.nbytes for a in found))


def _manifest(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            found = json.loads(file.read())
        kind = found["format"]
        manifest = {name: found[name] for name in ("made_for", "content", "stored", "files")}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LoadError(
            f"{path} was not saved by Zenith, or is damaged", fix="give a folder that save() wrote"
        ) from None
    if kind != FORMAT:
        raise LoadError(f"{path} has the format {kind!r}, and this Zenith reads {FORMAT!r}",
                        fix="save it again with this version of Zenith")  # fmt: skip
    if found.get("sha256") != _digest(manifest):
        raise _damaged(path, "its contents have changed")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _existing_file(folder: Path, name: str) -> Path:
    """A file of a folder; LoadError when it is not in there, wherever its name leads."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise _damaged(folder / MANIFEST, f"it names the file {name!r}, which is not in the folder")
    if not path.is_file():
        raise _damaged(path, "it is missing")
    return path


def _stored(folder: Path, arrays: Mapping[str, Any], name: str, dtype: str = "", shape: Any = None) -> Any:
    if not dtype:
        return np.frombuffer(_existing_file(folder, f"kernels/{name}.o").read_bytes(), np.uint8)
    if name not in arrays:
        raise _damaged(folder / WEIGHTS, f"it has no array {name!r}")
    return arrays[name].reshape(-1).view(dtype).reshape(shape)


def _with_texts(content: Json, folder: Path) -> Json:
    """The content with the texts of files in place of the references to them."""
    match content:
        case {"file": str(name)} if len(content) == 1:
            return _existing_file(folder, name).read_text(encoding="utf-8")
        case dict():
            return {key: _with_texts(value, folder) for key, value in content.items()}
        case list():
            return [_with_texts(item, folder) for item in content]
    return content


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, why: str) -> LoadError:
    return LoadError(f"{path} is damaged: {why}", fix="save it again, or copy it again")
