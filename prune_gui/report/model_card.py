"""A section on pruning for the model card of a checkpoint, in Markdown.

Its sentences are English, as in most model cards; steps are in the language of the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prune_gui.errors import one_line
from prune_gui.report.records import FileRecord, StepRecord

LOADING: Final = {
    "finalized": "Pruned weights are stored as zeros: the file loads like the original model.",
    "reparametrized": "Pruned parameters X are stored as X_orig and X_mask; X is their product.",
    "compact": "Pruned units are removed: the layers are smaller than those of the original model.",
    "masks": "The file has one mask per pruned parameter: False where a weight is pruned.",
}
"""How to load each form of file; files of other programs load like finalized ones."""
MAX_TARGETS: Final = 300
"""Limit of the targets of a step, in characters."""


def model_card(file: FileRecord) -> str:
    """Return a section "Pruning" of a model card, as on Hugging Face."""
    return "\n".join(_lines(file))


def _lines(file: FileRecord) -> Iterator[str]:
    yield "## Pruning"
    yield ""
    share = f"{file.sparsity:.1%}"
    yield f"{share} of the prunable parameters are zero ({file.zeros:,} of {file.total:,})."
    if file.kept_energy is not None:
        yield (
            f"The remaining weights keep {file.kept_energy:.2%} of the energy (the sum of squares) "
            "of the weights before pruning."
        )
    steps = file.steps or file.recorded
    if steps:
        yield from ("", "Method:", "")
        yield from (f"{step.number}. {_step(step)}" for step in steps if step.enabled)
    patterns = Counter(
        layer.patterns.n_m for layer in file.layers if layer.patterns and layer.patterns.n_m
    )
    dead = sum(layer.dead_channels > 0 for layer in file.layers)
    if patterns or dead:
        yield from ("", "Structure:", "")
        for pattern, count in patterns.items():
            yield f"- {pattern} sparsity in {count:,} of {len(file.layers):,} parameters"
        if dead:
            yield f"- output channels that are entirely zero in {dead:,} parameters"
    yield from ("", "### How to load", "")
    yield LOADING.get(file.form, LOADING["finalized"])
    if not file.is_stack:  # the name of the pruned file is not known yet
        yield from ("", "```python", *file.load_code, "```")


def _step(step: StepRecord) -> str:
    text = f"{one_line(step.method)}, {one_line(step.settings)}".rstrip(", ")
    text += f"; targets {_code(step.targets)}"
    if step.pruned is not None and step.total:
        text += f"; zeroed {step.pruned:,} of {step.total:,} ({step.pruned / step.total:.1%})"
    return text


def _code(text: str) -> str:
    """Return an untrusted text as Markdown code."""
    return f"`{one_line(text, MAX_TARGETS).replace('`', chr(39))}`"
