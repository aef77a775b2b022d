"""The text of errors: what was wrong, the types, the user's line, the fix.

Each family of bad input has one form of words.

Families, and how their texts read (``f`` is the function that the user called):

- values that are not there yet: "float() needs the values of a traced array ..."; sizes that depend on them: "f: the
  size of its result depends on values ..."; types that do: "f: its result is real or complex by ...". TraceError.
- writes: "writing into an array that is the argument x ...", "f cannot write what is traced into an array ...".
- sizes that do not fit: "f: shapes (2,) and (3,) do not fit together ...", "f: the inner sizes of ... must be equal".
- too few or many axes: "f needs an array of two axes ...", "f needs square matrices, not (n, 3) ..."; an axis that is
  not there: "f: axis 2 is out of bounds ...", or there twice: "f: an axis is named twice ...".
- a word that is none of an option's: "f: 'spin' is no mode".
- a number below 0 that cannot be: "f: the degree -1 is negative".
- a number or list of the wrong kind: "f: axis must be an integer, not str".
- calls: "sum: got an unexpected keyword argument 'axes'", "add takes 2 operands, not 1". CallError, a TypeError.
- as many of one thing as of another: "gradient: 3 distances for 1 axes".
- order of elements that is asked for: "f: the borders of bins must be in ascending order".
- element types: Zenith's own, "f: Zenith has no element type for ..."; a function's, "bitwise_and is not defined for
  these element types", "f takes integers and bools, not float64"; numbers that do not fit one, "Python integer ... is
  out of bounds for int32".
- positions: "an index is out of bounds for an axis of size 3", "too many indices ...".
- what is not there: "numpy.f is not supported on traced arrays", "f: the options where are not supported", "there is no
  backend 'tpu'".

One of each is shown here on plain arrays, those of tracing in tests/test_error_messages.py.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import zenith
import zenith.errors
import zenith.numpy as znp
from zenith.errors import ZenithError

X = np.arange(6.0).reshape(2, 3)
FAMILIES = {
    "an option": (lambda: znp.pad(X, 1, mode="mirror"), "pad: 'mirror' is no mode", "use one of"),
    "an order": (lambda: znp.reshape(X, 6, order="K"), "reshape: 'K' is no order", "use"),
    "a side": (
        lambda: znp.searchsorted(X[0], 1.0, side="up"),
        "searchsorted: 'up' is no side",
        "use 'left' or 'right'",
    ),
    "a norm": (lambda: znp.fft.fft(X, norm="both"), "fft: 'both' is no norm", "use one of 'backward', 'ortho'"),
    "a triangle": (lambda: znp.linalg.eigh(X @ X.T, "M"), "eigh: 'M' is no UPLO", "use 'L' or 'U'"),
    "a backend": (lambda: zenith.jit(np.sin, backend="tpu"), "there is no backend 'tpu'", "cpu"),
    "below 0": (lambda: znp.polyfit(X[0], X[1], -1), "polyfit: the degree -1 is negative", "use 0 or more"),
    "a count below 0": (lambda: znp.top_k(X, -1), "top_k: k -1 is negative", "use 0 or more"),
    "a length below 0": (
        lambda: zenith.scan(lambda c, x: (c, x), 0.0, None, length=-1),
        "scan: the length -1 is negative",
        "use 0 or",
    ),
    "an integer": (lambda: znp.sum(X, axis="rows"), "sum: axis must be an integer, not str", "give an int"),
    "an axis": (lambda: znp.sum(X, axis=2), "sum: axis 2 is out of bounds for an array of 2 axes", ""),
    "axes twice": (lambda: znp.sum(X, axis=(0, 0)), "sum: an axis is named twice: (0, 0)", "name each axis once"),
    "axes that lack": (lambda: znp.linalg.inv(X[0]), "inv needs matrices: an array of two axes or more", "reshape it"),
    "square": (lambda: znp.linalg.inv(X), "inv needs square matrices, not (2, 3)", "change the sizes"),
    "sizes": (lambda: znp.add(X, X.T), "add: shapes (2, 3) and (3, 2) do not fit together", "make the sizes equal"),
    "a broadcast": (
        lambda: znp.broadcast_to(X, (3, 3)),
        "broadcast_to: shapes (3, 3) and (2, 3) do not",
        "make the sizes equal",
    ),
    "as many": (lambda: znp.gradient(X[0], 1.0, 2.0, 3.0), "gradient: 3 distances for 1 axes", "give one number"),
    "terms": (lambda: znp.einsum("ij,jk->ik", X), "einsum: 2 terms for 1 operands", "write a term for each operand"),
    "ascending": (lambda: znp.histogram(X, bins=[2, 1, 0]), "histogram: the borders of bins must be in", "sort them"),
    "an element type": (lambda: znp.zeros(3, "S4"), "full: Zenith has no element type for |S4", "cast"),
    "a kind": (lambda: znp.packbits(X), "packbits takes integers and bools, not float64", "compare first"),
    "an operation's types": (lambda: znp.bitwise_and(X, 1), "bitwise_and is not defined for these element", "cast"),
    "a number": (lambda: znp.add(np.zeros(2, np.int8), 300), "Python integer 300 is out of bounds for int8", "cast"),
    "no array": (
        lambda: znp.sin([[1.0], [1.0, 2.0]]),
        "not an array: list",
        "give an array, a number, or nested lists",
    ),
    "a position": (lambda: znp.take(X, 7, axis=1), "an index is out of bounds for an axis of size 3", "check the"),
    "an option that is not there": (lambda: znp.add(X, 1, subok=False), "add: the options subok are not supported", ""),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_has_one_form(name):
    function, what, fix = FAMILIES[name]
    with pytest.raises(ZenithError) as caught:
        function()
    assert caught.value.what.startswith(what)
    assert fix in (caught.value.fix or "")


CALLED = ("api", "arrays", "control", "nn", "numpy", "optim", "outside", "random", "trace", "transforms")


def raised():
    """Every error made in a room that users call: its location, its first argument as text, its keywords."""
    rooms = Path(zenith.__file__).parent
    for path in sorted(p for room in CALLED for p in (rooms / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            kind = getattr(zenith.errors, name, None)
            if isinstance(kind, type) and issubclass(kind, ZenithError) and node.args:
                location = f"{path.relative_to(rooms)}:{node.lineno}"
                yield location, ast.unparse(node.args[0]), {keyword.arg for keyword in node.keywords}


def test_every_error_says_what_to_do():
    found = list(raised())
    assert len(found) > 200
    assert not [location for location, _, given in found if "fix" not in given and None not in given]


# Other words for what the families above say.
STRANGE = re.compile(
    r"is not (allowed|valid|a valid)|invalid|illegal|unknown|must be an int\b|must be one of|unsupported"
)


def test_the_same_words_for_the_same_thing():
    assert not [(location, what) for location, what, _ in raised() if STRANGE.search(what)]
