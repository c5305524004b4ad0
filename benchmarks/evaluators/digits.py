"""The demo network of the program: the accuracy on test images of handwritten digits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "resources" / "demo"))

import model
import torch
from reference import State

TRAINING, TEST = model.digits()


def calibration() -> Iterator[torch.Tensor]:
    """Yield the training images."""
    yield TRAINING.images


def outputs(state: State, images: torch.Tensor) -> torch.Tensor:
    """Return the logits, of shape (count, 10)."""
    return torch.func.functional_call(model.DigitsCNN().eval(), state, (images,))


def evaluate(path: str) -> float:
    """Return the share of test images that are classified correctly."""
    return model.accuracy(model.load(Path(path)), TEST)
