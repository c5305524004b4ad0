"""Print the test accuracy of the demo network or of pruned versions of it.

Usage: ``python resources/demo/evaluate.py FILE [FILE...]``. Each file is the original checkpoint or
an export of the form finalized, reparametrized (``X_orig`` and ``X_mask``) or compact.
``resources/demo/evaluate.py:evaluate`` is an evaluator for ``prune-gui evaluate``.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from model import Digits, accuracy, digits, load


@cache
def test_images() -> Digits:
    """Return the images that the network was not trained with."""
    _, test = digits()
    return test


def evaluate(checkpoint: Path) -> dict[str, float]:
    """Return the accuracy of a checkpoint."""
    return {"accuracy": accuracy(load(Path(checkpoint)), test_images())}


def main(paths: list[str]) -> None:
    """Print a line for each file."""
    if not paths:
        sys.exit("usage: evaluate.py FILE [FILE...]")
    for path in paths:
        print(f"{evaluate(Path(path))['accuracy']:.4f}  {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
