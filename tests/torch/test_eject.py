"""Ejected modules: NumPy arrays in and out, weights in a file next to the program, neither torch nor Zenith there."""

import numpy as np
import torch
from torch import nn

import zenith
from tests.eject.alone import run


class Tagger(nn.Module):
    """Two heads on half-precision embeddings, with a size, a value and a plain number among the results."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(50, 16).half(), nn.Linear(16, 5)

    def forward(self, tokens, scale=1.0, *, options=None):
        x = self.words(tokens).float() * scale
        scores = self.out(torch.relu(x))
        if options is not None:
            scores = scores + options["bias"]
        return {"scores": scores, "length": tokens.shape[1], "all": (x.sum((0, 1)), None, 3)}


@torch.no_grad()
def test_a_module_whose_weights_change(tmp_path):
    torch.manual_seed(0)
    module, tokens = Tagger().eval(), torch.arange(12).view(3, 4) * 7 % 50
    options = {"bias": torch.linspace(0, 1, 5)}
    fast = zenith.from_torch(module, (tokens, 2.0), {"options": options})
    fast(tokens, 2.0, options=options)
    module.out.bias += 1
    calls, wanted = [], []
    for batch, length in ((3, 4), (2, 9)):
        given = (torch.arange(batch * length) * 3 % 50).view(batch, length)
        wanted.append(fast(given, 2.0, options=options))
        calls.append(((given.numpy(), 2.0), {"options": {"bias": options["bias"].numpy()}}))
    fast.eject(tmp_path / "Tagger.py")
    data = np.load(tmp_path / "Tagger.npz")
    assert {"out.bias", "out.weight", "words.weight"} <= {*data.files} and data["words.weight"].dtype == np.float16
    np.testing.assert_array_equal(data["out.bias"], module.out.bias)
    found = run(tmp_path, [("tagger", f"{tmp_path}/Tagger.py", calls)])["tagger"]
    for here, there in zip(wanted, found, strict=True):
        (total, nothing, three), length, scores = here["all"], here["length"], here["scores"]
        assert nothing is None and (three, length) == (3, int(there[2]))
        assert there[0].tobytes() == total.numpy().tobytes() and there[3].tobytes() == scores.numpy().tobytes()
