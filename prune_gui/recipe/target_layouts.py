"""Which channels of its targets a step means, and what it says about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.language import deferred
from prune_gui.pruning.decisions.target import Target
from prune_gui.pruning.layouts import WeightLayout
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.fields import OPTIMIZER
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
from prune_gui.recipe.recorded_scores import RecordedScores

BY_RECORDING: Final = deferred("as the layer that was recorded, by the file of scores")


def target_layout(
    checkpoint: Checkpoint, info: TensorInfo, method: Method, files: AuxiliaryFiles
) -> WeightLayout:
    """Return which dimensions of a target have output and input channels.

    A recording that the method ranks by knows the layer itself.
    """
    path = method.files.get("importance")
    recorded = RecordedScores.of(files.file(path)) if path and path != OPTIMIZER else None
    if recorded is not None and recorded.name_of(info) in recorded.transposed:
        return WeightLayout(1, 0, BY_RECORDING)
    return weight_layout(checkpoint, info.name)


def layout_notes(method: Method, targets: Sequence[Target]) -> dict[str, str]:
    """Return a note on each target that is not (out, in), if the step depends on it."""
    if not method.depends_on_layout:
        return {}
    unusual = (target for target in targets if not target.layout.is_usual)
    return {target.name: target.layout.describe(target.shape) for target in unusual}
