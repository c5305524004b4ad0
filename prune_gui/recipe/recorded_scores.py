"""Files of scores that `prune_gui.record` wrote: their metadata, and whose scores they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.parameters import COMPILED_PREFIX, DATA_PARALLEL_PREFIX
from prune_gui.errors import RecipeError
from prune_gui.language import tr

RECORDING_KEY: Final = "prune_gui.recording"
"""Metadata: a JSON object with the keys of `RecordedScores`, and others for people."""
NO_SCORES: Final = ("means", "second_moments", "batch_norm")
"""Statistics that are not scores of weights."""
MODEL_PREFIX: Final = "model."
"""Begins the names in checkpoints of training programs that keep the network in a field `model`."""


@dataclass(frozen=True)
class RecordedScores:
    """What a file of recorded scores tells about them.

    Attributes:
        statistic: the statistic; see `prune_gui.evaluation.calibration.statistics`.
        shapes: the shape of each parameter, by name.
        aliases: the name in `shapes` of each further name of a tied parameter.
        transposed: the names of weights whose input channels are dimension 0.
    """

    statistic: str
    shapes: Mapping[str, tuple[int, ...]]
    aliases: Mapping[str, str]
    transposed: frozenset[str]

    @classmethod
    def of(cls, file: Checkpoint) -> RecordedScores | None:
        """Read the metadata of a file; None if it has none of a recording, or is malformed."""
        text = file.metadata.get(RECORDING_KEY)
        return None if text is None else _parsed(text)

    def name_of(self, target: TensorInfo) -> str | None:
        """Return the name of a parameter of a checkpoint in the recording; None if it has none."""
        for name in (target.name, *target.aliases):
            for candidate in _candidates(name):
                found = self.aliases.get(candidate, candidate)
                if found in self.shapes:
                    return found
        return None


def scores_tensor(file: Checkpoint, target: TensorInfo) -> TensorInfo | None:
    """Return the tensor of a file that has the scores of a parameter; None if there is none.

    It has the same name. In a recorded file, it may be that of a tied parameter, and it may lack
    ``module.`` and ``_orig_mod.``, or lack or add ``model.`` at the start.
    """
    recorded = RecordedScores.of(file)
    if recorded is None:
        return file.tensors.get(target.name)
    if recorded.statistic in NO_SCORES:
        raise RecipeError(
            tr(
                "{path} holds {statistic} of layer inputs, which are no scores of weights. Use a "
                "file of activations, ria, fisher, obd or taylor.",
                path=str(file.path),
                statistic=recorded.statistic,
            )
        )
    return recorded_tensor(file, recorded, target)


def recorded_tensor(
    file: Checkpoint, recorded: RecordedScores, target: TensorInfo
) -> TensorInfo | None:
    """Return the tensor of a recorded file that belongs to a parameter; None if there is none."""
    name = recorded.name_of(target)
    if name is None:
        return None
    if recorded.shapes[name] != target.shape:
        raise RecipeError(
            tr(
                "{path} was recorded for another model: there {name} has shape {found}, but the "
                "parameter has {shape}. Record the statistics of this model.",
                path=str(file.path),
                name=name,
                found=list(recorded.shapes[name]),
                shape=list(target.shape),
            )
        )
    return file.tensors.get(name)


def _candidates(name: str) -> Iterator[str]:
    yield name
    # "x.module.y" is x wrapped for parallel training; a prefix is preceded by nothing or a dot
    plain = f".{name}"
    for prefix in (DATA_PARALLEL_PREFIX, COMPILED_PREFIX):
        plain = plain.replace(f".{prefix}", ".")
    plain = plain[1:]
    yield plain
    yield plain.removeprefix(MODEL_PREFIX)
    yield MODEL_PREFIX + plain


@lru_cache(maxsize=4)
def _parsed(text: str) -> RecordedScores | None:
    try:
        values: Any = json.loads(text)
        shapes = {name: tuple(map(int, shape)) for name, shape in values["shapes"].items()}
        aliases = {alias: str(name) for alias, name in values["aliases"].items()}
        transposed = frozenset(map(str, values.get("transposed", ())))
        return RecordedScores(str(values["statistic"]), shapes, aliases, transposed)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
