"""Names that are not there: why they are refused, where they are instead, which are near."""

import importlib

import pytest

import zenith.numpy as znp
from zenith.errors import MissingAttributeError
from zenith.trace import dispatch

REFUSED = [f for f in dispatch._REFUSED if f not in dispatch._BY_FUNCTION]
ABSENT = [f for f in REFUSED if not dispatch.ours(f"{f.__module__}.{f.__name__}")]


@pytest.mark.parametrize("function", ABSENT, ids=lambda f: f.__name__)
def test_refused_names_say_why(function):
    module = importlib.import_module(function.__module__.replace("numpy", "zenith.numpy", 1))
    why, fix = dispatch.refused(function)
    with pytest.raises(AttributeError) as caught:
        getattr(module, function.__name__)
    assert isinstance(caught.value, MissingAttributeError)
    assert why in caught.value.what and caught.value.fix == fix and caught.value.where.file == __file__


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("cumulative_summ", "near matches that are: cumulative_sum"),
        ("erf", "use zenith.numpy.special.erf"),
        ("solve", "use zenith.numpy.linalg.solve"),
        ("set_printoptions", "NumPy's own set_printoptions is for what is concrete"),
        ("foundd", "near matches that are: round"),
        ("qqqq", "write it with functions that are there"),
    ],
)
def test_other_names_lead_on(name, fix):
    with pytest.raises(MissingAttributeError, match=f"zenith.numpy has no {name}\n.*\n  fix: {fix}"):
        getattr(znp, name)


def test_chapters_have_the_same_errors():
    with pytest.raises(MissingAttributeError, match=r"zenith.numpy.fft has no fftt\n.*\n.*near matches that are: fft"):
        _ = znp.fft.fftt
    with pytest.raises(MissingAttributeError, match=r"zenith.numpy.special has no gammal\n.*\n.*gammaln"):
        _ = znp.special.gammal


def test_asking_for_a_name_is_no_error():
    assert not hasattr(znp, "roots") and not hasattr(znp.linalg, "eig") and not hasattr(znp, "__nothing__")
    assert getattr(znp, "save", None) is None
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from zenith.numpy import roots", {})
