"""Models that several processes train, compiled: losses are those of one process with the whole batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.torch import distributed


@pytest.mark.parametrize("kind", ["ddp", pytest.param("fsdp", marks=pytest.mark.thorough)])
def test_losses(kind, tmp_path):
    """DistributedDataParallel compiled as a whole, FSDP2 block by block; two processes talk by gloo."""
    if not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    script, root = distributed.__file__, Path(distributed.__file__).parents[2]
    commands = [[sys.executable, script, kind, str(rank), "2", str(tmp_path)] for rank in range(2)]
    started = [
        subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) for c in commands
    ]
    outputs = [process.communicate(timeout=500) for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    model = distributed.network()
    wanted = distributed.losses(model, model, 0, 1)
    for out, _ in outputs:
        torch.testing.assert_close([float(word) for word in out.split()], wanted, rtol=1e-5, atol=1e-6)
