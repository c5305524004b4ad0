"""AttaCut, which splits Thai text into words.

Chormai et al., "AttaCut: A Fast and Accurate Neural Thai Word Segmenter", 2019. The metric is the
correlation of the logits of a word boundary with those of the dense network, on random sequences of
characters and syllables.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from reference import State, convolved, correlation, dense_state, linear, normalized
from torch.nn import functional

TEXTS, LENGTH = 16, 128
CALIBRATION_BATCHES = 4
MEAN_SYLLABLE = 3
"""Characters of a syllable, on average."""
LAYERS = ((1, 1, 1), (2, 6, 3), (3, 8, 2))
"""Number, padding and dilation of the convolutions."""


def _texts(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers of characters and of their syllables, each of shape (TEXTS, LENGTH)."""
    characters, syllables = (len(_dense[f"{kind}_embeddings.weight"]) for kind in ("ch", "sy"))
    random = torch.Generator().manual_seed(seed)
    shape = (TEXTS, LENGTH)
    starts = torch.rand(shape, generator=random) < 1 / MEAN_SYLLABLE
    choices = torch.randint(1, syllables, shape, generator=random)
    syllable = choices.gather(1, starts.cumsum(dim=1).clamp(max=LENGTH - 1))
    return torch.randint(1, characters, shape, generator=random), syllable


def calibration() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield texts that the evaluation does not have."""
    return map(_texts, range(1, 1 + CALIBRATION_BATCHES))


def outputs(state: State, texts: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return the logit of a boundary at each character, of shape (TEXTS, LENGTH, 1)."""
    character = functional.embedding(texts[0], state["ch_embeddings.weight"])
    syllable = functional.embedding(texts[1], state["sy_embeddings.weight"])
    embedded = torch.cat([character, syllable], dim=2).transpose(1, 2)
    branches = [
        normalized(
            state, f"conv{layer}.bn",
            convolved(state, f"conv{layer}.conv", embedded, padding=padding, dilation=dilation),
        )
        for layer, padding, dilation in LAYERS
    ]  # fmt: skip
    values = torch.stack(branches).amax(dim=0).transpose(1, 2)
    return linear(state, "linear2", linear(state, "linear1", values).relu())


_dense = dense_state("attacut", "model.pth")
TEXTS_TO_SPLIT = _texts(0)
with torch.no_grad():
    DENSE = outputs(_dense, TEXTS_TO_SPLIT)


def evaluate(state: State) -> float:
    """Return the correlation of the logits with those of the dense network."""
    with torch.no_grad():
        return correlation(outputs(state, TEXTS_TO_SPLIT), DENSE)
