"""nvmath's binding of cuBLASLt without the library: the same functions, which check everything and compute with NumPy.

What the real one takes on trust is checked here: sizes of attributes, leading dimensions, types, that addresses are as
aligned as was promised when the algorithm was chosen, that every element is in memory of the device, and the
workspace, which is filled with garbage. Products are computed from the addresses, so that layouts, transposes, batches
and epilogues are proven by values. Numbers of enumerations are the real ones (``tests/backends/cuda/test_cublaslt.py``
compares them where nvmath is installed).
"""

import bisect
import ctypes
import itertools
import threading
from collections import Counter
from contextlib import contextmanager
from enum import IntEnum
from types import SimpleNamespace

import ml_dtypes
import numpy as np

from zenith.backends.cuda import cublaslt
from zenith.backends.lower.product.epilogue import gelu, gelu_slope

ENUMS = {
    "MatmulDescAttribute": {
        "TRANSA": 3, "TRANSB": 4, "EPILOGUE": 7, "BIAS_POINTER": 8, "BIAS_BATCH_STRIDE": 10,
        "EPILOGUE_AUX_POINTER": 11, "EPILOGUE_AUX_LD": 12, "EPILOGUE_AUX_BATCH_STRIDE": 13, "BIAS_DATA_TYPE": 26,
    },
    "MatrixLayoutAttribute": {"BATCH_COUNT": 5, "STRIDED_BATCH_OFFSET": 6},
    "MatmulPreferenceAttribute": {
        "MAX_WORKSPACE_BYTES": 1, "REDUCTION_SCHEME_MASK": 3, "MIN_ALIGNMENT_A_BYTES": 5, "MIN_ALIGNMENT_B_BYTES": 6,
        "MIN_ALIGNMENT_C_BYTES": 7, "MIN_ALIGNMENT_D_BYTES": 8,
    },
    "Epilogue": {
        "DEFAULT": 1, "RELU": 2, "BIAS": 4, "RELU_BIAS": 6, "GELU": 32, "GELU_BIAS": 36, "GELU_AUX": 160,
        "GELU_AUX_BIAS": 164, "DGELU": 192, "BGRADA": 256, "BGRADB": 512,
    },
    "ReductionScheme": {"NONE": 0, "INPLACE": 1, "COMPUTE_TYPE": 2, "OUTPUT_TYPE": 4, "MASK": 7},
}  # fmt: skip
OTHERS = {
    "compute": {"COMPUTE_32F": 68, "COMPUTE_32F_FAST_TF32": 77, "COMPUTE_64F": 70},
    "operation": {"N": 0, "T": 1},
    "types": {"CUDA_R_32F": 0, "CUDA_R_64F": 1, "CUDA_R_16F": 2, "CUDA_R_16BF": 14},
}
BYTES = {
    "TRANSA": 4, "TRANSB": 4, "EPILOGUE": 4, "BIAS_DATA_TYPE": 4, "BATCH_COUNT": 4, "MAX_WORKSPACE_BYTES": 8,
    "REDUCTION_SCHEME_MASK": 4, **{f"MIN_ALIGNMENT_{m}_BYTES": 4 for m in "ABCD"},
}  # fmt: skip
NUMPY = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
SUPPORTED = {  # (compute, a and b, c and d): table 1 of cublasLtMatmul's documentation
    (68, 0, 0), (77, 0, 0), (68, 2, 2), (68, 2, 0), (68, 14, 14), (68, 14, 0), (70, 1, 1),
}  # fmt: skip
NEEDED = 4096  # bytes of workspace that algorithms take, where that many may be had


class FakeError(Exception):
    """The library's answer to a problem that it does not support."""


class FakeLt:
    """The functions of nvmath.bindings.cublasLt; ``matmuls`` records the calls, ``heuristics`` counts the questions."""

    def __init__(self, driver):
        self.driver, self.cuBLASLtError = driver, FakeError
        self.matmuls, self.calls, self.handles = [], Counter(), {}
        self.refuses = lambda problem: False
        self._numbers, self._lock = itertools.count(1 << 40), threading.Lock()
        self.live, self.algorithms = {}, {}
        for name, members in ENUMS.items():
            setattr(self, name, IntEnum(name, members))

    # --- objects ---

    def _new(self, thing):
        with self._lock:
            number = next(self._numbers)
            self.live[number] = thing
        return number

    def _destroy(self, number):
        del self.live[number]

    def get_version(self):
        return 130000

    def create(self):
        self.driver.graphs.refuse_unsafe("make a handle, which allocates")
        number = self._new("handle")
        self.handles[number] = threading.get_ident(), self.driver.device()
        return number

    def matmul_desc_create(self, compute, scale):
        assert scale == (1 if compute == 70 else 0)
        return self._new(SimpleNamespace(compute=int(compute), attributes={}))

    def matrix_layout_create(self, kind, rows, columns, ld):
        if not (rows > 0 and columns > 0 and (ld >= rows or ld == 0)):
            raise FakeError("INVALID_VALUE")
        return self._new(SimpleNamespace(kind=int(kind), rows=rows, columns=columns, ld=ld, attributes={}))

    def matmul_preference_create(self):
        return self._new(SimpleNamespace(attributes={}))

    matmul_desc_destroy = matrix_layout_destroy = matmul_preference_destroy = _destroy

    def _set(self, enum, number, attribute, address, length):
        name = getattr(self, enum)(attribute).name
        assert length == BYTES.get(name, 8), f"{name} has {BYTES.get(name, 8)} bytes, not {length}"
        kind = ctypes.c_int32 if length == 4 else ctypes.c_int64
        self.live[number].attributes[name] = kind.from_address(address).value

    def matmul_desc_set_attribute(self, *args):
        self._set("MatmulDescAttribute", *args)

    def matrix_layout_set_attribute(self, *args):
        self._set("MatrixLayoutAttribute", *args)

    def matmul_preference_set_attribute(self, *args):
        self._set("MatmulPreferenceAttribute", *args)

    # --- algorithms ---

    def MatmulHeuristicResult(self):
        return _Result()

    def matmul_algo_get_heuristic(self, handle, operation, a, b, c, d, preference, wanted, result, count):
        self.calls["heuristics"] += 1
        self._check_handle(handle)
        problem = self._problem(operation, a, b, c, d)
        given = self.live[preference].attributes
        assert wanted == 1 and given["REDUCTION_SCHEME_MASK"] == 2, "sums are added in the compute type alone"
        if self.refuses(problem) or problem.key not in SUPPORTED or not self._fits(problem):
            raise FakeError("NOT_SUPPORTED")
        number = len(self.algorithms) + 1
        needed = NEEDED if given["MAX_WORKSPACE_BYTES"] >= NEEDED else 0
        aligned = [given[f"MIN_ALIGNMENT_{name}_BYTES"] for name in "ABCD"]
        pointers = {n: v for n, v in self.live[operation].attributes.items() if n.endswith("POINTER")}
        self.algorithms[number] = SimpleNamespace(problem=problem, needed=needed, aligned=aligned, pointers=pointers)
        (ctypes.c_uint64).from_address(result).value = number
        ctypes.c_int32.from_address(result + 72).value = 0
        ctypes.c_int32.from_address(count).value = 1

    def _check_handle(self, handle):
        assert self.handles[handle] == (threading.get_ident(), self.driver.device())

    def _problem(self, operation, a, b, c, d):
        made, layouts = self.live[operation], [self.live[m] for m in (a, b, c, d)]
        transposed = [made.attributes.get(f"TRANS{m}", 0) for m in "AB"]
        shapes = [
            (m.columns, m.rows) if t else (m.rows, m.columns) for m, t in zip(layouts, [*transposed, 0, 0], strict=True)
        ]
        (m, k), (k2, n), *results = shapes
        assert k == k2 and results == [(m, n)] * 2, f"products of {shapes}"
        assert layouts[2].kind == layouts[3].kind and layouts[0].kind == layouts[1].kind
        assert len({x.attributes.get("BATCH_COUNT", 1) for x in layouts}) == 1
        assert layouts[3].ld >= m, "a result is no broadcast"
        epilogue = self.Epilogue(made.attributes["EPILOGUE"]).name
        key = made.compute, layouts[0].kind, layouts[3].kind
        seen = tuple((x.kind, x.rows, x.columns, x.ld, *sorted(x.attributes.items())) for x in layouts)
        own = {name: v for name, v in made.attributes.items() if not name.endswith("POINTER")}
        return SimpleNamespace(key=key, sizes=(m, n, k), transposed=transposed, layouts=layouts, epilogue=epilogue,
                               own=own, text=(made.compute, seen, *sorted(own.items())))  # fmt: skip

    def _fits(self, problem):
        m, own = problem.sizes[0], problem.own
        if "AUX" in problem.epilogue or problem.epilogue == "DGELU":
            assert own["EPILOGUE_AUX_LD"] >= m and own["EPILOGUE_AUX_LD"] % 8 == 0
        if "BGRAD" in problem.epilogue:
            assert problem.sizes[2] > 1, "sums of one term are not supported by all versions"
        if "BIAS" in problem.epilogue or "BGRAD" in problem.epilogue:
            assert own["BIAS_DATA_TYPE"] == problem.layouts[3].kind
        return True

    # --- products ---

    def matmul(self, handle, operation, alpha, a, da, b, db, beta, c, dc, d, dd, algorithm, workspace, length, stream):
        self._check_handle(handle)
        problem, chosen = self._problem(operation, da, db, dc, dd), self._chosen(algorithm)
        assert problem.text == chosen.problem.text, "the algorithm was chosen for another problem"
        for address, layout, bytes_ in zip((a, b, c, d), problem.layouts, chosen.aligned, strict=True):
            assert address % bytes_ == 0, f"an address that is no multiple of {bytes_}"
            assert bytes_ >= np.dtype(NUMPY[layout.kind]).itemsize
        for name, planned in chosen.pointers.items():  # an algorithm may want what the pointer was aligned to
            wanted = min(planned & -planned, 16)
            assert self.live[operation].attributes[name] % wanted == 0, f"{name} is no multiple of {wanted}"
        assert workspace % 256 == 0 and length >= chosen.needed
        if chosen.needed:
            self._memory(workspace, length)
        number = ctypes.c_double if problem.key[0] == 70 else ctypes.c_float
        scales = number.from_address(alpha).value, number.from_address(beta).value
        pointers = dict(self.live[operation].attributes)
        self.matmuls.append(SimpleNamespace(problem=problem, stream=stream, addresses=(a, b, c, d), scales=scales))

        def work():
            if chosen.needed:
                ctypes.memset(workspace, 0xA5, length)
            with np.errstate(all="ignore"):
                self._compute(problem, (a, b, c, d), scales, pointers)

        if self.driver.graphs.captures(stream):
            self.driver.graphs.capture_library(stream, work)
        else:
            work() if self.driver.delayed is None else self.driver.delayed.append(work)

    def _chosen(self, address):
        return self.algorithms[ctypes.c_uint64.from_address(address).value]

    def _compute(self, problem, addresses, scales, pointers):
        wide = np.float64 if problem.key[0] == 70 else np.float32
        a, b, c, d = (self._matrices(x, layout) for x, layout in zip(addresses, problem.layouts, strict=True))
        count = len(d)
        a, b = (np.swapaxes(m, 1, 2) if t else m for m, t in zip((a, b), problem.transposed, strict=True))
        scale, share = scales
        total = scale * (a.astype(np.float64) @ b.astype(np.float64))
        total = total + share * c.astype(np.float64) if share else total
        kind, (m, n, _) = problem.layouts[3].kind, problem.sizes
        if "BIAS" in problem.epilogue:
            total = total + self._view(pointers["BIAS_POINTER"], kind, (m,), (1,)).astype(np.float64)[:, None]
        if problem.epilogue.startswith("BGRAD"):
            (sums,) = a.sum(2, dtype=np.float64) if problem.epilogue == "BGRADA" else b.sum(1, dtype=np.float64)
            self._view(pointers["BIAS_POINTER"], kind, sums.shape, (1,))[...] = sums.astype(wide)
        if "AUX" in problem.epilogue or problem.epilogue == "DGELU":
            strides = pointers.get("EPILOGUE_AUX_BATCH_STRIDE", 0), 1, pointers["EPILOGUE_AUX_LD"]
            aux = self._view(pointers["EPILOGUE_AUX_POINTER"], kind, (count, m, n), strides)
            if problem.epilogue == "DGELU":
                total = total * gelu_slope(aux.astype(np.float64))
            else:
                aux[...] = total.astype(wide).astype(aux.dtype)
        if problem.epilogue.startswith("RELU"):
            total = np.maximum(total, 0)
        elif problem.epilogue.startswith("GELU"):
            total = gelu(total)
        d[...] = total.astype(wide).astype(d.dtype)

    def _matrices(self, address, layout):
        count = layout.attributes.get("BATCH_COUNT", 1)
        strides = layout.attributes.get("STRIDED_BATCH_OFFSET", 0), 1, layout.ld
        return self._view(address, layout.kind, (count, layout.rows, layout.columns), strides)

    def _view(self, address, kind, shape, strides):
        """Elements at strides, which must all be in one allocation."""
        dtype = np.dtype(NUMPY[kind])
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        row = self._memory(address, (last + 1) * dtype.itemsize).view(dtype)
        return np.lib.stride_tricks.as_strided(row, shape, [s * dtype.itemsize for s in strides])

    def _memory(self, address, length):
        starts, pieces = self.driver._starts, self.driver._pieces
        at = bisect.bisect_right(starts, address) - 1
        assert at >= 0 and address + length <= starts[at] + len(pieces[starts[at]]), "outside of the device's memory"
        return np.frombuffer((ctypes.c_char * length).from_address(address), np.uint8)


class _Result:
    """cublasLtMatmulHeuristicResult_t: 64 bytes of an algorithm, then its workspace, state and more."""

    def __init__(self):
        self._bytes = (ctypes.c_char * 96)()
        self.ptr = ctypes.addressof(self._bytes)
        ctypes.c_int32.from_address(self.ptr + 72).value = 15

    @property
    def state(self):
        return ctypes.c_int32.from_address(self.ptr + 72).value


class FakeBinding:
    """The interface of :class:`zenith.backends.cuda.cublaslt.NvmathModules`."""

    def __init__(self, driver):
        self.lt = FakeLt(driver)
        for name, members in OTHERS.items():
            setattr(self, name, IntEnum(name, members))


@contextmanager
def fake_cublaslt(driver):
    """cuBLASLt on a fake driver's memory; gives the recording binding."""
    found = FakeBinding(driver)
    with cublaslt.DOOR.using(found):
        yield found.lt
