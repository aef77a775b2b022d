"""Contenders in 8-bit integers: each library's own way to quantise a PyTorch module after training.

All are calibrated with the same batches, where they need some, and checked against float64 like the others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contender import (
    Contender,
    Job,
    Program,
    cache_folder,
    inference_mode,
    tensors,
    torch_program,
)
from benchmarks.contenders.runtimes import OpenVinoRequest, exported_to_onnx, onnx_options, openvino_model, quiet
from benchmarks.contenders.torch import needs_compiler
from benchmarks.contenders.zenith import SAVING, compilations

if TYPE_CHECKING:
    from benchmarks.workloads import Workload


def needs_calibration(workload: Workload) -> str | None:
    """Why contenders in 8 or 16 bits do not run a workload, or None."""
    return None if workload.calibration else "it is measured in float32"


def needs_both(workload: Workload) -> str | None:
    """The same for those that need a C++ compiler as well."""
    return needs_compiler(workload) or needs_calibration(workload)


def _zenith(job: Job) -> Program:
    """What is not in bytes, attention's products, is in bfloat16, as OpenVINO computes it."""
    import zenith

    batches = [tensors(batch) for batch in job.calibration]
    compiled: Program = zenith.quantize(
        job.program, batches, method="percentile", percentile=99.999, smooth=0, precision="bf16"
    )
    return compiled


def _torchao(job: Job) -> Program:
    import torch
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    module: Any = job.program
    quantize_(module, Int8DynamicActivationInt8WeightConfig())
    return job.compiled(lambda module: torch.compile(module, mode="max-autotune"))


def _pt2e(job: Job) -> Program:
    """PyTorch 2 export quantisation for inductor on x86."""
    import torch
    import torch._inductor.config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    module: Any = job.program
    quantizer = X86InductorQuantizer()
    quantizer.set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module, job.first).module(), quantizer)
    for batch in job.calibration:
        prepared(*tensors(batch))
    torch._inductor.config.freezing = True
    compiled: Program = torch.compile(convert_pt2e(prepared))
    return compiled


class _Batches:
    """ONNX Runtime's reader of calibration batches, which are given by the names of inputs."""

    def __init__(self, job: Job, names: list[str]) -> None:
        self._batches: Iterator[Any] = iter([dict(zip(names, batch, strict=True)) for batch in job.calibration])

    def get_next(self) -> Any:
        return next(self._batches, None)


class _OnnxRuntime:
    """Static quantisation in QDQ form, a scale for each channel of weights, and an inference session."""

    def __init__(self, job: Job) -> None:
        import onnxruntime

        stored = cache_folder() / "quantized.onnx"
        if not stored.exists():
            self._quantize(job, str(stored))
        self._session = onnxruntime.InferenceSession(str(stored), onnx_options(), providers=["CPUExecutionProvider"])
        self._names = [argument.name for argument in self._session.get_inputs()]

    def __call__(self, *arguments: Any) -> Any:
        return self._session.run(None, dict(zip(self._names, arguments, strict=True)))[0]

    @staticmethod
    def _quantize(job: Job, path: str) -> None:
        import onnx
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        source, prepared = exported_to_onnx(job), str(cache_folder() / "prepared.onnx")
        with quiet():
            quant_pre_process(source, prepared)
            names = [argument.name for argument in onnx.load(prepared).graph.input]
            quantize_static(
                prepared, path, _Batches(job, names), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            )  # fmt: skip


class _OpenVino:
    """NNCF's quantisation after training, and the CPU plugin."""

    def __init__(self, job: Job) -> None:
        import nncf
        import openvino

        stored = cache_folder() / "quantized.xml"
        if not stored.exists():
            nncf.set_log_level(logging.ERROR)
            with quiet():
                batches = list(job.calibration)
                made = nncf.quantize(openvino_model(job), nncf.Dataset(batches), subset_size=len(batches))
            openvino.save_model(made, stored, compress_to_fp16=False)
        self._request = OpenVinoRequest(str(stored), "bf16")  # its own choice, where the processor multiplies that

    def __call__(self, *arguments: Any) -> Any:
        return self._request(*arguments)


def contender(
    name: str,
    library: str,
    compile: Callable[[Job], Program],
    runtime: bool,
    declines: Callable[[Workload], str | None] = needs_calibration,
    **more: Any,
) -> Contender:
    """A contender; a ``runtime`` takes arrays, the others tensors."""
    given: dict[str, Any] = {} if runtime else {"convert": tensors, "scope": inference_mode}
    return Contender(
        name,
        tuple(dict.fromkeys((library, "torch"))),
        torch_program,
        compile=compile,
        versions=("zenith-compiler" if library == "zenith" else library,),
        declines=declines,
        **given,
        **more,
    )


os.environ.setdefault("TORCHAO_SKIP_LOADING_SO_FILES", "1")  # its own kernels are for GPUs and arm64

QUANTIZE = contender("zenith int8", "zenith", _zenith, False, facts=compilations, saving=SAVING)
TORCHAO = contender("torchao int8", "torchao", _torchao, False, needs_both)
PT2E = contender("pt2e int8", "torchao", _pt2e, False, needs_both)
ONNX_RUNTIME_INT8 = contender("onnx runtime int8", "onnxruntime", _OnnxRuntime, True)
OPENVINO_INT8 = contender("openvino int8", "nncf", _OpenVino, True)
