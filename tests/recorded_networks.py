"""Small networks whose statistics are computed by hand, and how recordings of them are read."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

import prune_gui


def recorded(model: nn.Module, statistic: str, run, folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a statistic of a model that `run` runs."""
    with prune_gui.record(model, statistic) as recording:
        run()
    (path,) = recording.save(folder / "statistic.safetensors", overwrite=True)
    return load_file(path)


class TiedNetwork(nn.Module):
    """A language model whose head has the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(tokens)))
