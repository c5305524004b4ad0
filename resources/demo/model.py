"""The demo network and its training and test images.

``digits.npz.license`` says whose images these are. A pixel counts the points of ink, 0 to 16, in
4 x 4 of the original bitmap.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

DATA = Path(__file__).with_name("digits.npz")
TEST_IMAGES = 500
LAYERS = ("features.conv1", "features.conv2", "features.conv3", "classifier.hidden")
"""The layers with units that can be pruned."""


class Digits(NamedTuple):
    """Images, float32 of shape (count, 1, 8, 8) in [0, 1], and labels, int64 of shape (count,)."""

    images: torch.Tensor
    labels: torch.Tensor


class DigitsCNN(nn.Module):
    """Three convolutions and a classifier of two layers: 89,658 parameters.

    Args:
        widths: the output channels of `LAYERS`.
    """

    def __init__(self, widths: Sequence[int] = (16, 32, 64, 64)) -> None:
        super().__init__()
        first, second, third, hidden = widths
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(1, first, 3, padding=1, bias=False),
                bn1=nn.BatchNorm2d(first),
                act1=nn.ReLU(),
                conv2=nn.Conv2d(first, second, 3, padding=1, bias=False),
                bn2=nn.BatchNorm2d(second),
                act2=nn.ReLU(),
                pool=nn.MaxPool2d(2),
                conv3=nn.Conv2d(second, third, 3, padding=1, bias=False),
                bn3=nn.BatchNorm2d(third),
                act3=nn.ReLU(),
            )
        )
        self.classifier = nn.Sequential(
            OrderedDict(
                flatten=nn.Flatten(),
                hidden=nn.Linear(third * 4 * 4, hidden),
                act=nn.ReLU(),
                output=nn.Linear(hidden, 10),
            )
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits, of shape (count, 10)."""
        logits: torch.Tensor = self.classifier(self.features(images))
        return logits


def digits() -> tuple[Digits, Digits]:
    """Return the training images and the `TEST_IMAGES` test images."""
    with np.load(DATA) as arrays:
        images = torch.tensor(arrays["images"] / 16, dtype=torch.float32)[:, None]
        labels = torch.tensor(arrays["labels"], dtype=torch.int64)
    shuffled = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    dataset = Digits(images[shuffled], labels[shuffled])
    return (
        Digits(dataset.images[:-TEST_IMAGES], dataset.labels[:-TEST_IMAGES]),
        Digits(dataset.images[-TEST_IMAGES:], dataset.labels[-TEST_IMAGES:]),
    )


@torch.no_grad()
def accuracy(network: nn.Module, test: Digits) -> float:
    """Return the share of `test` that the network classifies correctly."""
    predicted = network.eval()(test.images).argmax(dim=1)
    return float((predicted == test.labels).double().mean())


def load(path: Path) -> DigitsCNN:
    """Load the network from a checkpoint: the original, finalized, reparametrized or compact.

    Raises:
        KeyError, RuntimeError: the file lacks a tensor of the network or holds an unknown one.
    """
    read = load_file if path.suffix == ".safetensors" else _load_pickled
    tensors = _merge_pairs(read(path))
    network = DigitsCNN([len(tensors[f"{layer}.weight"]) for layer in LAYERS])
    network.load_state_dict(tensors)
    return network


def _load_pickled(path: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return tensors


def _merge_pairs(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Replace each pair ``X_orig`` and ``X_mask`` by their product ``X``."""
    merged = {}
    for name, tensor in tensors.items():
        base_name = name.removesuffix("_orig")
        if name.endswith("_mask"):
            continue
        merged[base_name] = tensor if base_name == name else tensor * tensors[f"{base_name}_mask"]
    return merged
