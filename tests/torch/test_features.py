"""Arguments, attributes and results of modules, all at once: compiled, at two shapes, saved, loaded and equal."""

import torch
from torch import nn

import zenith
from tests.torch.test_models import check, tensors


class Tagger(nn.Module):
    """Scores of words, from an embedding that is also the head's weight, and a table of positions among the buffers."""

    def __init__(self, words=19, width=8):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.register_buffer("positions", torch.arange(64) % 5)
        self.register_buffer("scale", torch.tensor(0.5), persistent=False)

    def forward(self, ids, *, mask=None, extra=(), shift: int = 0, every=True):
        """Takes integers, bools, a tuple of tensors, and plain values; returns tuples in a dict in a tuple."""
        x = self.words((ids + shift) % 19) + self.positions[: ids.shape[1], None] * self.scale
        for more in extra:
            x = x + more["by"]
        x = self.mix(x.mT).mT
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)
        best = self.head(x).argmax(-1)
        return (
            {"scores": self.head(x), "nested": ((x, best), [(best > 3).long(), None])},
            ids.shape[0],
            "words" if every else "",
        )


def call(batch, length):
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(0, 19, (batch, length), generator=generator)
    mask = torch.rand(batch, length, generator=generator) > 0.3
    return (ids,), {"mask": mask, "extra": ({"by": torch.rand(batch, length, 8, generator=generator)},), "shift": 2}


@torch.no_grad()
def test_keywords_nested_results_tied_weights_buffers_integers_and_bools(tmp_path):
    torch.manual_seed(0)
    module = Tagger().eval()
    args, kwargs = call(2, 7)
    fast = zenith.from_torch(module, args, kwargs)
    for batch, length in ((2, 7), (3, 5)):
        args, kwargs = call(batch, length)
        check(fast, module, *args, **kwargs)
        assert fast(*args, **kwargs)[1:] == (batch, "words")
    assert fast.cache_info().misses == 1
    assert "head.weight" not in fast.graph.weights  # it is the embedding's
    for path in (tmp_path / "tagger.zenith", tmp_path / "tagger"):
        fast.save(path)
        for size in ((2, 7), (3, 5)):
            args, kwargs = call(*size)
            found, wanted = zenith.load(path)(*args, **kwargs), fast(*args, **kwargs)
            assert found[1:] == wanted[1:] and found[0]["nested"][1][1] is None
            assert all(map(torch.equal, tensors(found), tensors(wanted)))
