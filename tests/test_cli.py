"""The command line: the doctor really looks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zenith import cli

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
        raise cli.Absent("not installed")

    monkeypatch.setattr(cli, "CHECKS", (("torch", absent),))
    assert CliRunner().invoke(cli.app, ["doctor"]).exit_code == 0


def test_without_a_command_the_help_is_printed():
    result = CliRunner().invoke(cli.app, [])
    assert "doctor" in result.output


@pytest.mark.parametrize("probe", [probe for _, probe in cli.CHECKS if probe is not cli.gpu])
def test_each_check_finds_what_is_here(probe):
    assert probe()


def test_the_gpu_is_not_used_yet():
    with pytest.raises(cli.Absent, match="CPU"):
        cli.gpu()
