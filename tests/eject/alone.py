"""Runs ejected files in a process that cannot import Zenith, and reports their results."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import importlib.util, pickle, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Refuse())
import numpy as np

def flat(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in flat(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in flat(item)]
    return [] if tree is None else [tree]

found = {}
for name, file, calls in pickle.load(open("calls.pickle", "rb")):
    spec = importlib.util.spec_from_file_location(f"ejected_{name}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, file.rpartition("/")[2][:-3])
    found[name] = []
    for args, kwargs in calls:
        try:
            found[name].append([np.asarray(leaf) for leaf in flat(function(*args, **kwargs))])
        except Exception as error:
            found[name].append((type(error).__name__, str(error)))
pickle.dump(found, open("results.pickle", "wb"))
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(REFUSED + ["torch"])))
"""


def run(folder, programs):
    """The flat results, or error's class and text, of each call of ``programs``: (name, file, [(args, kwargs)])."""
    Path(folder, "calls.pickle").write_bytes(pickle.dumps(programs))
    refused = ["zenith", "ml_dtypes", "networkx", "optree"]
    command = [sys.executable, "-I", "-c", SCRIPT.replace("REFUSED", repr(refused))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
    return pickle.loads(Path(folder, "results.pickle").read_bytes())
