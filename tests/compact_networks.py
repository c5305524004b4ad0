"""Networks of known coupled groups, to test the compact form without tables of architectures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from prune_gui.architecture.tables import SpaceRule
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup, Member
from prune_gui.recipe import Recipe, Resolution
from prune_gui.recipe.compaction.network import Architecture
from prune_gui.recipe.compaction.plan import planned, plans
from prune_gui.recipe.resolution import initial_resolution

FFN = SpaceRule.model_validate(
    {
        "title": "FFN neurons",
        "members": [{"name": "up.weight"}],
        "config": [{"field": "intermediate_size"}],
    }
)
CONFIG = {"architectures": ["Mlp"], "model_type": "mlp", "hidden_size": 6, "intermediate_size": 8}


class Block(nn.Module):
    """A feed-forward block with a residual connection."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Mlp(nn.Module):
    """Blocks one after the other."""

    def __init__(self, hidden: int = 6, widths: tuple[int, ...] = (8, 8, 8)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(hidden, width) for width in widths)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def ffn_group(layer: int, size: int, width: int = 1) -> CoupledGroup:
    """Return the neurons of a block."""
    path = f"layers.{layer}"
    members = (
        Member(f"{path}.up.weight", 0, width=width),
        Member(f"{path}.up.bias", 0, width=width, role="bias"),
        Member(f"{path}.down.weight", 1, width=width, role="consumes"),
    )
    return CoupledGroup("ffn", path, size, members)


def blocks_group(layers: int) -> CoupledGroup:
    """Return the blocks as units."""
    leaves = ("up.weight", "up.bias", "down.weight", "down.bias")
    return CoupledGroup(
        "layers",
        "layers",
        layers,
        tuple(
            Member(f"layers.{i}.{leaf}", None, i, number_at=1)
            for i in range(layers)
            for leaf in leaves
        ),
    )


def ffn_architecture(
    widths: tuple[int, ...] = (8, 8, 8), config: dict | None = None, **rules
) -> Architecture:
    """Return the architecture of an `Mlp`; `rules` change those of its neurons."""
    groups = tuple(ffn_group(layer, width) for layer, width in enumerate(widths))
    rule = SpaceRule.model_validate({**FFN.model_dump(), **rules})
    return Architecture({"ffn": rule}, groups, {}, {}, config)


def channels(name: str, dim: int, which) -> dict:
    """Return a step that prunes channels."""
    listed = ",".join(map(str, which))
    return {"method": "channels", "targets": [name], "dim": dim, "channels": listed}


def neurons(layer: int | str, which) -> list[dict]:
    """Return steps that prune neurons of a block, or of all blocks ("*")."""
    path = f"layers.{layer}"
    return [
        channels(f"{path}.up.weight", 0, which),
        channels(f"{path}.up.bias", 0, which),
        channels(f"{path}.down.weight", 1, which),
    ]


def resolved(checkpoint, steps, start: str = "dense") -> Resolution:
    """Return the resolution of some steps."""
    recipe = Recipe(start=start, steps=steps)
    resolution = initial_resolution(recipe, checkpoint, Monitor())
    for step in recipe.steps:
        resolution = resolution.with_step(step, Monitor())
    return resolution


def with_plan(resolution: Resolution, architecture: Architecture) -> Resolution:
    """Let `export` use the plan for an architecture that no table describes."""
    plans[resolution] = {False: planned(resolution, architecture, Monitor())}
    return resolution


@dataclass(frozen=True)
class Saved:
    """A model folder."""

    folder: Path
    state: dict[str, torch.Tensor]


def saved_mlp(folder: Path, dtype=torch.float32, widths=(8, 8, 8), config=CONFIG) -> Saved:
    """Save an `Mlp` as Hugging Face does."""
    torch.manual_seed(0)
    state = {key: value.to(dtype) for key, value in Mlp(widths=widths).state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return Saved(folder, state)
