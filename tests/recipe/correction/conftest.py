"""Networks, recordings of them, and what a recipe makes of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import prune_gui

Finalized = Callable[..., dict[str, torch.Tensor]]


class RecordedNetwork:
    """A network as a file, with recordings of its inputs beside it."""

    def __init__(self, folder: Path, network: nn.Module, inputs: torch.Tensor) -> None:
        self.folder, self.network, self.inputs = folder, network.eval(), inputs
        self.path = folder / "dense.safetensors"
        save_file(network.state_dict(), self.path)
        with torch.no_grad(), prune_gui.record(network, "second_moments", "means") as recording:
            network(inputs)
        recording.save(folder)

    def step(self, method: str, **fields: object) -> dict[str, object]:
        """Return a step; those that correct read the recordings."""
        files = {"refit": "second_moments", "bias_correction": "means"}
        if method in files:
            name = "moments" if method == "refit" else "means"
            fields = {name: str(self.folder / f"{files[method]}.safetensors"), **fields}
        return {"method": method, "targets": ["*"], **fields}

    def finalized(self, *steps: dict[str, object], form: str = "finalized"):
        """Return the tensors of a form, and the notes on each step."""
        recipe = prune_gui.Recipe.validated({"steps": list(steps)}, "recipe", None)
        out = self.folder / "out.safetensors"
        with prune_gui.open_checkpoint(self.path) as checkpoint:
            resolution = prune_gui.resolve(recipe, checkpoint)
            prune_gui.export(resolution, out, form=form, overwrite=True)
            notes = [dict(outcome.notes) for outcome in resolution.outcomes]
        return load_file(out), notes


@pytest.fixture
def recorded_network(tmp_path) -> Callable[[nn.Module, torch.Tensor], RecordedNetwork]:
    """Return a maker of recorded networks."""
    return lambda network, inputs: RecordedNetwork(tmp_path, network, inputs)


@pytest.fixture
def linear(recorded_network) -> RecordedNetwork:
    """Return a recorded linear layer with a bias, whose inputs have a mean."""
    torch.manual_seed(0)
    return recorded_network(nn.Sequential(nn.Linear(12, 6)), torch.randn(200, 12) + 1)
