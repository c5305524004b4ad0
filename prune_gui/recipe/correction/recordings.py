"""The correction that a recording beside a checkpoint makes possible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.pruning.methods.correction import BiasCorrection, CorrectionMethod, Refit
from prune_gui.recipe.recorded_scores import RecordedScores
from prune_gui.recipe.step import Step

log = logging.getLogger(__name__)

CORRECTIONS: Final[Mapping[str, Callable[[str], CorrectionMethod]]] = {
    Refit.statistic: lambda path: Refit(moments=path),
    BiasCorrection.statistic: lambda path: BiasCorrection(means=path),
}
"""Corrections with a recording of the dense model, by its statistic; the best one first."""
TARGETS: Final = "dims>1"


def correction_beside(checkpoint: Checkpoint) -> Step | None:
    """Return a step that uses a recording in the folder of a checkpoint, or in one within it.

    Only files with the names that `prune_gui.record` gives are opened, and of these the header is
    read. None if none of them was recorded for parameters with the shapes of the checkpoint, or if
    the folder cannot be read.
    """
    try:
        for statistic, path in _candidates(checkpoint):
            if _fits(path, statistic, checkpoint):
                return Step(method=CORRECTIONS[statistic](str(path)), targets=(TARGETS,))
    except OSError as error:
        log.warning("Recordings of %s cannot be looked for: %s", checkpoint.path, error)
    return None


def _candidates(checkpoint: Checkpoint) -> Iterator[tuple[str, Path]]:
    """Yield (statistic, path) of the files with the names of recordings."""
    path = checkpoint.path.absolute()
    folder = path if path.is_dir() else path.parent
    for statistic in CORRECTIONS:
        name = f"{statistic}.safetensors"
        for candidate in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if candidate.is_file():
                yield statistic, candidate


def _fits(path: Path, statistic: str, checkpoint: Checkpoint) -> bool:
    """Return whether a file is a recording of parameters of a checkpoint, with their shapes."""
    try:
        with open_checkpoint(path) as file:
            recorded = RecordedScores.of(file)
    except CheckpointError:
        return False
    if recorded is None or recorded.statistic != statistic:
        return False
    names = ((info, recorded.name_of(info)) for info in checkpoint.tensors.values())
    shapes = [recorded.shapes[name] == info.shape for info, name in names if name is not None]
    return bool(shapes) and all(shapes)
