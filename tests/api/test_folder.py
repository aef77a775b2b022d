"""Saved folders: parts that others can read, the same bits, and errors for whatever is not as it was saved."""

import hashlib
import json
import shutil

import numpy as np
import pytest

import zenith
from zenith.backends import archive, folder, safetensors
from zenith.errors import LoadError, UnsupportedError, ZenithError

W = np.linspace(-1, 1, 24 * 5, dtype=np.float32).reshape(24, 5)
X = np.linspace(0, 1, 72, dtype=np.float32).reshape(3, 24)


@pytest.fixture(scope="module")
def function():
    jitted = zenith.jit(lambda x: {"y": (x @ W, np.sum(x > 0.5))})
    jitted(X)
    return jitted


@pytest.fixture
def saved(function, tmp_path):
    function.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_gives_the_same_bits(function, saved):
    function.save(saved)  # over what was saved before
    loaded = zenith.load(saved)
    for x in (X, X[:1], X[:0]):
        wanted, found = function(x), loaded(x)
        assert [y.tobytes() for y in found["y"]] == [y.tobytes() for y in wanted["y"]]
    assert loaded.show("kernels") == function.show("kernels") and loaded.cache_info().misses == 0


def test_people_and_other_programs_can_read_the_parts(function, saved):
    numpy = pytest.importorskip("safetensors.numpy")
    (weights,) = numpy.load_file(saved / "weights.safetensors").values()
    np.testing.assert_array_equal(weights, W)
    assert (saved / "graph.txt").read_text() == function.show("graph")
    assert (saved / "kernels.py").read_text() == function.show("kernels")
    assert len(list((saved / "kernels").glob("*.o"))) >= 3


def test_every_element_type_is_stored(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    arrays = {
        name: np.arange(6).astype(zenith.ir.types.BY_NAME[name].numpy).reshape(2, 3) for name in safetensors.CODES
    }
    arrays |= {"c64": np.array([1 + 2j], np.complex64), "nothing": np.empty((0, 2)), "number": np.array(7)}
    (tmp_path / "a.safetensors").write_bytes(b"".join(safetensors.encode(arrays)))
    found = safetensors.read(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(found.pop("c64"), [[1, 2]])
    assert all(found[name].dtype == arrays[name].dtype and found[name].flags.aligned for name in found)
    assert all(found[name].tobytes() == arrays[name].tobytes() for name in found)
    known = [name for name in found if name != "bf16"]
    theirs = numpy.load_file(tmp_path / "a.safetensors")
    assert all(theirs[name].tobytes() == arrays[name].tobytes() for name in known)


def test_other_files_are_not_overwritten(function, tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ZenithError, match="holds other files"):
        function.save(tmp_path)
    assert (tmp_path / "notes").read_text() == "mine"


def test_what_a_folder_cannot_hold(tmp_path):
    lanes = zenith.jit(lambda x: x + 1, backend="lanes")
    lanes(X)
    with pytest.raises(UnsupportedError, match="is not compiled"):
        lanes.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def signed(path, change):
    """Change the manifest and sign it again, as somebody would who knows how."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    plain = {name: manifest[name] for name in ("made_for", "content", "stored", "files")}
    manifest["sha256"] = folder._digest(plain)
    (path / "manifest.json").write_text(json.dumps(manifest))


def weights_header(path, change):
    """Change the header of the weights, and sign the folder again."""
    file = path / "weights.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = json.dumps(change(header)).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    sign_weights(path)


def sign_weights(path):
    digest = hashlib.sha256((path / "weights.safetensors").read_bytes()).hexdigest()
    signed(path, lambda m: m["files"].update({"weights.safetensors": digest}))


def other_entry(**changes):
    return lambda header: {name: {**entry, **changes} for name, entry in header.items()}


def cut(path):
    file = path / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-30])


def huge_header(path):
    file = path / "weights.safetensors"
    file.write_bytes((1 << 60).to_bytes(8, "little") + file.read_bytes()[8:])
    sign_weights(path)


def rename(manifest, name):
    manifest["files"][name] = manifest["files"].pop("graph.txt")
    manifest["content"]["programs"][0]["graph"] = {"file": name}


def unlink(path):
    (path / "kernels/runtime.o").unlink()


def no_json(path):
    (path / "manifest.json").write_text("[" * 100_000)


def lead_outside(path):
    (path / "plan.txt").unlink()
    (path / "plan.txt").symlink_to("/etc/hostname")


WRONG = {
    "cut off": (cut, "weights.safetensors is damaged: its contents have changed"),
    "missing": (unlink, "runtime.o is damaged: it is missing"),
    "no JSON": (no_json, "manifest.json was not saved by Zenith"),
    "a list": (lambda p: (p / "manifest.json").write_text("[]"), "manifest.json was not saved by Zenith"),
    "another format": (lambda p: signed(p, lambda m: m.update(format="zenith folder 9")), "has the format"),
    "a way out": (lambda p: signed(p, lambda m: rename(m, "../../graph.txt")), "which is not in the folder"),
    "a path from the root": (lambda p: signed(p, lambda m: rename(m, "/etc/hostname")), "which is not in the folder"),
    "a link out": (lead_outside, "which is not in the folder"),
    "a wrong hash": (lambda p: signed(p, lambda m: m["files"].update({"graph.txt": "0"})), "its contents have changed"),
    "a huge header": (huge_header, "its header has 1152921504606846976 bytes"),
    "a huge array": (lambda p: weights_header(p, other_entry(shape=[1 << 62, 1 << 62])), "would stand at bytes"),
    "outside": (lambda p: weights_header(p, other_entry(data_offsets=[1 << 40, (1 << 40) + 480])), "would stand at"),
    "negative": (lambda p: weights_header(p, other_entry(data_offsets=[-480, 0])), "its header is not that"),
    "no such type": (lambda p: weights_header(p, other_entry(dtype="O8")), "its header is not that"),
    "a number for a header": (lambda p: weights_header(p, lambda header: 7), "its header is not that"),
    "no array": (lambda p: weights_header(p, lambda header: {}), "it has no array"),
    "programs are a number": (lambda p: signed(p, lambda m: m["content"].update(programs=3)), "not what save"),
    "no executable": (lambda p: signed(p, lambda m: m["content"]["programs"][0].update(executable={})), "not what"),
    "no content": (lambda p: signed(p, lambda m: m.update(content=None)), "not what save"),
    "files are a list": (lambda p: signed(p, lambda m: m.update(files=[])), "not what save"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_hostile_folders_are_refused(saved, name):
    spoil, why = WRONG[name]
    spoil(saved)
    with pytest.raises(LoadError) as caught:
        zenith.load(saved)
    assert str(saved) in str(caught.value) and why in str(caught.value) and "fix: " in str(caught.value)


def test_every_flipped_bit_is_seen(saved, tmp_path):
    for file in [f for f in saved.rglob("*") if f.is_file()]:
        other = tmp_path / "other"
        shutil.copytree(saved, other)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        (other / file.relative_to(saved)).write_bytes(data)
        with pytest.raises(LoadError, match=r"is damaged|was not saved"):
            zenith.load(other)
        shutil.rmtree(other)


def rewritten(path, change):
    """A file with a changed content and right sums."""
    found = archive.read(path)
    content, arrays = change(found.content, list(found.arrays))
    archive.write(path, found.made_for, content, [np.array(a) for a in arrays])


def heads(path, **changes):
    line, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(line), **changes}).encode() + b"\n" + rest)


FILES = {
    "programs are missing": (lambda p: rewritten(p, lambda c, a: ({"front": "jit"}, a)), "not what save"),
    "content is a list": (lambda p: rewritten(p, lambda c, a: ([1], a)), "not what save"),
    "arrays are missing": (lambda p: rewritten(p, lambda c, a: (c, a[:1])), "not what save"),
    "a negative length": (lambda p: heads(p, content=-5), "its header is not what save"),
    "a huge length": (lambda p: heads(p, arrays=1 << 70), "it is cut off"),
    "a word for a length": (lambda p: heads(p, sums="3"), "has the format"),
    "empty": (lambda p: p.write_bytes(b""), "was not saved by Zenith"),
    "text": (lambda p: p.write_text('{"format": 1}'), "was not saved by Zenith"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_are_refused(function, tmp_path, name):
    path = tmp_path / "function.zenith"
    function.save(path)
    spoil, why = FILES[name]
    spoil(path)
    with pytest.raises(LoadError) as caught:
        zenith.load(path)
    assert str(path) in str(caught.value) and why in str(caught.value) and "fix: " in str(caught.value)
