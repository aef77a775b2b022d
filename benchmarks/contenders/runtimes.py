"""Inference runtimes: ONNX Runtime and OpenVINO, each fed the PyTorch module by its own documented converter.

An axis is dynamic in the exported model where the workload's sizes change, and fixed everywhere else. A second process
loads the optimised model that the first one stored.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

from benchmarks.contenders.contender import Contender, Job, cache_folder, threads, torch_program


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the messages and warnings of the converters."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _torch_arguments(job: Job) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(x) for x in job.first)


class _OnnxRuntime:
    """``torch.onnx.export`` and an inference session with every optimisation of the graph."""

    def __init__(self, job: Job) -> None:
        import onnxruntime

        optimised = cache_folder() / "optimised.onnx"
        options = onnx_options()
        if optimised.exists():
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            source = str(optimised)
        else:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.optimized_model_filepath = str(optimised)
            source = exported_to_onnx(job)
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self._names = [argument.name for argument in self._session.get_inputs()]

    def __call__(self, *arguments: Any) -> Any:
        return self._session.run(None, dict(zip(self._names, arguments, strict=True)))[0]


def onnx_options() -> Any:
    """The options of a session with the threads that are granted."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads(), 1
    options.log_severity_level = 3
    return options


def exported_to_onnx(job: Job) -> str:
    """The file with the module in ONNX."""
    import torch

    path = str(cache_folder() / "exported.onnx")
    dynamic = [dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in job.changing_axes]
    module: Any = job.program
    with quiet(), torch.no_grad():
        torch.onnx.export(module, _torch_arguments(job), path, dynamo=True, dynamic_shapes=tuple(dynamic))
    return path


class OpenVino:
    """``openvino.convert_model`` and the CPU plugin, for latency."""

    def __init__(self, job: Job, precision: str = "f32") -> None:
        import openvino

        stored = cache_folder() / "model.xml"
        if not stored.exists():
            openvino.save_model(openvino_model(job), stored, compress_to_fp16=False)
        self._request = OpenVinoRequest(str(stored), precision)

    def __call__(self, *arguments: Any) -> Any:
        return self._request(*arguments)


class OpenVinoRequest:
    """A stored model, compiled for the CPU and for latency; what is float32 in it is computed in ``precision``."""

    def __init__(self, path: str, precision: str = "f32") -> None:
        import openvino

        core = openvino.Core()
        core.set_property({"CACHE_DIR": str(cache_folder() / "openvino")})
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": threads(),
        }
        self._request = core.compile_model(path, "CPU", settings).create_infer_request()

    def __call__(self, *arguments: Any) -> Any:
        return self._request.infer(arguments, share_inputs=True, share_outputs=True)[0]


def openvino_model(job: Job) -> Any:
    """The module as OpenVINO's model."""
    import openvino
    import torch

    shapes = [
        openvino.PartialShape([-1 if a in axes else n for a, n in enumerate(x.shape)])
        for x, axes in zip(job.first, job.changing_axes, strict=True)
    ]
    with quiet(), torch.no_grad():
        return openvino.convert_model(job.program, example_input=_torch_arguments(job), input=shapes)


def _contender(name: str, library: str, compile: Any) -> Contender:
    return Contender(
        name,
        libraries=(library, "torch"),  # the model comes from PyTorch; running it would not need it
        program=torch_program,
        compile=compile,
        versions=(library, "onnx", "onnxscript") if library == "onnxruntime" else (library,),
    )


ONNX_RUNTIME: Contender = _contender("onnx runtime", "onnxruntime", _OnnxRuntime)
OPENVINO: Contender = _contender("openvino", "openvino", OpenVino)
