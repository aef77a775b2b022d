"""Saved folders: files that others can read, the same bits, and errors for all that differs from what was saved."""

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import zenith
from zenith.api.saving import SavedFunction
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


def test_people_and_other_programs_can_read_the_files(function, saved):
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


def contents(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


MANIFESTS = {
    "none": None,
    "a web application's": '{"name": "site", "icons": [], "start_url": "."}',
    "another version's": '{"format": "zenith folder 99", "files": {"notes": ""}}',
    "no JSON": "manifest",
    "nothing": "",
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_folders_of_others_are_left_alone(function, tmp_path, name):
    (tmp_path / "notes").write_text("mine")
    if MANIFESTS[name] is not None:
        (tmp_path / "manifest.json").write_text(MANIFESTS[name])
    before = contents(tmp_path)
    with pytest.raises(ZenithError, match=r"(?s)holds other files.*fix: "):
        function.save(tmp_path)
    assert contents(tmp_path) == before


@pytest.fixture
def with_notes(saved):
    """A folder that was saved, to which a user has added files."""
    (saved / "README").write_text("mine")
    (saved / "kernels" / "mine.o").write_text("mine")
    (saved / "data").mkdir()
    (saved / "data" / "x.npy").write_text("mine")
    return saved


def other_function():
    jitted = zenith.jit(lambda x: np.cumsum(x) + 1)
    jitted(X)
    return jitted


def test_a_users_files_stay_when_a_folder_is_saved_again(with_notes):
    before, other = contents(with_notes), other_function()
    other.save(with_notes)
    after = contents(with_notes)
    assert {name for name in after if after[name] == b"mine"} == {"README", "data/x.npy", "kernels/mine.o"}
    listed = json.loads(after["manifest.json"])["files"]
    assert set(after) == {*listed, "manifest.json", "README", "data/x.npy", "kernels/mine.o"}, "old files are removed"
    assert set(before) - set(after), "there were some"
    np.testing.assert_array_equal(zenith.load(with_notes)(X), other(X))


def test_an_old_file_that_a_user_has_changed_is_not_removed(saved):
    other = other_function()
    other.save(saved.parent / "other")
    old = saved / min(set(contents(saved)) - set(contents(saved.parent / "other")))
    old.write_text("mine")
    other.save(saved)
    assert old.read_text() == "mine"
    zenith.load(saved)


def test_a_users_file_with_the_name_of_a_new_file_is_not_overwritten(function, saved):
    other = other_function()
    other.save(saved.parent / "other")
    new = next(iter(set(contents(saved.parent / "other")) - set(contents(saved))))
    (saved / new).write_text("mine")
    before = contents(saved)
    with pytest.raises(ZenithError, match=r"(?s)was not saved by Zenith.*fix: "):
        other.save(saved)
    assert contents(saved) == before


def test_a_link_to_a_folder_is_followed(function, saved):
    link = saved.with_name("latest")
    link.symlink_to(saved.name)
    (saved / "README").write_text("mine")
    other_function().save(link)
    assert link.is_symlink() and (saved / "README").read_text() == "mine"
    dangling = saved.with_name("next")
    dangling.symlink_to("made")
    function.save(dangling)
    assert dangling.is_symlink() and (saved.parent / "made" / "manifest.json").is_file()


def kernels_elsewhere(path):
    (path / "kernels").rename(path.parent / "elsewhere")
    (path / "kernels").symlink_to("../elsewhere")


def file_elsewhere(path):
    (path / "plan.txt").rename(path.parent / "elsewhere")
    (path / "plan.txt").symlink_to("../elsewhere")


def manifest_elsewhere(path):
    (path / "manifest.json").rename(path.parent / "elsewhere")
    (path / "manifest.json").symlink_to("../elsewhere")


def lists(name):
    """A manifest that lists a file outside, with the right digest."""
    digest = hashlib.sha256(b"mine").hexdigest()
    return lambda path: signed(path, lambda m: m["files"].update({name.format(path.parent): digest}))


LEADS_OUT = {
    "a link to a folder": kernels_elsewhere, "a link to a file": file_elsewhere, "the manifest": manifest_elsewhere,
    "the folder above": lists("../precious"), "a path from the root": lists("{}/precious"), "itself": lists(""),
    "through a subfolder": lists("kernels/../../precious"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEADS_OUT)
def test_nothing_outside_of_a_folder_is_touched(saved, name):
    (saved.parent / "precious").write_text("mine")
    LEADS_OUT[name](saved)
    before = contents(saved.parent)
    with pytest.raises(ZenithError, match="fix: "):
        other_function().save(saved)
    assert contents(saved.parent) == before


def test_an_interrupted_save_loses_nothing_and_can_be_repeated(function, with_notes, monkeypatch):
    """Interrupted before each of its steps: the folder is the old one, or says that it is incomplete."""
    other, wanted = other_function(), function(X)["y"][1]
    replace, states = folder.os.replace, []
    for step in range(100):
        function.save(with_notes)
        left = step

        def interrupted(*paths):
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            replace(*paths)

        with monkeypatch.context() as patch:
            patch.setattr(folder.os, "replace", interrupted)
            try:
                other.save(with_notes)
                break
            except KeyboardInterrupt:
                states.append("old")
        assert not list(with_notes.glob(".*")), "no temporary folder stays"
        assert sum(data == b"mine" for data in contents(with_notes).values()) == 3
        try:
            assert zenith.load(with_notes)(X)["y"][1] == wanted
        except LoadError as error:
            assert "is incomplete: saving it was interrupted" in str(error)
            states[-1] = "incomplete"
    assert states[:2] == ["old", "incomplete"] and set(states[1:]) == {"incomplete"} and len(states) > 8
    np.testing.assert_array_equal(zenith.load(with_notes)(X), other(X))


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
    plain = {name: manifest[name] for name in ("made_for", "content", "files")}
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
    fields = program_of(manifest)
    fields[fields.index({"text": "graph.txt"})] = {"text": name}


def saved_function(manifest):
    return manifest["content"]["SavedFunction"]


def program_of(manifest):
    return saved_function(manifest)[4][0]["SavedProgram"]


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
    "programs are a number": (lambda p: signed(p, lambda m: saved_function(m).__setitem__(4, 3)), "not what save"),
    "a list of programs": (lambda p: signed(p, lambda m: saved_function(m).__setitem__(4, [3])), "not what save"),
    "no executable": (lambda p: signed(p, lambda m: program_of(m).__setitem__(-1, {})), "not what"),
    "a field too few": (lambda p: signed(p, lambda m: program_of(m).pop()), "not what save"),
    "no content": (lambda p: signed(p, lambda m: m.update(content=3)), "not what save"),
    "files are a list": (lambda p: signed(p, lambda m: m.update(files=[])), "was not saved by Zenith"),
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
    found = archive.read(path, SavedFunction)
    archive.write(path, found.made_for, change(found.content))


def heads(path, **changes):
    line, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(line), **changes}).encode() + b"\n" + rest)


def without_code(saved):
    (program,) = saved.programs
    return replace(saved, programs=(replace(program, executable=replace(program.executable, codes={})),))


FILES = {
    "programs are missing": (lambda p: rewritten(p, lambda c: replace(c, programs=None)), "not what save"),
    "content is a dict": (lambda p: rewritten(p, lambda c: {"front": "jit"}), "not what save"),
    "code is missing": (lambda p: rewritten(p, without_code), "not what save"),
    "an entry of the cache": (lambda p: rewritten(p, lambda c: c.programs[0].executable), "not what save"),
    "a negative length": (lambda p: heads(p, length=-5), "it is cut off"),
    "a huge length": (lambda p: heads(p, length=1 << 70), "it is cut off"),
    "a word for a length": (lambda p: heads(p, length="3"), "not what save"),
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
