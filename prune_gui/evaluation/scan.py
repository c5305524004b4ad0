"""Sensitivity: what pruning one target or group at a time costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError
from prune_gui.evaluation.cache import Evaluation
from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.trials import Trial, Trials
from prune_gui.isolated.watching import ShowStatus
from prune_gui.language import tr
from prune_gui.monitor import CancelFlag
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe.patterns import patterns_for
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.selector import select

TARGETS: Final = ("!dims<2",)
"""What is pruned by default: all weights but biases and norms."""
AMOUNTS: Final = (0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan.

    Attributes:
        dense: the result without the scanned step.
        trials: one for each target and amount.
    """

    dense: Evaluation
    trials: tuple[Trial, ...]


def scan(
    evaluator: Evaluator,
    checkpoint: Checkpoint,
    amounts: Sequence[float] = AMOUNTS,
    *,
    targets: Sequence[str] = TARGETS,
    depth: int | None = None,
    method: str = "l1_unstructured",
    recipe: Recipe | None = None,
    cancel: CancelFlag | None = None,
    show: ShowStatus | None = None,
) -> Scan:
    """Prune one target at a time by several amounts, and evaluate each.

    An evaluation that fails is a trial with an error.

    Args:
        evaluator: the evaluator.
        checkpoint: the open checkpoint.
        amounts: shares of each target, in [0, 1].
        targets: patterns of the parameters, see `select`.
        depth: parameters with the same first parts of the name, this many, are pruned together;
            None: each by itself.
        method: name of the pruning method.
        recipe: steps to apply before.
        cancel: for example a `threading.Event`.
        show: called about twice a second with time and memory.

    Raises:
        EvaluationError: the checkpoint cannot be evaluated without the step, or no single number
            counts.
        RecipeError: the targets match nothing, the method does not exist, or has no amount.
        CheckpointError: the checkpoint cannot be read, or handed over.
    """
    check_method(method)
    groups = groups_of(checkpoint, targets, depth)
    trials = Trials(evaluator, checkpoint, recipe or Recipe(), cancel, show)
    return Scan(trials.dense, tuple(scan_trials(trials, groups, amounts, method)))


def scan_trials(
    trials: Trials, groups: Mapping[str, Sequence[str]], amounts: Sequence[float], method: str
) -> Iterator[Trial]:
    """Make the trials of a scan one by one; see `scan`."""
    for label, patterns in groups.items():
        for amount in amounts:
            fields = {"method": method, "targets": list(patterns), "amount": float(amount)}
            yield trials.try_steps(label, amount, fields)


def check_method(method: str) -> None:
    """Check that a method exists and has an amount.

    Raises:
        RecipeError: it does not.
    """
    if method not in METHODS or "amount" not in METHODS[method].model_fields:
        raise RecipeError(tr("{method} is no method with an amount.", method=method))


def groups_of(
    checkpoint: Checkpoint, targets: Sequence[str], depth: int | None
) -> dict[str, tuple[str, ...]]:
    """Return the patterns of each group by its label, in the order of the file; see `scan`.

    Raises:
        RecipeError: the targets match no prunable parameter, or a pattern is not valid.
    """
    tensors = checkpoint.tensors.values()
    chosen = select(targets, tensors, module_types=lambda: checkpoint.module_types)
    names = names_by_group((info.name for info in chosen if not info.not_prunable), depth)
    if not names:
        raise RecipeError(
            tr("{patterns} match no parameter that can be pruned.", patterns=", ".join(targets))
        )
    return {label: patterns_for(members, tensors) for label, members in names.items()}


def names_by_group(names: Iterable[str], depth: int | None) -> dict[str, list[str]]:
    """Return parameters by the first `depth` parts of their names, all parts if it is None."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(".".join(name.split(".")[:depth]), []).append(name)
    return groups
