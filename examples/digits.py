"""A trained classifier, compiled twice: from its prediction in plain NumPy, and from a PyTorch module.

scikit-learn fits a small network on its scanned digits. Its weights then run as a NumPy function under ``zenith.jit``
and as a torch module under ``zenith.from_torch``. The demo shows the graph and the generated kernels, checks that all
four predict the same on held-out digits, and compares times. ``make demo`` runs it.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from timing import seconds

import zenith

Predict = Callable[[np.ndarray], np.ndarray]
Layer = tuple[np.ndarray, np.ndarray]


def fit_digits() -> tuple[MLPClassifier, np.ndarray, np.ndarray]:
    """A classifier of 8x8 digits, and images (n, 64) and labels (n,) that it has not seen."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    train, held_out, train_labels, held_out_labels = train_test_split(images, labels, random_state=0)
    classifier = MLPClassifier(hidden_layer_sizes=(64, 64), random_state=0)
    return classifier.fit(train, train_labels), held_out, held_out_labels


def numpy_network(layers: list[Layer]) -> Predict:
    """The network's prediction, as anyone would write it in NumPy: (n, 64) images to (n, 10) probabilities."""

    def predict(x):
        *hidden, (w_out, b_out) = layers
        for w, b in hidden:
            x = np.maximum(x @ w + b, 0)
        scores = x @ w_out + b_out
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    return predict


def torch_network(layers: list[Layer]) -> torch.nn.Module:
    """The same network with the same weights as a torch module."""
    modules: list[torch.nn.Module] = []
    for w, b in layers:
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = torch.from_numpy(w.T.copy()), torch.from_numpy(b)
        modules += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1], torch.nn.Softmax(dim=-1)).eval()


def run(console: Console) -> None:
    """Fit, compile, show, compare."""
    classifier, images, labels = fit_digits()
    layers = [
        (w.astype(np.float32), b.astype(np.float32))
        for w, b in zip(classifier.coefs_, classifier.intercepts_, strict=True)
    ]
    tensor = torch.from_numpy(images)

    with_numpy, with_torch = numpy_network(layers), torch_network(layers)
    start = time.perf_counter()
    from_numpy = zenith.jit(with_numpy)
    from_numpy(images)
    compiled = time.perf_counter()
    from_torch = zenith.from_torch(with_torch, (tensor[:8],))
    with torch.inference_mode():
        from_torch(tensor)
    imported = time.perf_counter()

    for stage in ("graph", "kernels"):
        console.rule(f"[bold]{stage}[/] of the NumPy function")
        from_numpy.show(stage)

    runs: dict[str, tuple[Callable, np.ndarray | torch.Tensor]] = {
        "NumPy": (with_numpy, images),
        "zenith.jit of it": (from_numpy, images),
        "PyTorch eager": (with_torch, tensor),
        "zenith.from_torch of it": (from_torch, tensor),
    }
    with torch.inference_mode():
        report(console, runs, classifier.predict(images), labels)
    console.print(
        f"First calls, compilation included: jit {compiled - start:.2f} s, from_torch {imported - compiled:.2f} s."
    )


def report(
    console: Console,
    runs: dict[str, tuple[Callable, np.ndarray | torch.Tensor]],
    expected: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Check that all runs predict what scikit-learn predicts, and print their accuracy, difference and times."""
    table = Table(title=f"{len(labels)} held-out digits")
    for column in ("", "accuracy", "max difference", "us, all", "us, one"):
        table.add_column(column, justify="left" if column == "" else "right", no_wrap=True)
    reference = np.asarray(runs["NumPy"][0](runs["NumPy"][1]))
    for name, (run, batch) in runs.items():
        probabilities = np.asarray(run(batch))
        predicted = probabilities.argmax(axis=-1)
        if not np.array_equal(predicted, expected):
            raise SystemExit(f"{name} predicts other digits than scikit-learn")
        table.add_row(
            name,
            f"{np.mean(predicted == labels):.1%}",
            f"{np.abs(probabilities - reference).max():.1e}",
            f"{1e6 * seconds(lambda run=run, batch=batch: run(batch)):.1f}",
            f"{1e6 * seconds(lambda run=run, batch=batch: run(batch[:1])):.1f}",
        )
    console.print(table)
    console.print("Equal predictions everywhere.")


if __name__ == "__main__":
    run(Console())
