"""Writing recorded statistics as a file that the field `importance` of a step reads."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from prune_gui.checkpoint import TensorWriter, open_checkpoint
from prune_gui.checkpoint.write.metadata import CHECKSUMS_KEY
from prune_gui.checkpoint.write.writing import write_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.evaluation.calibration.statistics import STATISTICS, LazyTensor
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.recipe.auxiliary_files import RECORDING_KEY
from prune_gui.recipe.provenance import own_version


def write_scores(
    path: Path,
    tensors: Mapping[str, LazyTensor],
    *,
    statistic: str,
    counts: Mapping[str, int],
    model: type,
    names: Mapping[Tensor, Sequence[str]],
    transposed: Collection[str],
    overwrite: bool,
) -> None:
    """Write the tensors of one statistic, with what they were recorded from in the metadata."""
    if overwrite and path.exists() and not _has_statistics(path):
        raise CheckpointError(
            tr(
                "{path} was not written: the file there has no recorded statistics, and may be a "
                "checkpoint. Choose another name.",
                path=path,
            )
        )
    recorded = {
        first: (weight, aliases) for weight, (first, *aliases) in names.items() if first in tensors
    }
    record = {
        "statistic": statistic,
        "formula": STATISTICS[statistic],
        **counts,
        "model": f"{model.__module__}.{model.__qualname__}",
        "shapes": {name: list(weight.shape) for name, (weight, _) in recorded.items()},
        "aliases": {alias: name for name, (_, aliases) in recorded.items() for alias in aliases},
        "transposed": [name for name in recorded if name in transposed],
        "versions": {
            "prune_gui": own_version(),
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
    }
    writers = [
        TensorWriter(name, "float32", tensors[name].shape, partial(_whole, tensors[name]))
        for name in recorded  # in the order of the model
    ]
    metadata = {RECORDING_KEY: json.dumps(record), CHECKSUMS_KEY: ""}
    write_checkpoint(
        path, writers, template=None, metadata=metadata, overwrite=overwrite, monitor=Monitor()
    )


def _has_statistics(path: Path) -> bool:
    try:
        with open_checkpoint(path) as old:
            return RECORDING_KEY in old.metadata
    except CheckpointError:
        return False


def _whole(tensor: LazyTensor) -> Iterator[Tensor]:
    yield tensor.compute().reshape(-1)
