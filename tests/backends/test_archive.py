"""Archives: arrays come back as they were, without a copy; every changed byte is seen."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

from zenith.backends import folder
from zenith.backends.archive import FORMAT, MALFORMED, Archive, read, write
from zenith.backends.codec import Json, decode, encode
from zenith.backends.digests import BLOCK, SIZE
from zenith.backends.steps import ALIGN
from zenith.errors import LoadError, SourceLine, UnsupportedError
from zenith.ir.dims import dim, symbol
from zenith.ir.types import BY_NAME, ArrayType
from zenith.tree import Leaf

CONTENT = {"text": "äöü\n", "numbers": [1, 2.5, None, True], "bytes": b"\0\1"}
ARRAYS = [
    np.arange(7, dtype=np.float32),
    np.empty((0, 3)),
    np.array(2.5),
    np.array([True, False, True]),
    np.arange(BLOCK // 8 + 5),  # more than a block
    np.arange(5).astype(ml_dtypes.bfloat16),
    np.random.default_rng(0).integers(0, 256, 2 * BLOCK + 3).astype(np.uint8),
    np.arange(BLOCK, dtype=np.uint8),  # a whole block
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "a", {"zenith": "1"}, (CONTENT, ARRAYS))
    return tmp_path / "a"


def check(found: Archive[tuple]) -> None:
    content, arrays = found.content
    assert content == CONTENT and found.made_for == {"zenith": "1"}
    for array, wanted in zip(arrays, ARRAYS, strict=True):
        assert array.dtype == wanted.dtype and array.shape == wanted.shape
        np.testing.assert_array_equal(array, wanted)


def test_arrays_come_back_on_boundaries_and_cannot_be_written_to(file: Path) -> None:
    found = read(file, tuple)
    check(found)
    assert found.bytes == file.stat().st_size
    for array in found.content[1]:
        assert array.ctypes.data % ALIGN == 0 or array.size == 0
        assert not array.flags.writeable and not array.flags.owndata


def test_nothing_at_all_is_a_content_too(tmp_path: Path) -> None:
    write(tmp_path / "a", {}, None)
    assert read(tmp_path / "a", object).content is None


def test_a_file_in_use_stays_when_another_replaces_it(file: Path) -> None:
    found = read(file, tuple)
    write(file, {}, [np.zeros(3)])
    check(found)
    assert len(read(file, list).content) == 1 and [f.name for f in file.parent.iterdir()] == ["a"]


def test_the_users_mask_decides_who_may_read(file: Path) -> None:
    plain = file.with_name("plain")
    plain.write_text("")
    assert file.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("section", ["line", "arrays", "digests", "check"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_every_changed_byte_is_seen(file: Path, section: str, share: float) -> None:
    data = bytearray(file.read_bytes())
    line = data.index(b"\n") + 1
    arrays, tail = -(-line // ALIGN) * ALIGN, len(data) - SIZE
    blocks = arrays + json.loads(data[:line])["length"]
    first, last = {
        "line": (0, line), "arrays": (arrays, blocks), "digests": (blocks, tail), "check": (tail, len(data)),
    }[section]  # fmt: skip
    data[int(first + share * (last - first))] ^= 0x10
    file.write_bytes(data)
    with pytest.raises(LoadError, match="fix: "):
        read(file, tuple)


def exchange(length: int, first: int, second: int) -> Callable[[np.ndarray], None]:
    """Exchange two ranges of so many bytes."""

    def change(data: np.ndarray) -> None:
        one, other = (slice(at * length, (at + 1) * length) for at in (first, second))
        data[one], data[other] = data[other].copy(), data[one].copy()

    return change


def flip(bit: int, *words: int) -> Callable[[np.ndarray], None]:
    """Flip a bit in some words."""
    return lambda data: np.bitwise_xor.at(data.view(np.uint64), list(words), np.uint64(1 << bit))


ALL_LARGE = 6 * BLOCK  # bytes, for more than one thread
DAMAGES = {
    "words": exchange(8, 3, 4), "pages": exchange(4096, 3, 700), "blocks": exchange(BLOCK, 0, 5),
    "pages of two blocks": exchange(4096, 1, 257), "half words": exchange(4, 4, 5),
    **{f"bit {bit} up and down": flip(bit, 1, 0) for bit in (0, 31, 32, 63)},
}  # fmt: skip


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_that_leaves_all_sums_is_seen(tmp_path, monkeypatch, damage, workers):
    monkeypatch.setattr("zenith.backends.cpu.threads.default_num_threads", lambda: workers)
    data = np.arange(ALL_LARGE // 8, dtype=np.uint64) * 0x9E3779B97F4A7C15
    data[1] = ~data[0]
    write(tmp_path / "a", {}, data)
    np.testing.assert_array_equal(read(tmp_path / "a", np.ndarray).content, data)
    whole = np.fromfile(tmp_path / "a", np.uint8)
    (start,) = [at for at in range(0, len(whole), ALIGN) if whole[at : at + 64].tobytes() == data[:8].tobytes()]
    DAMAGES[damage](whole[start : start + ALL_LARGE])
    whole.tofile(tmp_path / "a")
    with pytest.raises(LoadError, match="its arrays have changed"):
        read(tmp_path / "a", np.ndarray)


def test_bytes_between_the_sections_mean_nothing(file: Path) -> None:
    data = bytearray(file.read_bytes())
    empty = data.index(ARRAYS[0].tobytes()) + ARRAYS[0].nbytes  # until the next boundary
    data[empty + 1] ^= 1
    file.write_bytes(data)
    check(read(file, tuple))


OLDER = b'{"format": "zenith archive 2", "made_for": {}, "content": 20, "arrays": 0, "blocks": 0}\n'


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "was not saved by Zenith"),
        (lambda data: b"PK\x03\x04" + data, "was not saved by Zenith"),
        (lambda data: b"{}\n" + data, "was not saved by Zenith"),
        (lambda data: data.replace(FORMAT.encode(), b"zenith archive 7"), "has the format 'zenith archive 7'"),
        (lambda data: OLDER, "has the format 'zenith archive 2', and this Zenith reads"),
        (lambda data: data[:10], "was not saved by Zenith"),
        (lambda data: b"[" * 65_000 + data, "was not saved by Zenith"),
        (lambda data: data.replace(b" ", b"[" * 65_000, 1), "was not saved by Zenith"),
        (lambda data: data.replace(b'"made_for": ', b'"made_for": ' + b"[" * 65_000), "its contents have changed"),
        (lambda data: data[:-1], "it is cut off"),
        (lambda data: data[:5000], "it is cut off"),
        (lambda data: data[:100], "it is cut off"),
        (lambda data: data + b"x", "its contents have changed"),
        (lambda data: data.replace(b'"made_for"', b'"mode_for"', 1), "its contents are not what save"),
    ],
)
def test_a_file_that_is_no_archive_is_named(file, change, why):
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(LoadError, match=f"{file}.*{why}"):
        read(file, tuple)


@pytest.mark.parametrize("name", ["a", "manifest.json"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="Not a regular file"):
        read(tmp_path / name, object) if name == "a" else folder.read(tmp_path, object)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(file: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot hold a object"):
        write(file, {}, {"content": object()})
    with pytest.raises(OSError, match="missing"):
        write(file.parent / "missing" / "a", {}, ARRAYS)
    check(read(file, tuple))
    assert [f.name for f in file.parent.iterdir()] == ["a"]


def test_equal_arrays_are_stored_once(tmp_path: Path) -> None:
    array, code = np.arange(6.0).reshape(2, 3), b"code"
    swapped = array.reshape(-1)[[1, 0, 2, 3, 4, 5]].reshape(2, 3)  # of the same sum
    large = np.zeros(4 * BLOCK, np.uint8)
    other = large.copy()
    other[2 * BLOCK] = 1
    tree = (array, array.copy(), array.T, code, code, swapped, large, other, large.copy())
    write(tmp_path / "a", {}, tree)
    found = read(tmp_path / "a", tuple).content
    assert found[0] is found[1] and found[6] is found[8] and found[3] == found[4] == code
    assert (tmp_path / "a").stat().st_size < 9 * BLOCK
    for one, wanted in zip(found, tree, strict=True):
        np.testing.assert_array_equal(one, wanted)


class Pair(NamedTuple):
    first: object
    second: object


TREES = [
    (1, 1.0, True, None, "x", -0.0, 2**70, 1 + 2j),
    {"a": [(), []], 3: {}, None: frozenset({2, 1}), 2.5: Pair(Leaf(1, True), (Leaf(0),))},
    ArrayType(BY_NAME["bf16"], (dim(3), symbol("n") * 2 + 1)),
    [SourceLine("a.py", 1, "f"), SourceLine("a.py", 1, "f"), SourceLine("a.py", 2, "f"), SourceLine("a.py", 1, "f")],
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_trees_come_back(tree: object) -> None:
    found = decode(json.loads(json.dumps(encode(tree))), object)
    assert found == tree and repr(found) == repr(tree)


@pytest.mark.parametrize("spelled", [
    {}, {"a": 1, "b": 2}, {"nothing": []}, {"ref": 0}, {"ref": -1}, {"Leaf": []}, {"Leaf": 3}, {"DType": ["f99"]},
    {"named": ["os", "stat_result", ["st_mode"], [1]]}, {"array": 0}, {"bytes": 0}, {"dict": [[1]]}, {"list": 3},
    {"ArrayType": ["f32", ["__import__('os')"]]},
], ids=str)  # fmt: skip
def test_other_json_is_no_tree(spelled: Json) -> None:
    if "named" in spelled:
        assert type(decode(spelled, tuple)).__module__ != "os"
    else:
        with pytest.raises(MALFORMED):
            decode(spelled, object)


def test_the_header_is_a_line_of_json(file: Path) -> None:
    with file.open("rb") as opened:
        assert json.loads(opened.readline())["format"] == FORMAT
