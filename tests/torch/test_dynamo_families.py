"""Hugging Face's architectures under ``torch.compile``: two shapes and twenty steps of training, by Zenith alone.

Evaluated, they are as near to float64 as eager; trained, with dropout where the architecture has it, inside the
envelope of eager's curves. A few are in `make test`, all in `make fuzz`.
"""

from dataclasses import replace

import pytest
import torch

import zenith
from tests.torch.architectures import FAMILIES
from tests.torch.compiled_families import compiled, require_trains
from tests.torch.test_models import check, transformers  # noqa: F401 (a fixture)

EVALUATED = (
    "Bert", "Electra", "Albert", "DistilBert", "DebertaV2", "ModernBert", "MPNet", "GPT2", "Llama", "Gemma2", "OPT",
    "Phi", "T5", "Bart", "ViT", "DINOv2", "Swin", "ResNet", "ConvNeXt", "MobileNetV2", "EfficientNet", "YOLOS",
    "Wav2Vec2", "Whisper", "CLIP", "SigLIP", "Mamba2",
)  # fmt: skip
# How each is trained.
TRAINED = {
    "Bert": "adamw", "Electra": "sgd", "Albert": "adamw", "DistilBert": "adamw", "GPT2": "adamw", "Llama": "adamw",
    "Gemma2": "sgd", "OPT": "adamw", "T5": "adamw", "Bart": "sgd", "ViT": "adamw", "DINOv2": "sgd", "Swin": "adamw",
    "ResNet": "sgd", "ConvNeXt": "sgd", "MobileNetV2": "sgd", "DETR": "sgd", "Wav2Vec2": "adamw", "Whisper": "adamw",
    "CLIP": "adamw", "Mamba2": "adamw",
}  # fmt: skip
# Layers to leave out and spans to hide are drawn by NumPy or in Python, where no compiler sees them: not drawn here.
TRAINING = {"Wav2Vec2": {"apply_spec_augment": False, "layerdrop": 0.0}}


@pytest.fixture(autouse=True)
def _fresh():
    yield
    torch.compiler.reset()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")  # of transformers' own
@pytest.mark.parametrize("name", EVALUATED)
def test_evaluated(transformers, name):  # noqa: F811
    """TorchDynamo makes a graph of the first shape and one of any, as for every backend."""
    family = FAMILIES[name]
    module = family.build(transformers)
    fast = compiled(module)
    for call in family.calls():
        check(fast, module, **call)
    assert zenith.torch.graphs()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, where a model makes TorchDynamo leave some code out
@pytest.mark.parametrize("name", TRAINED)
def test_trained(transformers, name):  # noqa: F811
    family = FAMILIES[name]
    if name in TRAINING:
        family = replace(family, settings=family.settings | TRAINING[name])
    module = family.build(transformers).train()
    require_trains(module, [family.call(*family.sizes[0])] * 2, TRAINED[name])
