"""Silero VAD, the voice activity detector of 16 kHz.

The metric is the correlation of the logits of all frames with those of the dense network.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from reference import State, convolved, correlation, dense_state
from sounds import speech
from torch.nn import functional

CHUNK = 512
CONTEXT = 64
"""Samples of the chunk before, which precede those of a chunk."""
HIDDEN = 128
SPEAKERS = 8
CALIBRATION_BATCHES = 2
SECONDS = 6.0


def _chunks(batch: int) -> torch.Tensor:
    """Return chunks with their context, of shape (speakers, chunks, CONTEXT + CHUNK)."""
    sounds = torch.stack([speech(SECONDS, batch * SPEAKERS + n) for n in range(SPEAKERS)])
    padded = functional.pad(sounds, (CONTEXT, 0))
    return padded.unfold(1, CONTEXT + CHUNK, CHUNK)


def calibration() -> Iterator[torch.Tensor]:
    """Yield chunks of speakers that the evaluation does not have."""
    return map(_chunks, range(1, 1 + CALIBRATION_BATCHES))


def outputs(state: State, sounds: torch.Tensor) -> torch.Tensor:
    """Return the logit of speech in each chunk, of shape (chunks, speakers)."""
    speakers, chunks, samples = sounds.shape
    padded = functional.pad(sounds.reshape(speakers * chunks, 1, samples), (0, 64), "reflect")
    real, imaginary = convolved(state, "stft_conv", padded, stride=128).chunk(2, dim=1)
    values = (real**2 + imaginary**2).sqrt()
    for layer, stride in enumerate((1, 2, 2, 1), start=1):
        values = convolved(state, f"conv{layer}", values, stride=stride, padding=1).relu()
    cell = torch.nn.LSTMCell(HIDDEN, HIDDEN)
    prefix = "lstm_cell."
    cell.load_state_dict({n[len(prefix) :]: t for n, t in state.items() if n.startswith(prefix)})
    memory, logits = None, []
    for frame in values.view(speakers, chunks, HIDDEN).unbind(dim=1):
        memory = cell(frame, memory)
        logits.append(convolved(state, "final_conv", memory[0].relu()[..., None]).flatten())
    return torch.stack(logits)


CHUNKS = _chunks(0)
with torch.no_grad():
    DENSE = outputs(dense_state("silero", "silero_vad_16k.safetensors"), CHUNKS)


def evaluate(state: State) -> float:
    """Return the correlation of the logits with those of the dense network."""
    with torch.no_grad():
        return correlation(outputs(state, CHUNKS), DENSE)
