"""W9 on the GPU: the losses of fine-tuning by LoRA, dropout on, are those of PyTorch there."""

import pytest


@pytest.mark.parametrize(("accumulated", "batch"), [(2, 2), (4, 1)])
def test_fifty_steps(cuda_torch, accumulated, batch):
    for name in ("peft", "transformers"):
        pytest.importorskip(name)
    from tests.torch.fine_tuning import assert_same_curve

    assert_same_curve(50, 2, accumulated, batch, device="cuda", fallback="error")
