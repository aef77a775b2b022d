"""``make demo``: a classifier of digits, then a transformer that embeds sentences; both are trained."""

import digits
import sentences
from rich.console import Console


def main() -> None:
    """Both examples, one after the other."""
    console = Console()
    console.rule("[bold]1. Digits: a classifier from NumPy and from PyTorch")
    digits.run(console)
    console.rule("[bold]2. Sentences: a trained transformer")
    sentences.run(console)


if __name__ == "__main__":
    main()
