"""Methods that rank nothing: a custom mask from a file, and the identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import Decision, Method, Target
from prune_gui.pruning.methods.files import FileName

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.selection.scores import Scores


class Identity(Method):
    """Prune nothing, but make the parameter a pruned one: a mask of ones."""

    name: ClassVar[str] = "identity"
    title: ClassVar[str] = deferred("Identity")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "entry"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune nothing."""
        return [Decision(None, 0) for _ in targets]


class CustomFromMask(Method):
    """Prune where a mask from a file is 0, or where another checkpoint is.

    The new mask is the old one times the one given.
    """

    name: ClassVar[str] = "custom_from_mask"
    title: ClassVar[str] = deferred("Custom mask from a file")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "entry"

    mask: Annotated[
        FileName,
        Field(
            description=deferred("A file of masks, one tensor of 0 and 1 per parameter name."),
            json_schema_extra={"format": "path"},
        ),
    ]

    take: Annotated[
        Literal["mask", "zeros"],
        Field(
            description=deferred(
                "mask: the file holds nothing but 0 and 1; zeros: it is a checkpoint, and what is "
                "zero there goes."
            )
        ),
    ] = "mask"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune where the mask is 0; this reads and checks the whole mask."""
        masks = [target.other(self.mask, "mask") for target in targets]
        with monitor.plan(sum(mask.nbytes for mask in masks)):
            return [
                self._decide(target, mask, monitor)
                for target, mask in zip(targets, masks, strict=True)
            ]

    def _decide(self, target: Target, mask: Scores, monitor: Monitor) -> Decision:
        import torch

        from prune_gui.pruning.parallel import chunks
        from prune_gui.pruning.predicates import CustomMask

        predicate = CustomMask(mask)
        pruned = 0
        for start, stop in chunks(target.size):
            chunk = mask.part(start, stop).to(torch.float64)
            if self.take == "mask" and not bool(((chunk == 0) | (chunk == 1)).all()):
                raise RecipeError(
                    tr(
                        "{path}: the mask of {name} holds values other than 0 and 1. If it is a "
                        "checkpoint whose zeros are meant, take zeros.",
                        path=self.mask,
                        name=target.name,
                    )
                )
            zeros = predicate.prunes(start, stop)
            if target.remaining_mask is not None:
                zeros &= target.remaining_mask(start, stop)
            pruned += int(zeros.sum())
            monitor.advance((stop - start) * mask.dtype.itemsize)
        return Decision(predicate, pruned)
