"""Several modules as one file: names that collide, what is written once, what is refused."""

import pytest

from zenith.eject.bundle import Bundle
from zenith.eject.modules import Definition, Modules
from zenith.errors import CompileError

MODULE = """import threading

_lock = threading.Lock()
LENGTH = 3

def {name}():
    with _lock:
        return LENGTH{more}
"""


def together(*texts):
    """The file of the functions f0, f1, ... of modules with these texts."""
    modules = Modules({f"zenith.made_{i}": text for i, text in enumerate(texts)})
    wanted = [Definition(f"zenith.made_{i}", f"f{i}") for i in range(len(texts))]
    return Bundle(modules, wanted, front=(), registering=(), preserved=(), taken=()).text()


def test_equal_values_are_written_once_and_every_module_keeps_its_own_lock():
    inner, outer = MODULE.format(name="f0", more=""), MODULE.format(name="f1", more=" + f0()")
    text = together(inner, outer.replace("import threading", "import threading\nfrom zenith.made_0 import f0"))
    assert text.count("= 3") == 1 and text.count("threading.Lock()") == 2
    scope = {}
    exec(text, scope)
    assert scope["f1"]() == 6, "with one lock for both this call would wait for itself"


def test_a_module_that_changes_a_global_name_is_refused():
    with pytest.raises(CompileError, match=r"zenith\.made_0 changes a global name"):
        together("count = 0\n\ndef f0():\n    global count\n    count += 1\n")
