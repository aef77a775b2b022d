"""Fine-tuning by LoRA (W9): a small sibling of TinyLlama with adapters by peft, trained with the backend or without."""

import warnings

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from zenith.errors import FallbackWarning

RANK, ALPHA, DROPOUT, RATE, BATCH, ACCUMULATED, SEED = 8, 32, 0.1, 2e-4, 2, 2, 42
LENGTH = 64
TEXT = "Fine-tuning by LoRA: a small sibling of TinyLlama with peft's adapters, whose losses are those of PyTorch."


def adapted(layers, device="cpu"):
    """TinyLlama's architecture (grouped queries, SwiGLU, RMS norms, rotary embedding) on bytes, with adapters."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH, use_cache=False,
    )  # fmt: skip
    lora = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=DROPOUT, target_modules=["q_proj", "v_proj"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is on its way out
        return get_peft_model(LlamaForCausalLM(config), lora).to(device)


def losses(model, call, steps, accumulated=ACCUMULATED, batch=BATCH):
    """The loss at each step; dropout draws from the seed."""
    text = torch.tensor(list((TEXT * 20).encode()), device=model.device)
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
    found = []
    for _ in range(steps):
        micro_losses = []
        for _ in range(accumulated):
            starts = torch.randint(0, len(text) - LENGTH, (batch,), generator=generator)
            tokens = torch.stack([text[start : start + LENGTH] for start in starts])
            micro_losses.append(call(input_ids=tokens, labels=tokens).loss / accumulated)
            micro_losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(sum(loss.detach() for loss in micro_losses))
    return torch.stack(found).double()


def assert_same_curve(steps, layers, *sizes, device="cpu", **options):
    """The mean squared difference of the losses with and without the backend is below W9's bound, and they fall."""
    torch.compiler.reset()
    curves = []
    for compiles in (False, True):
        model = adapted(layers, device)
        call = torch.compile(model, backend="zenith", options=options, dynamic=False) if compiles else model
        with warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            curves.append(losses(model, call, steps, *sizes))
    torch.compiler.reset()
    assert torch.isfinite(curves[1]).all() and curves[1][-1] < curves[1][0]
    assert (curves[0] - curves[1]).square().mean() < 1e-6
