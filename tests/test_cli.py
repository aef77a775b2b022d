"""The command line: the doctor really looks."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import zenith
from zenith import cli
from zenith.api.saving import read
from zenith.backends.archive import write
from zenith.backends.cuda import presence
from zenith.config import config

ROOT = Path(__file__).resolve().parent.parent


def test_doctor_in_a_process_of_its_own(tmp_path):
    environment = os.environ | {"ZENITH_CACHE_DIR": str(tmp_path / "kernels"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "zenith", "doctor"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name, _ in cli.CHECKS:
        assert name in done.stdout
    assert str(tmp_path / "kernels") in done.stdout and "agrees with NumPy" in done.stdout


def test_a_failed_check_is_shown_and_decides_the_exit_status(monkeypatch):
    def broken():
        raise OSError("no such folder")

    monkeypatch.setattr(cli, "CHECKS", (("python", cli.python_version), ("cache folder", broken)))
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert result.exit_code == 1
    assert "failed" in result.output and "no such folder" in result.output


def test_something_absent_is_no_failure(monkeypatch):
    def absent():
        raise cli.MissingOptional("not installed")

    monkeypatch.setattr(cli, "CHECKS", (("torch", absent),))
    assert CliRunner().invoke(cli.app, ["doctor"]).exit_code == 0


def test_the_version_is_printed():
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"{zenith.__version__}\n")


def test_without_a_command_the_help_is_printed():
    result = CliRunner().invoke(cli.app, [])
    assert "doctor" in result.output


@pytest.mark.parametrize("probe", [probe for _, probe in cli.CHECKS if probe not in (cli.gpu, cli.cuda_packages)])
def test_each_check_finds_what_is_here(probe):
    assert probe()


def test_the_cache_is_listed_and_cleared(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    zenith.jit(lambda x: np.tanh(x) * 3.5)(np.ones(3, np.float32))
    listed = CliRunner().invoke(cli.app, ["cache"], env={"COLUMNS": "200"}).output
    assert "2 entries" in listed or "3 entries" in listed, "a kernel, a program, the runtime where nobody had it"
    assert "tanh" in listed and "program" in listed and "s ago" in listed and "yes" in listed
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda self: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
        done = CliRunner().invoke(cli.app, ["cache", "--clear"])
        assert done.exit_code == 1 and "Read-only file system" in done.output
    assert "entries removed" in CliRunner().invoke(cli.app, ["cache", "--clear"]).output
    assert "0 entries" in CliRunner().invoke(cli.app, ["cache"]).output


def test_a_cache_that_is_turned_off(monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    assert "turned off" in CliRunner().invoke(cli.app, ["cache"]).output
    with pytest.raises(cli.MissingOptional, match="ZENITH_CACHE=0"):
        cli.cache_folder()
    monkeypatch.setattr(config, "cache_dir", None)
    with pytest.raises(cli.MissingOptional, match="no home directory"):
        cli.cache_folder()
    done = CliRunner().invoke(cli.app, ["tune"])
    assert done.exit_code == 1 and "ZENITH_CACHE_DIR" in done.output


def test_ages_are_given_in_the_unit_that_suits_them():
    assert [cli._ago(s) for s in (-1, 5, 300, 7300, 2e5)] == [
        "0 s ago",
        "5 s ago",
        "5 minutes ago",
        "2 hours ago",
        "2 days ago",
    ]


def test_without_a_gpu_it_says_what_is_missing(monkeypatch):
    found = presence.CudaInstallation(package="cupy 14.2", built_for=13020, driver=None)
    monkeypatch.setattr(presence, "find", lambda: found)
    with pytest.raises(cli.MissingOptional, match=r"no NVIDIA driver[\s\S]*on the CPU"):
        cli.gpu()
    with pytest.raises(cli.MissingOptional, match=r"cupy 14\.2 for CUDA 13\.2, no driver"):
        cli.cuda_packages()
    monkeypatch.setattr(presence, "find", lambda: presence.CudaInstallation("cupy 14.2", None, 13020, 13000, 1))
    assert cli.cuda_packages() == "cupy 14.2 for CUDA 13.2, driver for CUDA 13.0"


def test_a_saved_file_is_inspected(tmp_path):
    function, file = zenith.jit(lambda x: x[:3] @ np.ones((4, 2))), tmp_path / "function.zenith"
    function(np.ones((5, 4)))
    function.save(file)
    inspected = _inspect(file)
    assert inspected.exit_code == 0 and "lambda_ from zenith.jit" in inspected.output.replace("<lambda>", "lambda_")
    assert "runs here" in inspected.output and "x: numpy f64[_, _]" in inspected.output
    function.save(tmp_path / "folder")
    assert _inspect(tmp_path / "folder").output.split(",")[0] == inspected.output.split(",")[0]
    archive = read(file)
    write(file, archive.made_for | {"zenith": "0"}, archive.content)
    assert "does not run here: it was saved by another version" in _inspect(file).output
    file.write_bytes(file.read_bytes()[:-1])
    assert _inspect(file).exit_code == 1 and "is damaged" in _inspect(file).output
    assert _inspect(tmp_path / "missing").exit_code == 1


def _inspect(file):
    return CliRunner().invoke(cli.app, ["inspect", str(file)], env={"COLUMNS": "200"})
