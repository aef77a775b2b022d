"""The Fourier transform of a million numbers, and back: a low pass."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs

SIZE = 1_000_000
CUTOFF = 1000  # frequencies that pass


def _numpy(_: Arrays, np: Any) -> Program:
    def low_pass(x: Array) -> Array:
        spectrum = np.fft.rfft(x)
        number = np.cumsum(np.ones_like(spectrum.real))  # NumPy's arange takes no size that is a symbol
        result: Array = np.fft.irfft(spectrum * (number <= CUTOFF), x.shape[0])
        return result

    return low_pass


def _torch(_: Arrays) -> Any:
    import torch

    class LowPass(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spectrum = torch.fft.rfft(x)
            return torch.fft.irfft(spectrum * (torch.arange(spectrum.shape[0]) < CUTOFF), x.shape[0])

    return LowPass()


LOW_PASS = Workload(
    name="low_pass",
    description="a low pass of 1e6 floats: a Fourier transform there and back",
    batches=inputs(((SIZE,),)),
    first=first_inputs(((1000,),)),
    torch=_torch,
    numpy=_numpy,
    bound=1e-4,
)
