"""Tuning: tables on disk, choices that preserve the order of sums, and measurements by the clock of a fake device."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.backends.running import plan_of
from tests.passes.compare import program
from zenith import cli
from zenith.backends.cuda import tuning
from zenith.backends.cuda.autotune import NOISE, ROUNDS, compare
from zenith.backends.cuda.schedules import matrix_tiles, picker, sum_order
from zenith.backends.cuda.target import cuda_target
from zenith.backends.cuda.tuning import Measured, TuningTable, in_same_order, key
from zenith.backends.kernel import walk
from zenith.backends.steps import LaunchStep
from zenith.backends.tiles import SharedProduct
from zenith.config import config
from zenith.errors import CacheWarning, UnsupportedError
from zenith.ir.types import bfloat16
from zenith.tune import WIDENED, candidates, sizes_of, tune

ARCH, HAVE = "sm_90a", (9, 0)
SIZES = (1, 1024, 4096, 1024)


@pytest.fixture
def table_file(tmp_path, monkeypatch):
    """The table's file in a cache folder of the test's own, with tuning on."""
    monkeypatch.setattr(config, "tuned", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    return tuning.own_file()


def tiles():
    return [t for t in matrix_tiles(HAVE, False) if t.instruction.element == bfloat16]


def chosen(sizes=SIZES):
    """The schedule that a product is compiled with."""
    b, m, n, k = sizes
    signature, _, body = WIDENED.format(e="bf16", b=b, m=m, n=n, k=k).partition(":\n")
    graph = program(signature.partition("(")[2].partition(") ->")[0], "\n".join(map(str.strip, body.splitlines())))
    (launch,) = (s for s in plan_of(graph, cuda_target(ARCH)).steps if isinstance(s, LaunchStep))
    (product,) = (s for s in walk(launch.kernel.body) if isinstance(s, SharedProduct))
    return product.schedule, launch.kernel


def entry(schedule, sizes=SIZES):
    return TuningTable({key(ARCH, "product", "bf16", sizes): Measured(schedule)})


def test_a_table_is_followed_where_terms_are_added_in_the_same_order(table_file):
    default, *others = in_same_order(tiles(), SIZES, picker(HAVE), sum_order)
    assert chosen()[0] == default and len(others) >= 2
    for other in others:
        tuning.write(table_file, entry(other.name))
        assert chosen()[0] == other
    tuning.write(table_file, entry(others[0].name, (1, 700, 3000, 600)))  # of the same classes
    assert chosen()[0] == others[0]


def test_a_table_changes_times_and_never_bits(table_file):
    """Whatever a table says, the choices that decide the order of a sum are those without a table."""
    sizes = (1, 16, 4096, 1024)
    default = chosen(sizes)[0]
    for tile in [*tiles(), SimpleNamespace(name="of a later version")]:
        tuning.write(table_file, entry(tile.name, sizes))
        found = chosen(sizes)[0]
        assert sum_order(found, sizes) == sum_order(default, sizes)
    excluded = {t.name for t in tiles()} - {t.name for t in in_same_order(tiles(), sizes, picker(HAVE), sum_order)}
    assert excluded  # some would split the terms otherwise


@pytest.mark.parametrize("sizes", [SIZES, (1, 16, 4096, 1024), (4, 64, 64, 4096), (1, 100, 70, 3000)])
def test_the_order_is_that_of_the_kernel(table_file, sizes):
    for tile in tiles():
        tuning.write(table_file, entry(tile.name, sizes))
        schedule, kernel = chosen(sizes)
        b, m, n, _ = sizes
        splits = kernel.tasks.evaluate({}) // (b * -(-m // schedule.rows) * -(-n // schedule.panel))
        assert sum_order(schedule, sizes)[-1] == splits


def test_unknown_sizes_leave_no_choice_between_tiles():
    assert len(in_same_order(tiles(), (1, None, 4096, 1024), picker(HAVE), sum_order)) == 1
    assert len(in_same_order(tiles(), (1, None, 4096, 64), picker(HAVE), sum_order)) == len(tiles())  # nothing is cut


def test_tuning_can_be_turned_off(table_file, monkeypatch):
    default, other, *_ = in_same_order(tiles(), SIZES, picker(HAVE), sum_order)
    tuning.write(table_file, entry(other.name))
    monkeypatch.setattr(config, "tuned", False)
    assert chosen()[0] == default


def test_a_shipped_table_is_asked_second(table_file, tmp_path, monkeypatch):
    _, first, second, *_ = in_same_order(tiles(), SIZES, picker(HAVE), sum_order)
    monkeypatch.setattr(config, "tuning", tmp_path / "shipped.json")
    tuning.write(config.tuning, entry(first.name))
    assert chosen()[0] == first
    tuning.write(table_file, entry(second.name))
    assert chosen()[0] == second


def test_a_shipped_table_that_is_not_there_is_a_warning(table_file, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "tuning", tmp_path / "elsewhere.json")
    with pytest.warns(CacheWarning, match=r"elsewhere\.json is not used[\s\S]*ZENITH_TUNING"):
        chosen()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": 99}', '{"format": 1}', '{"format": 1, "entries": []}', '{"format": 1, "entries": {"a": {}}}',
     '{"format": 1, "entries": {"a": {"schedule": "x", "microseconds": {"x": "fast"}}}}', "{"],
)  # fmt: skip
def test_a_damaged_table_is_a_warning(table_file, text):
    table_file.write_text(text)
    with pytest.warns(CacheWarning, match=r"tuning\.json is not used[\s\S]*zenith tune"):
        assert tuning.read(table_file) == TuningTable()


def test_tables_are_stored_and_joined(tmp_path):
    one = TuningTable({"a": Measured("x", {"x": 1.0, "y": 2.0})})
    two = TuningTable({"a": Measured("y"), "b": Measured("z")})
    tuning.write(tmp_path / "deep" / "table.json", one)
    assert tuning.read(tmp_path / "deep" / "table.json") == one
    assert {name: m.schedule for name, m in one.over(two).entries.items()} == {"a": "x", "b": "z"}
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["table.json"]


class Device:
    """A clock that runs as its work says; ``rounds`` are the times that were measured."""

    def __init__(self):
        self.now, self.rounds = 0.0, []

    def work(self, microseconds):
        self.now += microseconds * 1e-6

    def mark(self, stream):
        return self.now

    def between(self, begin, end):
        self.rounds.append(round(1e6 * (end - begin), 6))
        return end - begin


def test_runs_take_turns_and_the_median_counts():
    device, counts = Device(), dict.fromkeys("ab", 0)

    def run(name, usual, rare):
        counts[name] += 1
        device.work(rare if counts[name] % 40 == 0 else usual)

    runs = {"a": lambda: run("a", 5.0, 0.0), "b": lambda: run("b", 4.0, 900.0)}
    measured = compare(device, runs, stream=0)
    assert measured.schedule == "b" and measured.microseconds == pytest.approx({"a": 5.0, "b": 4.0})
    assert len(device.rounds) == 2 * ROUNDS and device.rounds[:4] == [50.0, 40.0, 50.0, 40.0]


def test_a_hardly_faster_schedule_does_not_replace_the_cost_model():
    for factor, best in ((1 - NOISE / 2, "model"), (1 - 2 * NOISE, "other")):
        device = Device()
        runs = {"model": partial(device.work, 1.0), "other": partial(device.work, factor)}
        assert compare(device, runs, stream=0).schedule == best


@pytest.fixture
def timed(gpu, compiler, table_file, monkeypatch):
    """A device whose kernels do nothing, and take as long as :attr:`durations` says, by the order of compilation."""
    found = SimpleNamespace(durations=[])

    def launch(function, *given):
        gpu.launches.append(gpu._functions[function][0].kernel.name)

    def duration(name):
        return found.durations[list(dict.fromkeys(n for n, _, _ in compiler.compiled)).index(name)]

    monkeypatch.setattr(gpu, "launch", launch)
    monkeypatch.setattr(gpu, "clock", lambda: 1e-6 * sum(map(duration, gpu.launches)))
    return found


def test_the_fastest_schedule_on_the_device_is_what_is_compiled_next(timed, table_file):
    sizes = (1, 256, 512, 128)
    names = [tile.name for tile in candidates(ARCH, "bf16", sizes)]
    timed.durations = [10.0 - number for number in range(len(names))]
    found = tune([sizes], "bf16")
    (measured,) = found.values()
    assert [*found] == [key(ARCH, "product", "bf16", sizes)] and measured.schedule == names[-1]
    assert measured.microseconds == pytest.approx(dict(zip(names, timed.durations, strict=True)))
    tuning.write(table_file, TuningTable(found))
    assert chosen(sizes)[0].name == names[-1]


def test_the_command_measures_shows_and_exports(timed, table_file, tmp_path):
    timed.durations = [5.0 + (number != 2) for number in range(20)]
    done = CliRunner().invoke(cli.app, ["tune", "256x512x128", "--export", str(tmp_path / "ship.json")])
    assert done.exit_code == 0, done.output
    third = candidates(ARCH, "bf16", (1, 256, 512, 128))[2].name
    (measured,) = json.loads((tmp_path / "ship.json").read_text())["entries"].values()
    assert measured["schedule"] == third and table_file.read_text() == (tmp_path / "ship.json").read_text()
    table_file.unlink()
    done = CliRunner().invoke(cli.app, ["tune", "--import", str(tmp_path / "ship.json")])
    assert done.exit_code == 0 and table_file.read_text() == (tmp_path / "ship.json").read_text()


def test_a_table_that_cannot_be_exported_is_an_error_that_leaves_nothing(timed, table_file, tmp_path):
    (tmp_path / "taken").mkdir()
    done = CliRunner().invoke(cli.app, ["tune", "--export", str(tmp_path / "taken")])
    assert done.exit_code == 1 and "taken" in done.output
    (tmp_path / "mine").write_text("{}")
    done = CliRunner().invoke(cli.app, ["tune", "--export", str(tmp_path / "mine")])
    assert done.exit_code == 1 and "mine" in done.output and (tmp_path / "mine").read_text() == "{}"
    assert {p.name for p in tmp_path.iterdir()} == {"taken", "mine"}


@pytest.mark.parametrize(
    "given", [["1024x10"], ["axbxc"], ["0x1x1"], ["8x8x8", "--element", "i32"], ["8x8x8", "--element", "x"]]
)
def test_the_command_refuses_arguments_that_are_no_product(timed, table_file, given):
    done = CliRunner().invoke(cli.app, ["tune", *given])
    assert done.exit_code == 1 and ("is no product" in done.output or "no instruction" in done.output)


def test_sizes_and_elements_are_checked():
    with pytest.raises(ValueError, match="is no product"):
        sizes_of("3x4")
    with pytest.raises(UnsupportedError, match="no instruction for products of f64"):
        candidates(ARCH, "f64", SIZES)
