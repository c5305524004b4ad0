"""What a view of all parameters together is looking at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune_gui.gui.formatting import sparsity
from prune_gui.gui.views.subject import title
from prune_gui.language import tr, trn
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True, eq=False)
class ModelSubject:
    """All parameters that can be pruned, and what is pruned of them, as it stood at one moment.

    Attributes:
        resolution: of the stack, and of the draft if there is one.
        draft: the number that the draft has as a step; None without a draft.
    """

    resolution: Resolution
    draft: int | None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.resolution.checkpoint.path.name

    def same_parameter(self, other: object) -> bool:
        """Tell whether both are about one open file."""
        return (
            isinstance(other, ModelSubject)
            and self.resolution.checkpoint is other.resolution.checkpoint
        )

    def counts(self) -> dict[int, int]:
        """Return how many entries each step pruned, by code, kept ones first; none is zero."""
        pruned, total = self.resolution.total
        steps = {
            number: outcome.total[0]
            for number, outcome in enumerate(self.resolution.outcomes, start=1)
        }
        every = {KEPT: total - pruned, **steps, IN_FILE: pruned - sum(steps.values())}
        return {code: count for code, count in every.items() if count}

    def title(self, code: int) -> str:
        """Return what to call entries of this code: "kept", "step 2: L1 unstructured"."""
        return title(self.resolution, self.draft, code)

    def facts(self) -> str:
        """Say how much it is: "78 parameters · 294,912 of 589,824 entries pruned (50.0 %)"."""
        pruned, total = self.resolution.total
        return trn(
            "{count:,} parameter · {pruned:,} of {total:,} entries pruned ({share})",
            "{count:,} parameters · {pruned:,} of {total:,} entries pruned ({share})",
            len(self.resolution.counts),
            pruned=pruned,
            total=total,
            share=sparsity(pruned, total),
        )


def model_subject(workbench: Workbench) -> ModelSubject | str:
    """Return what there is to look at, or why there is nothing, for a person."""
    session, shown = workbench.session, workbench.shown
    if session is None:
        return tr("Nothing is open.\nOpen a checkpoint to look at its parameters.")
    if shown is None or shown.checkpoint is not session.checkpoint:
        return tr("Working out what is pruned…")
    if not shown.counts:
        return tr("Nothing in {file} can be pruned.", file=session.checkpoint.path.name)
    return ModelSubject(shown, workbench.draft_number)
