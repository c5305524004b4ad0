"""CREPE, which estimates pitch, on synthetic tones.

Kim et al., "CREPE: A Convolutional Representation for Pitch Estimation", 2018. The metric is the
share of tones whose pitch is found to 50 cents.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from reference import State, linear, normalized
from sounds import tones
from torch.nn import functional

FRAME = 1024
COUNT = 240
BATCH = 40
LARGE = 1000
"""Networks with more channels in the first layer hear every sixth tone only, for time."""
FIRST_CENTS = 1997.3794084376191
"""The first of 360 pitches, in cents above 10 Hz; they are 20 cents apart."""

SOUNDS, PITCHES = tones(COUNT, FRAME, seed=0)
CENTS = FIRST_CENTS + 20 * torch.arange(360)


def evaluate(state: State) -> float:
    """Return the share of tones whose pitch is found to 50 cents."""
    step = 6 if len(state["conv1.weight"]) > LARGE else 1
    with torch.no_grad():
        found = torch.cat(
            [_cents(outputs(state, frames)) for frames in SOUNDS[::step].split(BATCH)]
        )
    errors = (found - 1200 * torch.log2(PITCHES[::step] / 10)).abs()
    return (errors < 50).float().mean().item()


def calibration() -> Iterator[torch.Tensor]:
    """Yield frames of tones that the evaluation does not have."""
    return iter(tones(COUNT, FRAME, seed=1)[0].split(BATCH))


def outputs(state: State, frames: torch.Tensor) -> torch.Tensor:
    """Return the likelihoods of the pitches, (count, 360), for frames of shape (count, FRAME)."""
    values = frames[:, None, :, None]
    for layer in range(1, 7):
        first = layer == 1
        values = functional.pad(values, (0, 0, 254, 254) if first else (0, 0, 31, 32))
        weight, bias = state[f"conv{layer}.weight"], state[f"conv{layer}.bias"]
        values = functional.relu(functional.conv2d(values, weight, bias, (4 if first else 1, 1)))
        values = functional.max_pool2d(normalized(state, f"conv{layer}_BN", values, 1e-3), (2, 1))
    return linear(state, "classifier", values.permute(0, 2, 1, 3).flatten(1)).sigmoid()


def _cents(likelihoods: torch.Tensor) -> torch.Tensor:
    """Return the mean pitch around the most likely one, of shape (count,)."""
    distance = (torch.arange(360) - likelihoods.argmax(dim=1, keepdim=True)).abs()
    nearby = likelihoods * (distance <= 4)
    return nearby @ CENTS / nearby.sum(dim=1)
