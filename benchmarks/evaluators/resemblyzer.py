"""The voice encoder of Resemblyzer.

Wan et al., "Generalized End-to-End Loss for Speaker Verification", 2018. The metric is the mean
cosine of the embeddings of synthetic voices to those of the dense network.
"""

from __future__ import annotations

import torch
from reference import State, dense_state, linear, mean_cosine
from sounds import mel_frames, speech

MELS, HIDDEN, LAYERS = 40, 256, 3
WINDOW, STEP = 400, 160
"""Samples of a frame, and between frames."""
SPEAKERS = 24
SECONDS = 1.6

LEVEL = 10 ** (-30 / 20)
"""Root mean square of the samples: -30 dB of full scale."""


def _frames(seed: int) -> torch.Tensor:
    """Return the mel frames of a voice, of shape (frames, MELS)."""
    sound = speech(SECONDS, seed)
    return mel_frames(sound * LEVEL / sound.square().mean().sqrt(), WINDOW, STEP, MELS)


FRAMES = torch.stack([_frames(seed) for seed in range(SPEAKERS)])


def _embeddings(state: State) -> torch.Tensor:
    """Return an embedding for each voice, of shape (speakers, HIDDEN)."""
    lstm = torch.nn.LSTM(MELS, HIDDEN, LAYERS, batch_first=True)
    lstm.load_state_dict({n[5:]: t for n, t in state.items() if n.startswith("lstm.")})
    _, (hidden, _) = lstm(FRAMES)
    return linear(state, "linear", hidden[-1]).relu()


with torch.no_grad():
    DENSE = _embeddings(dense_state("resemblyzer", "pretrained.pt"))


def evaluate(state: State) -> float:
    """Return the mean cosine to the dense embeddings."""
    with torch.no_grad():
        return mean_cosine(_embeddings(state), DENSE)
