"""The list of tests that are left to `make fuzz` names tests that there are."""

from pathlib import Path

from tests.sampling import THOROUGH

ROOT = Path(__file__).resolve().parent.parent


def test_what_is_left_is_there_and_in_order():
    listed = Path(__file__).with_name("thorough.txt").read_text().splitlines()
    assert listed == sorted(THOROUGH)
    for name in listed:
        file, function = name.partition("[")[0].split("::")
        assert f"def {function}(" in (ROOT / file).read_text(), name
