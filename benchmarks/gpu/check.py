"""What this machine has for measurements on a GPU: ``python -m benchmarks.gpu.check``; fails when something is missing.

Written with Python's own library, so that it runs where nothing else does.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NEEDED = ("numpy", "numba", "llvmlite", "numba-cuda", "cuda-bindings", "cupy-cuda13x",
          "ml_dtypes", "networkx", "optree", "rich", "typer", "pytest", "hypothesis")  # fmt: skip
PEERS = ("torch", "triton", "jax", "pytest-xdist", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvrtc")
RESULTS = Path(__file__).resolve().parent.parent / "results" / "gpu"
_QUERY = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory"


def version(distribution: str) -> str | None:
    """The version of an installed distribution; None where it is not."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe() -> dict[str, Any]:
    """Python, GPU, driver, CUDA's compiler and packages with their versions, ready for JSON."""
    return {
        "python": platform.python_version(),
        "gpu": _says("nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"),
        "nvcc": (_says("nvcc", "--version") or "").rpartition("release ")[2].partition(",")[0] or None,
        "versions": {name: version(name) for name in (*NEEDED, *PEERS)},
    }


def _says(*command: str) -> str | None:
    """What a program prints, None where it is not there or fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def lacks(found: dict[str, Any]) -> Iterator[str]:
    """What is missing, a line each, with what to do."""
    if missing := [name for name in NEEDED if found["versions"][name] is None]:
        yield (
            f"not installed: {', '.join(missing)}. Say GPU_WHEELS=FOLDER, a folder that `make gpu-wheels` filled on a "
            "machine with a network; CuPy, Numba and CUDA have to be there already"
        )
        return
    try:
        yield from _device_lacks()
    except Exception as error:  # whatever it is, it is the finding
        yield f"{type(error).__name__}: {error}"


def _device_lacks() -> Iterator[str]:
    """Whether a kernel really runs: compiled, launched, and right."""
    import numpy as np

    from zenith.backends.cuda.presence import find, problem

    if why := problem(find()):
        yield str(why)
        return
    import cupy

    import zenith

    x = cupy.linspace(-2, 2, 1000, dtype=np.float32)
    found = cupy.asnumpy(zenith.jit(lambda x: np.tanh(x) + 1)(x))
    if not np.allclose(found, np.tanh(cupy.asnumpy(x)) + 1, rtol=1e-5):
        yield "tanh(x) + 1 has wrong values on this GPU"


def main() -> int:
    """Print and store what is found; 1 when measurements cannot be made."""
    found = describe()
    found["problems"] = list(lacks(found))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "check.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"python {found['python']} ({sys.executable})\nGPU    {found['gpu']}\nnvcc   {found['nvcc']}")
    for name, there in found["versions"].items():
        print(f"  {name:18} {there or '-'}")
    for line in found["problems"]:
        print(f"PROBLEM: {line}")
    return bool(found["problems"])


if __name__ == "__main__":
    sys.exit(main())
