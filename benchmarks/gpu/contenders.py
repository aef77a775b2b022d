"""Who is measured on a GPU. What is float32 nobody rounds to TF32, and everybody is waited for at the end of a round.

Two contenders are ceilings: a copy of as many bytes as the workload moves at least, and PyTorch's product of large
matrices. They take turns with all others, so that shares of what they reach are of the same minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.arrays import Jax, JaxStep, jax_arrays, jax_program, numpy_program
from benchmarks.contenders.contender import (
    Contender,
    Job,
    Program,
    inference_mode,
    needs_numpy_program,
    torch_program,
)
from benchmarks.contenders.steps import Step, TorchStep
from benchmarks.contenders.zenith import ModuleStep, ZenithStep, compiled, needs_a_network, programs_of_backend
from benchmarks.gpu.workloads import REPLAYED
from zenith.backends.cuda.libraries import LIBRARY_ENGINES

if TYPE_CHECKING:
    from benchmarks.workloads import Array, Arrays, Workload

PREFIX = "gpu "
SQUARE = 4096  # of the product that is the ceiling
ENVIRONMENT = {  # a process takes no more memory than it needs, and JAX multiplies in float32
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",
}


def use_environment() -> None:
    """Set what all processes of a measurement inherit."""
    os.environ.update(ENVIRONMENT)


# --- arrays: a batch that begins one larger array, as all lengths of W12 do, shares its copy on the device ---


def _moved(arrays: Arrays, move: Callable[[Array], Any], copies: dict[int, tuple[Array, Any]]) -> tuple[Any, ...]:
    return tuple(_move(x, move, copies) for x in arrays)


def _move(x: Array, move: Callable[[Array], Any], copies: dict[int, tuple[Array, Any]]) -> Any:
    base = x.base
    if base is None or base.ndim != 1 or base.ctypes.data != x.ctypes.data:
        return move(x)
    if id(base) not in copies:
        copies[id(base)] = base, move(base)
    return copies[id(base)][1][: x.size].reshape(x.shape)


_TENSORS: dict[int, tuple[Any, Any]] = {}
_CUPY: dict[int, tuple[Any, Any]] = {}


def cuda_tensors(arrays: Arrays) -> tuple[Any, ...]:
    """Tensors on the GPU."""
    from benchmarks.workloads.workload import tensor

    return _moved(arrays, lambda x: tensor(x).cuda(), _TENSORS)


def cupy_arrays(arrays: Arrays) -> tuple[Any, ...]:
    """CuPy's arrays."""
    return _moved(arrays, _cupy_array, _CUPY)


def _cupy_array(array: Any) -> Any:
    """An array on the GPU; bfloat16 comes by its bits."""
    import cupy

    if array.dtype.name == "bfloat16":
        return cupy.asarray(array.view("uint16")).view(array.dtype)
    return cupy.asarray(array)


def _from_cupy(array: Any) -> Array:
    import cupy

    narrow = array.dtype.name == "bfloat16"
    found: Array = cupy.asnumpy(array.view("uint16")).view(array.dtype) if narrow else cupy.asnumpy(array)
    return found


def _from_tensor(tensor: Any) -> Array:
    """As an array; NumPy has no bfloat16, of which every element is a float32."""
    import torch

    wide = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    found: Array = wide.detach().cpu().numpy()
    return found


def _finish_torch(result: Any) -> None:
    import torch

    torch.cuda.synchronize()


def _finish_cupy(result: Any) -> None:
    import cupy

    cupy.cuda.Device().synchronize()


def _finish_zenith(result: Any) -> None:
    import zenith

    zenith.synchronize()


def _finish_jax(result: Any) -> None:
    import jax

    jax.block_until_ready(result)


# --- Zenith ---


def _jit(job: Job) -> Program:
    import zenith

    compiled: Program = zenith.jit(job.program)
    return compiled


def _from_torch(job: Job) -> Program:
    import zenith

    module: Any = job.program
    compiled: Program = zenith.from_torch(module, job.first)
    return compiled


def _by_backend(module: Any) -> Any:
    from zenith.torch.dynamo.backend import zenith

    return compiled(module, zenith)


def _zenith_facts(call: Any) -> dict[str, Any]:
    import zenith

    return {"compilations": call.cache_info().misses, "pool": str(zenith.memory.stats())}


@contextmanager
def _without_graphs() -> Iterator[None]:
    from zenith.config import config

    before, config.graphs = config.graphs, False
    try:
        with inference_mode():
            yield
    finally:
        config.graphs = before


def _with_engines(*engines: str) -> Callable[[], AbstractContextManager[None]]:
    """Programs prefer engines, or leave those out that have a minus in front."""

    @contextmanager
    def scope() -> Iterator[None]:
        from zenith.config import config

        before, config.engines = config.engines, engines
        try:
            with inference_mode():
                yield
        finally:
            config.engines = before

    return scope


def _is_replayed(workload: Workload) -> str | None:
    return None if workload.name == REPLAYED else f"{REPLAYED} alone compares modes of launching"


# --- PyTorch ---


def _module(workload: Workload) -> Program:
    program: Program = _on_gpu(torch_program(workload))
    return program


def _on_gpu(module: Any) -> Any:
    """The module, whose products and convolutions of float32 round nothing to TF32: PyTorch's convolutions would."""
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    return module.cuda()


def _inductor(mode: str | None) -> Callable[[Job], Program]:
    def compile(job: Job) -> Program:
        import torch

        return job.compiled(lambda module: torch.compile(module, mode=mode))

    return compile


def _captured(job: Job) -> Program:
    """The module as a CUDA graph of torch's own: arguments are copied to where it reads them, and results from it."""
    import torch

    module: Any = job.program
    given = [x.clone() for x in job.first]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            module(*given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = module(*given)

    def call(*arguments: Any) -> Any:
        for tensor, argument in zip(given, arguments, strict=True):
            tensor.copy_(argument)
        graph.replay()
        return found.clone()

    return call


def _torch_step(workload: Workload) -> Step:
    return TorchStep(workload, move=_on_gpu)


def _inductor_step(mode: str | None) -> Callable[[Workload], Step]:
    def step(workload: Workload) -> Step:
        import torch

        return TorchStep(workload, lambda module: torch.compile(module, mode=mode), _on_gpu)

    return step


def _torch_contender(name: str, **more: Any) -> Contender:
    return Contender(
        PREFIX + name,
        libraries=("torch",),
        program=_module,
        convert=cuda_tensors,
        scope=inference_mode,
        finish=_finish_torch,
        fetch=_from_tensor,
        versions=("torch", "triton"),
        **more,
    )


# --- kernels written by hand, CuPy's fusion ---


def _by_hand(workload: Workload) -> str | None:
    from benchmarks.gpu.by_hand import NAMES

    return None if workload.name in NAMES else "no kernel is written by hand for this"


def _raw(workload: Workload) -> Program:
    from benchmarks.gpu.raw_kernels import program

    return program(workload)


def _triton(workload: Workload) -> Program:
    from benchmarks.gpu.triton_kernels import program

    return program(workload)


def _fuse(job: Job) -> Program:
    import cupy

    fused: Program = cupy.fuse(job.program)
    return fused


def _cupy_program(workload: Workload) -> Program:
    import cupy

    assert workload.numpy is not None
    return workload.numpy(cupy_arrays(workload.weights()), cupy)


def _is_elementwise(workload: Workload) -> str | None:
    return None if workload.expression else "cupy.fuse takes elementwise programs"


def _same_sizes(workload: Workload) -> str | None:
    return "it compiles anew for each size" if workload.varied else needs_numpy_program(workload)


def _same_sizes_or_absent(workload: Workload) -> str | None:
    return "it tunes anew for each size" if workload.varied else None


# --- ceilings ---


def _copy(workload: Workload) -> Program:
    import torch

    source = torch.ones(workload.bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda *arguments: target.copy_(source)


def _product(workload: Workload) -> Program:
    import torch

    torch.set_float32_matmul_precision("highest")
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    kind = kinds.get(workload.first()[0].dtype.name, torch.float32)
    a, b = (torch.randn(SQUARE, SQUARE, device="cuda", dtype=kind) for _ in range(2))
    return lambda *arguments: torch.mm(a, b)


def _moves(workload: Workload) -> str | None:
    return None if workload.bytes else "memory does not bound it"


def _multiplies(workload: Workload) -> str | None:
    return None if workload.flops else "products do not bound it"


JIT = Contender(
    PREFIX + "zenith jit",
    libraries=("cupy", "zenith"),
    program=numpy_program,
    convert=cupy_arrays,
    compile=_jit,
    facts=_zenith_facts,
    versions=("zenith-compiler", "numba", "numba-cuda", "cupy-cuda13x"),
    step=lambda workload: ZenithStep(workload, _cupy_array),
    declines=needs_numpy_program,
    finish=_finish_zenith,
    fetch=_from_cupy,
)
FROM_TORCH = Contender(
    PREFIX + "zenith from_torch",
    libraries=("torch", "zenith"),
    program=_module,
    convert=cuda_tensors,
    compile=_from_torch,
    scope=inference_mode,
    facts=_zenith_facts,
    versions=("zenith-compiler", "numba", "numba-cuda", "torch"),
    step=lambda workload: ModuleStep(workload, _on_gpu, cuda_tensors),
    finish=_finish_zenith,
    fetch=_from_tensor,
)
TORCH_COMPILE = replace(
    FROM_TORCH, name=PREFIX + "zenith torch.compile", compile=lambda job: job.compiled(_by_backend),
    facts=programs_of_backend, step=lambda workload: TorchStep(workload, _by_backend, _on_gpu),
    submodules=True, declines=needs_a_network,
)  # fmt: skip
LAUNCHES = replace(
    FROM_TORCH, step=None, name=PREFIX + "zenith without graphs", scope=_without_graphs, declines=_is_replayed
)
KERNELS = replace(
    FROM_TORCH, step=None, name=PREFIX + "zenith's kernels", declines=_multiplies,
    scope=_with_engines(*(f"-{engine.name}" for engine in LIBRARY_ENGINES)),
)  # fmt: skip
BY_LIBRARIES = replace(
    FROM_TORCH, step=None, name=PREFIX + "zenith by libraries", declines=_multiplies,
    scope=_with_engines(*(engine.name for engine in LIBRARY_ENGINES)),
)  # fmt: skip
CAPTURED = _torch_contender("torch.cuda.graph", compile=_captured, declines=_is_replayed)
EAGER = _torch_contender("torch eager", step=_torch_step, submodules=True)
INDUCTOR = _torch_contender("torch.compile", compile=_inductor(None), step=_inductor_step(None), submodules=True)
AUTOTUNE = _torch_contender(
    "torch.compile max-autotune", compile=_inductor("max-autotune"), step=_inductor_step("max-autotune-no-cudagraphs"),
    submodules=True, declines=_same_sizes_or_absent,
)  # fmt: skip
JAX = Contender(
    PREFIX + "jax",
    libraries=("jax", "jax.numpy"),
    program=jax_program,
    convert=jax_arrays,
    compile=lambda job: Jax(job, waits=False),
    facts=lambda call: call.facts(),  # type: ignore[attr-defined]
    versions=("jax", "jaxlib"),
    step=lambda workload: JaxStep(workload, waits=False),
    declines=_same_sizes,
    finish=_finish_jax,
)
CUPY_FUSE = Contender(
    PREFIX + "cupy fuse",
    libraries=("cupy",),
    program=_cupy_program,
    convert=cupy_arrays,
    compile=_fuse,
    versions=("cupy-cuda13x",),
    declines=_is_elementwise,
    finish=_finish_cupy,
    fetch=_from_cupy,
)
CUPY_RAW = Contender(
    PREFIX + "cupy RawKernel",
    libraries=("cupy",),
    program=_raw,
    convert=cupy_arrays,
    versions=("cupy-cuda13x",),
    declines=_by_hand,
    finish=_finish_cupy,
    fetch=_from_cupy,
)
TRITON = Contender(
    PREFIX + "triton",
    libraries=("torch", "triton"),
    program=_triton,
    convert=cuda_tensors,
    versions=("torch", "triton"),
    declines=_by_hand,
    finish=_finish_torch,
    fetch=_from_tensor,
)
COPY = Contender(
    PREFIX + "copy", libraries=("torch",), program=_copy, convert=lambda arrays: (), declines=_moves,
    finish=_finish_torch, ceiling=True,
)  # fmt: skip
PRODUCT = Contender(
    PREFIX + "torch.mm", libraries=("torch",), program=_product, convert=lambda arrays: (), declines=_multiplies,
    finish=_finish_torch, ceiling=True,
)  # fmt: skip

_ALL = (
    JIT, FROM_TORCH, TORCH_COMPILE, LAUNCHES, KERNELS, BY_LIBRARIES, EAGER, CAPTURED, INDUCTOR, AUTOTUNE, JAX,
    CUPY_FUSE, CUPY_RAW, TRITON, COPY, PRODUCT,
)  # fmt: skip
GPU_CONTENDERS = {contender.name: contender for contender in _ALL}
OWN = (JIT.name, FROM_TORCH.name, TORCH_COMPILE.name)
VARIANTS = (LAUNCHES.name, KERNELS.name, BY_LIBRARIES.name)  # settings of the second of them
CEILINGS = (COPY.name, PRODUCT.name)
