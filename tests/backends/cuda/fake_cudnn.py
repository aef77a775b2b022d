"""cuDNN's Python front end without the library: graphs of an attention or a convolution, computed with NumPy.

The functions have the names and arguments of the real front end, which ``tests/backends/cuda/test_cudnn.py`` compares
where that is installed. A graph may be executed only after all steps of building it, with a handle of the thread.
"""

import bisect
import ctypes
import itertools
import threading
from contextlib import contextmanager
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from zenith.backends.cuda import cudnn
from zenith.ir.ops.blocked_convolution import correlate

WORKSPACE = 512
STEPS = ["validate", "build_operation_graph", "create_execution_plans", "check_support", "build_plans"]
data_type = Enum("data_type", ["FLOAT", "HALF", "BFLOAT16"])
NOTES = Enum("numerical_note", ["TENSOR_CORE", "DOWN_CONVERT_INPUTS", "FFT", "NONDETERMINISTIC", "WINOGRAD_TILE_4x4",
                                "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13"])  # fmt: skip
NUMPY = {"FLOAT": np.float32, "HALF": np.float16, "BFLOAT16": ml_dtypes.bfloat16}


class NotSupported(Exception):
    """Raised for a graph that no plan exists for."""


class FakeTensor:
    def __init__(self, dim=None, stride=None, data_type=None, name="", uid=-1):
        self.dim, self.stride, self.type, self.name, self.uid, self.output = dim, stride, data_type, name, uid, False

    def set_output(self, output):
        self.output = output
        return self

    def set_dim(self, dim):
        self.dim = dim
        return self

    def set_stride(self, stride):
        self.stride = stride
        return self

    def set_data_type(self, data_type):
        self.type = data_type
        return self

    def set_uid(self, uid):
        self.uid = uid
        return self


class FakeGraph:
    def __init__(self, owner, handle, name, io_data_type, intermediate_data_type, compute_data_type):
        owner.check(handle)
        assert intermediate_data_type is compute_data_type is data_type.FLOAT and io_data_type in data_type
        self.owner, self.io, self.done, self.tensors = owner, io_data_type, [], {}

    def tensor(self, *, dim, stride, data_type, name, uid):
        made = FakeTensor(dim, stride, data_type, name, uid)
        assert uid not in self.tensors and len(dim) == len(stride) == 4
        self.tensors[uid] = made
        return made

    def sdpa(
        self, q, k, v, *, attn_scale, generate_stats, name, diagonal_alignment=None, diagonal_band_right_bound=None
    ):
        self.operation = SimpleNamespace(
            q=q, k=k, v=v, scale=attn_scale, causal=diagonal_band_right_bound == 0, o=FakeTensor(),
            stats=FakeTensor() if generate_stats else None,
        )  # fmt: skip
        assert diagonal_alignment in (None, self.owner.diagonal_alignment.TOP_LEFT)
        return self.operation.o, self.operation.stats

    def sdpa_backward(
        self, q, k, v, o, dO, stats, *, attn_scale, use_deterministic_algorithm, name, diagonal_alignment=None,
        diagonal_band_right_bound=None,
    ):  # fmt: skip
        made = [FakeTensor() for _ in range(3)]
        self.operation = SimpleNamespace(
            q=q, k=k, v=v, scale=attn_scale, causal=diagonal_band_right_bound == 0, o=o, stats=stats, ct=dO, made=made,
            repeatable=use_deterministic_algorithm,
        )  # fmt: skip
        assert diagonal_alignment in (None, self.owner.diagonal_alignment.TOP_LEFT)
        return made

    def conv_fprop(self, *, image, weight, padding, stride, dilation, name):
        made = FakeTensor()
        self.operation = SimpleNamespace(
            image=image, weight=weight, stride=stride, dilation=dilation, results=[made], epilogue=[], left_out=[]
        )
        assert padding == [0, 0] and name
        return made

    def add(self, *, a, b, name):
        return self._epilogue(name, a, b)

    def relu(self, *, input, name):
        return self._epilogue(name, input, None)

    def _epilogue(self, name, a, b):
        of = self.operation
        assert of.results[-1] is a and name
        of.epilogue.append((name, b))
        of.results.append(FakeTensor())
        return of.results[-1]

    def deselect_numeric_notes(self, notes):
        assert self.done == STEPS[:3] and all(isinstance(note, NOTES) for note in notes)
        self.operation.left_out += [note.name for note in notes]

    def deselect_workspace_greater_than(self, size):
        assert self.done == STEPS[:3]
        self.operation.most = size

    def _validate_convolution(self):
        of = self.operation
        *virtual, result = of.results
        (n, c, h, w), (o, ci, r, s) = of.image.dim, of.weight.dim
        sizes = [
            (k - (t - 1) * d - 1) // p + 1 for k, t, d, p in zip((h, w), (r, s), of.dilation, of.stride, strict=True)
        ]
        assert c == ci and result.dim == [n, o, *sizes] and result.output and not any(v.output for v in virtual)
        read = [b for _, b in of.epilogue if b is not None]
        assert all(b.dim in (result.dim, [1, o, 1, 1]) for b in read)
        assert all(x.type is self.io and x.stride[1] == 1 for x in (of.image, of.weight, result, *read))

    def _convolve(self, views):
        of = self.operation
        *_, result = of.results
        given = (views[x.uid].astype(np.float64) for x in (of.image, of.weight))
        total = correlate(*given, of.stride, of.dilation, 1)
        for name, b in of.epilogue:
            total = np.maximum(total, 0) if name == "relu" else total + views[b.uid].astype(np.float64)
        views[result.uid][...] = total.astype(NUMPY[result.type.name])

    def _step(self, name):
        assert self.done == STEPS[: len(self.done)] and STEPS[len(self.done)] == name
        self.done.append(name)

    def validate(self):
        self._step("validate")
        of = self.operation
        if hasattr(of, "image"):
            self._validate_convolution()
            return
        (b, h, s, d), (_, hk, t, _), e = of.q.dim, of.k.dim, of.v.dim[3]
        assert h % hk == 0 and of.k.dim == [b, hk, t, d] and of.v.dim[:3] == [b, of.v.dim[1], t]
        made = getattr(of, "made", [])
        assert of.o.dim == [b, h, s, e] and of.o.output == (not made) and of.o.type is self.io
        assert all(x.stride[3] == 1 and x.type is self.io for x in (of.q, of.k, of.v, of.o, *made))
        if of.stats is not None:
            assert of.stats.dim == [b, h, s, 1] and of.stats.type is data_type.FLOAT and of.stats.output == (not made)
        assert [x.dim for x in made] == ([of.q.dim, of.k.dim, of.v.dim] if made else [])
        assert all(x.output for x in made) and (not made or of.ct.dim == of.o.dim)

    def build_operation_graph(self):
        self._step("build_operation_graph")
        of = self.operation
        results = of.results[-1:] if hasattr(of, "image") else getattr(of, "made", None) or (of.o, of.stats)
        self.tensors.update({x.uid: x for x in results if x is not None})

    def create_execution_plans(self, modes):
        self._step("create_execution_plans")
        self.owner.built += 1
        if self.owner.refuses(self.operation):
            raise NotSupported("no valid execution plans built.\nmore")

    def check_support(self):
        self._step("check_support")

    def build_plans(self):
        self._step("build_plans")

    def get_workspace_size(self):
        return self.owner.workspace

    def execute(self, addresses, workspace, handle):
        assert self.done == STEPS and set(addresses) == set(self.tensors) and workspace % 256 == 0
        self.owner.check(handle)
        self.owner.executed.append(SimpleNamespace(operation=self.operation, stream=self.owner.streams[handle]))
        views = {uid: self.owner.view(addresses[uid], x) for uid, x in self.tensors.items()}
        self.owner.view(workspace, SimpleNamespace(type=data_type.FLOAT, dim=[WORKSPACE // 4], stride=[1]))[...] = (
            np.nan
        )
        if hasattr(self.operation, "image"):
            self._convolve(views)
            return
        (self._backward if hasattr(self.operation, "made") else self._forward)(views)

    def _backward(self, views):
        """From the saved averages and logarithms, which are not recomputed."""
        of = self.operation
        q, k, v, o, ct, stats = (views[x.uid].astype(np.float64) for x in (of.q, of.k, of.v, of.o, of.ct, of.stats))
        scores = of.scale * q @ np.swapaxes(k, -1, -2)
        weights = np.exp(scores - stats)
        if of.causal:
            weights = np.where(np.tri(*scores.shape[-2:], dtype=bool), weights, 0)
        dscores = weights * (ct @ np.swapaxes(v, -1, -2) - (o * ct).sum(-1, keepdims=True))
        transposed = np.swapaxes(dscores, -1, -2), np.swapaxes(weights, -1, -2)
        found = of.scale * dscores @ k, of.scale * transposed[0] @ q, transposed[1] @ ct
        for x, values in zip(of.made, found, strict=True):
            views[x.uid][...] = values.astype(NUMPY[x.type.name])

    def _forward(self, views):
        of = self.operation
        q, k, v = (views[x.uid].astype(np.float64) for x in (of.q, of.k, of.v))
        scores = of.scale * q @ np.swapaxes(k, -1, -2)
        if of.causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
        top = scores.max(-1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        views[of.o.uid][...] = (weights / total @ v).astype(NUMPY[of.o.type.name])
        if of.stats is not None:
            views[of.stats.uid][...] = top + np.log(total)


class FakeCudnn:
    """The module; ``executed`` records the calls, ``built`` counts graphs."""

    data_type, cudnnGraphNotSupportedError, numerical_note = data_type, NotSupported, NOTES
    heur_mode = IntEnum("heur_mode", {"A": 0, "FALLBACK": 2})
    diagonal_alignment = IntEnum("diagonal_alignment", {"TOP_LEFT": 0, "BOTTOM_RIGHT": 1})

    def __init__(self, driver):
        self.driver, self.executed, self.built, self.workspace = driver, [], 0, WORKSPACE
        self.handles, self.streams, self._numbers = {}, {}, itertools.count(1)
        self.refuses = lambda operation: False

    def backend_version(self):
        return 91000

    def create_handle(self):
        number = next(self._numbers)
        self.handles[number] = threading.get_ident(), self.driver.device()
        return number

    def set_stream(self, handle, stream):
        self.check(handle)
        self.streams[handle] = stream

    def check(self, handle):
        assert self.handles[handle] == (threading.get_ident(), self.driver.device())

    def pygraph(self, **options):
        return FakeGraph(self, **options)

    def view(self, address, tensor):
        """Elements at strides, which must all be in one allocation."""
        dtype = np.dtype(NUMPY[tensor.type.name])
        assert address % 16 == 0
        length = (sum((n - 1) * s for n, s in zip(tensor.dim, tensor.stride, strict=True)) + 1) * dtype.itemsize
        starts, pieces = self.driver._starts, self.driver._pieces
        at = bisect.bisect_right(starts, address) - 1
        assert at >= 0 and address + length <= starts[at] + len(pieces[starts[at]]), "outside of the device's memory"
        row = np.frombuffer((ctypes.c_char * length).from_address(address), dtype)
        return np.lib.stride_tricks.as_strided(row, tensor.dim, [s * dtype.itemsize for s in tensor.stride])


@contextmanager
def fake_cudnn(driver):
    """cuDNN on a fake driver's memory; gives the recording module."""
    found = FakeCudnn(driver)
    with cudnn.DOOR.using(found):
        yield found


def bound_graph(real: Any) -> type:
    """The class of graphs that the real front end binds to C++; from 1.25 on it hands them on to one, as they are."""
    bound: type = getattr(real._compiled_module, "backend_graph", None) or real.pygraph
    return bound
