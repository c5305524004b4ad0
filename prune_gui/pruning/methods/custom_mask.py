"""Methods that rank nothing: a custom mask from a file, and the identity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from prune_gui.errors import RecipeError
from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, predicates
from prune_gui.pruning.methods.base import Method
from prune_gui.pruning.methods.fields import FieldText, FileName, file_name, path_field

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target


class IdentityMethod(Method):
    """Prune nothing, but mark the parameter as pruned with a mask of ones."""

    name = "identity"
    title = deferred("Identity")
    method_group = "manual"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        return [decisions.Decision(None, 0) for _ in targets]

    def torch_lines(self, names: str) -> list[str]:
        return [f"for name in {names}:", "    prune.identity(*parameters[name])"]


class CustomFromMaskMethod(Method):
    """Prune where a mask from a file, or another checkpoint, is 0.

    The new mask is the old one times the one given.
    """

    name = "custom_from_mask"
    title = deferred("Custom mask from a file")
    method_group = "manual"

    mask: Annotated[
        FileName,
        path_field(deferred("A file of masks, one tensor of 0 and 1 per parameter name.")),
        FieldText(label=deferred("Mas&ks"), show=lambda _, path: file_name(path)),
    ]

    take: Annotated[
        Literal["mask", "zeros"],
        Field(
            description=deferred(
                "mask: the file contains only 0 and 1; zeros: the file is a checkpoint whose zeros "
                "are pruned."
            )
        ),
        FieldText(
            label=deferred("Read as"),
            choices={
                "mask": deferred("mask: the file holds masks"),
                "zeros": deferred("zeros: the zeros of a checkpoint"),
            },
            values={"zeros": deferred("its zeros")},
        ),
    ] = "mask"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        masks = [target.other(self.mask, "mask") for target in targets]
        decided = []
        with monitor.plan(sum(mask.nbytes for mask in masks)):
            for target, mask in zip(targets, masks, strict=True):
                cut = predicates.CustomMask(mask)
                pruned = cut.count(target.remaining_mask, monitor, check=self.take == "mask")
                if pruned is None:
                    raise RecipeError(
                        "{path}: the mask of {name} holds values other than 0 and 1. To prune "
                        "the zeros of a checkpoint, set take to zeros.",
                        path=self.mask,
                        name=target.name,
                    )
                decided.append(decisions.Decision(cut, pruned))
        return decided

    def torch_lines(self, names: str) -> list[str]:
        path = Path(self.mask)
        if path.suffix != ".safetensors" or self.take == "zeros":
            return []
        return [
            f"given = load_file({str(path)!r})",
            f"for name in {names}:",
            "    prune.custom_from_mask(*parameters[name], mask=given[name])",
        ]
