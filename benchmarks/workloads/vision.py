"""Convolutional networks with random weights: ResNet-50, and a small one for handwritten digits.

ResNet-50 is that of K. He et al., *Deep residual learning for image recognition*, arXiv:1512.03385, with strides on the
3x3 convolutions, as it is trained today. Statistics of its norms are drawn, so that folding them is no accident.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.workloads.workload import Arrays, Workload, first_inputs, inputs, normal

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride
RESNET_FLOPS = 2 * 4_089_184_256  # of one image


def _resnet(_: Arrays) -> Any:
    import torch
    from torch import nn

    class Block(nn.Module):
        """Three convolutions, added to the input."""

        def __init__(self, channels: int, width: int, stride: int) -> None:
            super().__init__()
            self.narrow, self.norm1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
            self.middle, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.wide, self.norm3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            same = stride == 1 and channels == 4 * width
            shortcut = nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            self.shortcut = nn.Identity() if same else nn.Sequential(*shortcut)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.norm1(self.narrow(x)))
            y = torch.relu(self.norm2(self.middle(y)))
            return torch.relu(self.norm3(self.wide(y)) + self.shortcut(x))

    torch.manual_seed(5)
    stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    blocks: list[nn.Module] = []
    channels = 64
    for width, count, stride in STAGES:
        blocks += [Block(channels if i == 0 else 4 * width, width, stride if i == 0 else 1) for i in range(count)]
        channels = 4 * width
    module = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    norms: list[Any] = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        nn.init.normal_(norm.running_mean, std=0.1)
        for drawn, low, high in ((norm.running_var, 0.5, 1.5), (norm.weight, 0.5, 1.0), (norm.bias, -0.1, 0.1)):
            nn.init.uniform_(drawn, low, high)
    return module


def _digits(_: Arrays) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(6)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def resnet_of(batch: int) -> Workload:
    """ResNet-50 on so many images."""
    return Workload(
        name=f"resnet50_b{batch}",
        description=f"ResNet-50 on {batch} image{'s' * (batch > 1)} of 224x224",
        batches=inputs(((batch, 3, 224, 224),)),
        first=first_inputs(((batch, 3, 224, 224),)),
        torch=_resnet,
        long=batch > 1,
        flops=batch * RESNET_FLOPS,
    )


RESNET50_B1, RESNET50_B8 = resnet_of(1), resnet_of(8)
RESNET50_NARROW = replace(
    RESNET50_B1,
    name="resnet50_narrow",
    description=f"{RESNET50_B1.description}, in 16 bits, and in 8 where ranges come from 16 batches",
    calibration=lambda: [normal(((1, 3, 224, 224),), seed=100 + number) for number in range(16)],
    bound=0.1,
)
DIGITS = Workload(
    name="digits_cnn",
    description="a network of 421 642 parameters on 1000 images of 28x28",
    batches=inputs(((1000, 1, 28, 28),)),
    first=first_inputs(((1000, 1, 28, 28),)),
    torch=_digits,
    long=True,
    flops=1000 * 2 * (28 * 28 * 9 * 32 + 14 * 14 * 9 * 32 * 64 + 64 * 7 * 7 * 128 + 1280),
)
