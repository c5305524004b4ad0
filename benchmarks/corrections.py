"""What refit and bias correction keep of small real models, for several rankings.

Usage: ``python benchmarks/corrections.py [FOLDER] [--models NAME...] [--write FILE.md]``, with the
folder of `rankings.py`. The statistics are recorded on the inputs that `calibration` of an
evaluator yields, none of which is an input of the evaluation. Prints a table in Markdown, or writes
it between two marks of a file.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch
from measuring import replace_marked
from rankings import AMOUNTS, HERE, MODELS, Model, Row, value_table
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from prune_gui import Evaluator, PruneGuiError, Recipe, record
from prune_gui.checkpoint import Checkpoint
from prune_gui.evaluation import PORTFOLIO

MARKS = ("<!-- corrections -->", "<!-- end of corrections -->")
LEFT_OUT = ("CREPE full", "CREPE tiny", "Resemblyzer")
"""Not measured by default: the second moments of CREPE full have 65,536 columns, 17 GB; those of
CREPE tiny have 8,192, and each refit takes minutes; Resemblyzer consists of LSTMs, whose inputs are
not recorded."""
RANKINGS = {ranking.name: ranking for ranking in PORTFOLIO}
COLUMNS = (
    ("balanced, LAMP", ()),
    ("balanced, LAMP", ("refit",)),
    ("balanced, LAMP", ("refit", "bias correction")),
    ("global L1", ()),
    ("global L1", ("refit",)),
    ("uniform L1", ()),
    ("uniform L1", ("refit",)),
)
"""The name of a ranking, and the corrections after it."""
CENTERED = "centered"
"""The metric that counts instead of the value, where an evaluator returns it: constant outputs have
a large cosine to outputs that are all similar."""
CONVOLUTIONS: dict[Callable[..., object], type[nn.Conv1d | nn.Conv2d]] = {
    functional.conv1d: nn.Conv1d,
    functional.conv2d: nn.Conv2d,
}
PARAMETERS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
"""Those of the functions above, in order; `linear` has the first three."""


class AsModules(TorchFunctionMode):
    """Computes linear and convolutional functions with modules, which `record` can hook.

    Args:
        state: the tensors of a network, by name.

    Attributes:
        network: has the modules that ran, each at the name of its weight.
    """

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.network = nn.Module()
        self._names = {tensor: name for name, tensor in state.items()}
        self._modules: dict[str, nn.Module] = {}

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        given = dict(zip(PARAMETERS, args, strict=False)) | (kwargs or {})
        is_layer = func is functional.linear or func in CONVOLUTIONS
        if not is_layer or given["weight"] not in self._names:
            return func(*args, **(kwargs or {}))
        name = self._names[given["weight"]]
        if name not in self._modules:
            self._modules[name] = self._added(func, name.removesuffix(".weight"), given)
        return self._modules[name](given["input"])

    def _added(self, func: Callable[..., object], name: str, given: Mapping[str, Any]) -> nn.Module:
        """Add the module that computes a call of a function to the network."""
        weight, bias = given["weight"], given.get("bias")
        rows, columns, *kernel = weight.shape
        layer: nn.Module
        if func is functional.linear:
            layer = nn.Linear(columns, rows, bias is not None, device="meta")
        else:
            options = {key: given[key] for key in PARAMETERS[3:] if key in given}
            channels = columns * options.get("groups", 1)
            layer = CONVOLUTIONS[func](
                channels, rows, kernel, bias=bias is not None, device="meta", **options
            )
        layer.load_state_dict(
            {"weight": weight} | ({} if bias is None else {"bias": bias}), assign=True
        )
        *parents, last = name.split(".")
        module = self.network
        for parent in parents:
            if parent not in dict(module.named_children()):
                module.add_module(parent, nn.Module())
            module = module.get_submodule(parent)
        module.add_module(last, layer)
        return layer


@torch.no_grad()
def record_inputs(network: ModuleType, checkpoint: Checkpoint, folder: Path) -> None:
    """Write second moments and means of the inputs of the layers of a network to a folder."""
    state = {name: checkpoint.read(name) for name in checkpoint.tensors}
    with AsModules(state) as modules:
        network.outputs(state, next(iter(network.calibration())))  # finds the modules
        with record(modules.network, "second_moments", "means") as recording:
            for inputs in network.calibration():
                network.outputs(state, inputs)
    recording.save(folder)


def measured(
    model: Model, evaluator: Evaluator, checkpoint: Checkpoint, folder: Path
) -> Iterator[Row]:
    """Evaluate all columns at all sparsities, with the statistics in a folder."""
    corrections = {
        "refit": {"method": "refit", "moments": str(folder / "second_moments.safetensors")},
        "bias correction": {
            "method": "bias_correction",
            "means": str(folder / "means.safetensors"),
        },
    }
    of_dense = evaluator.evaluate(checkpoint)
    if CENTERED in of_dense.metrics:
        evaluator.metric = CENTERED
    dense = evaluator.value(of_dense)
    for amount in AMOUNTS:
        values = []
        for ranking, names in COLUMNS:
            steps = [RANKINGS[ranking].step(model.targets, amount)]
            steps += [{**corrections[name], "targets": list(model.targets)} for name in names]
            recipe = Recipe.validated({"steps": steps}, "", None)
            values.append(evaluator.value(evaluator.evaluate(checkpoint, recipe)))
        yield Row(model.name, amount, dense, tuple(values))


def main() -> None:
    """Record and evaluate the models, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("PRUNE_GUI_MODELS"))
    parser.add_argument(
        "--models",
        nargs="+",
        default=[model.name for model in MODELS if model.name not in LEFT_OUT],
    )
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    if arguments.folder is None:
        parser.error("give FOLDER, or set PRUNE_GUI_MODELS")
    os.environ["PRUNE_GUI_MODELS"] = str(Path(arguments.folder).absolute())  # for the evaluators
    sys.path.insert(0, str(HERE / "evaluators"))
    rows: list[Row] = []
    for model in MODELS:
        if model.name not in arguments.models:
            continue
        try:
            with ExitStack() as stack:
                evaluator, checkpoint = model.open(stack, Path(arguments.folder).absolute())
                folder = Path(stack.enter_context(TemporaryDirectory()))
                record_inputs(importlib.import_module(model.evaluator), checkpoint, folder)
                rows += measured(model, evaluator, checkpoint, folder)
        except PruneGuiError as error:
            print(f"{model.name} is left out: {error}", file=sys.stderr)
    if not rows:
        sys.exit("No model could be evaluated.")
    text = value_table([" + ".join((name, *names)) for name, names in COLUMNS], rows)
    if arguments.write:
        replace_marked(arguments.write, text, MARKS)
    print(text)


if __name__ == "__main__":
    main()
