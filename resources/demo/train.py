"""Train the demo network and write ``digits_cnn.safetensors`` beside this file.

Usage: ``python resources/demo/train.py``; it takes about ten seconds on one core.
"""

from __future__ import annotations

from pathlib import Path

import torch
from model import Digits, DigitsCNN, accuracy, digits
from safetensors.torch import save
from torch import nn

EPOCHS = 25
BATCH_SIZE = 64
PATH = Path(__file__).with_name("digits_cnn.safetensors")


def train(images: Digits) -> DigitsCNN:
    """Return a network trained on `images`; on one machine the result is bit-identical."""
    torch.set_num_threads(1)  # a sum split over threads rounds differently
    torch.manual_seed(0)
    network = DigitsCNN()
    steps = EPOCHS * -(-len(images.labels) // BATCH_SIZE)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images.labels))
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images.images[batch]), images.labels[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network


def main() -> None:
    """Train, measure and write."""
    training, test = digits()
    network = train(training)
    test_accuracy = f"{accuracy(network, test):.4f}"
    metadata = {"format": "pt", "architecture": "DigitsCNN", "accuracy": test_accuracy}
    PATH.write_bytes(save(network.state_dict(), metadata))
    print(f"{PATH.name}: {test_accuracy} of the test images named rightly")


if __name__ == "__main__":
    main()
