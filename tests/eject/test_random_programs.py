"""Random programs, ejected, give the bits that the executable gives."""

import importlib.util
import sys

import pytest

from tests.programs import random_program
from tests.sampling import leave
from zenith.arrays import NUMPY
from zenith.backends.routines import calls
from zenith.compile import link_graph, lower_graph
from zenith.eject import Interface, LeafType, eject
from zenith.ir.types import bfloat16
from zenith.tree import Leaf


def interface(graph, name):
    """A function of flat arrays, and the name of each axis; those that are no symbol, or a known one, are its own."""
    seen, shapes = set(), []
    for number, value in enumerate(graph.inputs):
        axes = []
        for axis, size in enumerate(map(str, value.type.shape)):
            axes.append(size if size.isidentifier() and size not in seen else f"axis{number}_{axis}")
            seen.add(axes[-1])
        shapes += [(number, axes)] if axes else []
    leaves = [Leaf(number) for number in range(len(graph.inputs))]
    results = tuple(Leaf(number) for number in range(len(graph.outputs)))
    types = [LeafType(value.type.dtype, len(value.type.shape)) for value in graph.inputs]
    return Interface(name, "", [f"a{i}" for i in range(len(leaves))], "", leaves, {}, results, types, shapes, [])


@pytest.mark.parametrize("seed", leave(lambda seed: seed != 1, range(12)))
def test_same_bits(seed, tmp_path):
    graph, args = random_program(seed)
    if calls(graph) or any(v.type.dtype == bfloat16 for v in (*graph.inputs, *graph.outputs)):
        pytest.skip("a file does not hold such a program")
    lowered = lower_graph(graph, "cpu")
    executable, face = link_graph(lowered), interface(graph, f"program{seed}")
    sizes = {name: n for i, axes in face.shapes for name, n in zip(axes, args[i].shape, strict=True)}
    wanted = executable.run(args, [NUMPY] * len(args), {s: sizes[s] for s in executable.program.symbols}, NUMPY)
    path = tmp_path / f"{face.name}.py"
    eject(path, executable, lowered.plan, face, str(graph), "A random program.")
    spec = importlib.util.spec_from_file_location(face.name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[face.name] = module
    spec.loader.exec_module(module)
    found = getattr(module, face.name)(*args)
    for here, there in zip(wanted, found, strict=True):
        assert (here.dtype, here.shape, here.tobytes()) == (there.dtype, there.shape, there.tobytes())
