"""The compact form of the demo network, loaded by the module that belongs to it."""

import runpy
from pathlib import Path

import torch

import prune_gui
from prune_gui.resources import resource


def test_compact_demo_equals_masked(demo_checkpoint: Path, tmp_path: Path) -> None:
    load = runpy.run_path(str(resource("demo") / "model.py"))["load"]
    recipe = prune_gui.Recipe.from_yaml(
        "version: 1\nsteps: [{method: coupled, targets: ['*'], space: channels, amount: 0.25}]"
    )
    with prune_gui.open_checkpoint(demo_checkpoint) as checkpoint:
        resolution = prune_gui.resolve(recipe, checkpoint)
        for form in ("finalized", "compact"):
            prune_gui.export(resolution, tmp_path / f"{form}.safetensors", form=form)
    masked, compact = (
        load(tmp_path / f"{form}.safetensors").eval() for form in ("finalized", "compact")
    )
    images = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(compact(images), masked(images), rtol=1e-4, atol=1e-5)
    assert compact.features.conv3.out_channels == 48
