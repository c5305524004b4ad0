"""PESTO, which estimates pitch: the encoder mir-1k_g7, on synthetic constant-Q spectra.

Riou et al., "PESTO: Pitch Estimation with Self-supervised Transposition-equivariant Objective",
2023. The metric is the share of spectra whose pitch is that of the dense network to 50 cents.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from reference import State, convolved, dense_state
from torch.nn import functional

BINS = 219
PER_SEMITONE = 3
COUNT = 400
HARMONICS = 12
SLOPE = 0.3
"""Of the leaky rectifiers."""


def _spectra(seed: int) -> torch.Tensor:
    """Return the levels of harmonic tones in noise in dB, of shape (COUNT, 1, BINS)."""
    random = torch.Generator().manual_seed(seed)
    lowest = 30 + (BINS - 110) * torch.rand(COUNT, 1, 1, generator=random)
    n = torch.arange(1, HARMONICS + 1)[:, None]
    places = lowest + 12 * PER_SEMITONE * torch.log2(n)
    fall = 0.5 + torch.rand(COUNT, 1, 1, generator=random)
    peaks = torch.exp(-0.5 * ((torch.arange(BINS) - places) / 1.2) ** 2) * n**-fall
    noise = 0.01 * torch.rand(COUNT, BINS, generator=random)
    return 20 * torch.log10(peaks.sum(dim=1) + noise + 1e-6)[:, None]


def calibration() -> Iterator[torch.Tensor]:
    """Yield spectra that the evaluation does not have."""
    yield _spectra(1)


def outputs(state: State, spectra: torch.Tensor) -> torch.Tensor:
    """Return the probabilities of the pitches, of shape (COUNT, pitches)."""
    state = {name.removeprefix("encoder."): tensor for name, tensor in state.items()}
    weight, bias = state["layernorm.weight"], state["layernorm.bias"]
    values = functional.layer_norm(spectra, weight.shape, weight, bias)
    values = functional.leaky_relu(convolved(state, "conv1.0", values, padding=19), SLOPE)
    for layer in range(2):
        inner = convolved(state, f"prefilt_layers.{layer}.0", values, padding=19)
        values = values + functional.leaky_relu(inner, SLOPE)
    for layer in range(0, 12, 3):
        values = functional.leaky_relu(convolved(state, f"conv_layers.{layer}", values), SLOPE)
    return convolved(state, "fc", values.flatten(1)[:, None], padding=383)[:, 0].softmax(dim=1)


def _pitches(state: State) -> torch.Tensor:
    """Return the mean pitch around the most likely one, in semitones, of shape (COUNT,)."""
    likelihoods = outputs(state, SPECTRA)
    distance = torch.arange(likelihoods.shape[1]) - likelihoods.argmax(dim=1, keepdim=True)
    nearby = likelihoods * (distance.abs() < PER_SEMITONE)
    return nearby @ torch.arange(float(likelihoods.shape[1])) / nearby.sum(dim=1) / PER_SEMITONE


SPECTRA = _spectra(0)
with torch.no_grad():
    DENSE = _pitches(dense_state("pesto", "mir-1k_g7.ckpt"))


def evaluate(state: State) -> float:
    """Return the share of spectra whose pitch is the dense one to half a semitone."""
    with torch.no_grad():
        return ((_pitches(state) - DENSE).abs() < 0.5).float().mean().item()
