"""Folders: a saved function whose parts people and other programs can read.

``manifest.json`` holds the content and the sha256 of every other file: texts (graph, plan and kernels of each program),
``weights.safetensors``, and object code in ``kernels``. Reading gives the same as an archive
(:mod:`zenith.backends.archive`).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zenith.backends import safetensors
from zenith.backends.archive import Archive
from zenith.errors import LoadError, ZenithError

FORMAT = "zenith folder 1"
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"

Json = Any


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
        """What stands in the content in the place of a text that has a file of its own."""
        self.files[name] = text.encode()
        return {"file": name}


def write(path: Path, made_for: Mapping[str, str], content: Json, shelf: FolderShelf) -> None:
    """Write a folder in place of one that was saved before; ZenithError when something else is there, OSError."""
    _check_free(path)
    stored = [
        [name, *([str(shelf.arrays[name].dtype), shelf.arrays[name].shape] if name in shelf.arrays else [])]
        for name in shelf.names
    ]
    files = {**shelf.files, WEIGHTS: b"".join(safetensors.encode(shelf.arrays))}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"made_for": dict(made_for), "content": content, "stored": stored, "files": digests}
    files[MANIFEST] = (
        json.dumps({"format": FORMAT, "sha256": _digest(manifest), **manifest}, indent=1) + "\n"
    ).encode()
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=path.parent) as folder:
        made = Path(folder) / "new"
        for name, data in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        if path.exists():
            os.rename(path, Path(folder) / "old")
        os.rename(made, path)


def _check_free(path: Path) -> None:
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).is_file():
        raise ZenithError(
            f"the folder {path} holds other files", fix="give one that is empty, new, or was saved before"
        )


def read(path: Path) -> Archive:
    """The content of a folder; LoadError when a part is missing, damaged, or not what save() writes."""
    manifest = _manifest(path / MANIFEST)
    for name, digest in manifest["files"].items():
        if hashlib.sha256(_part(path, name).read_bytes()).hexdigest() != digest:
            raise _damaged(path / name, "its contents have changed")
    arrays = safetensors.read(_part(path, WEIGHTS))
    found = [_stored(path, arrays, *entry) for entry in manifest["stored"]]
    content = _with_texts(manifest["content"], path)
    return Archive(path, manifest["made_for"], content, found, sum(a.nbytes for a in found))


def _manifest(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
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


def _part(folder: Path, name: str) -> Path:
    """A file of a folder; LoadError when it is not in there, wherever its name leads."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise _damaged(folder / MANIFEST, f"it names the file {name!r}, which is not in the folder")
    if not path.is_file():
        raise _damaged(path, "it is missing")
    return path


def _stored(folder: Path, arrays: Mapping[str, Any], name: str, dtype: str = "", shape: Any = None) -> Any:
    if not dtype:
        return np.frombuffer(_part(folder, f"kernels/{name}.o").read_bytes(), np.uint8)
    if name not in arrays:
        raise _damaged(folder / WEIGHTS, f"it has no array {name!r}")
    return arrays[name].reshape(-1).view(dtype).reshape(shape)


def _with_texts(content: Json, folder: Path) -> Json:
    """The content with the texts of files in their places."""
    match content:
        case {"file": str(name)} if len(content) == 1:
            return _part(folder, name).read_text(encoding="utf-8")
        case dict():
            return {key: _with_texts(value, folder) for key, value in content.items()}
        case list():
            return [_with_texts(item, folder) for item in content]
    return content


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, why: str) -> LoadError:
    return LoadError(f"{path} is damaged: {why}", fix="save it again, or copy it again")
