"""Pruning of what remains of units without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning import predicates
from prune_gui.pruning.methods.coupled import CoupledMethod
from prune_gui.pruning.methods.fields import FieldText

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Members, Noted


class DeadUnits(CoupledMethod):
    """Prune what remains of units without effect, so that the compact form can leave them out.

    A unit has no effect if nothing reads it (its slices of all tensors that consume it are pruned)
    or if it is always zero (its slices of all others are pruned, with biases and norms). A unit
    whose weights are pruned and whose bias remains emits a constant, c = f(bias) after the
    activation function f. It is not pruned, but the compact form can leave it out where the layers
    that read it take the constant over: bias + W[:, units] c becomes their bias.
    """

    name: ClassVar[str] = "dead_units"
    title: ClassVar[str] = deferred("Dead units")

    fold_constants: Annotated[
        bool,
        Field(
            description=deferred(
                "In the compact form, leave out units that emit a constant, and add it to the "
                "biases of the next layers where that is exact."
            )
        ),
        FieldText(
            label=deferred("Fold constants"), show=lambda _, on: "" if on else tr("keeps constants")
        ),
    ] = True

    def choose(self, members: Members, monitor: Monitor) -> list[Noted]:
        chosen = []
        for group in members.groups:
            monitor.advance()
            dead, constant = members.without_effect(group)
            units = predicates.PrunedUnits(dead, None, members.remaining_elements(group))
            chosen.append((units, _note(int(constant.sum()), fold=self.fold_constants)))
        return chosen


def _note(count: int, *, fold: bool) -> str:
    if not count:
        return ""
    if not fold:
        return trn(
            "{count:,} unit has no weights and emits a constant, because a bias or a norm of "
            "it remains",
            "{count:,} units have no weights and emit a constant, because a bias or a norm of "
            "them remains",
            count,
        )
    return trn(
        "{count:,} unit has no weights and emits a constant, because a bias or a norm of it "
        "remains; the compact form leaves it out if the next layers can take the constant over",
        "{count:,} units have no weights and emit a constant, because a bias or a norm of them "
        "remains; the compact form leaves them out if the next layers can take the constants over",
        count,
    )
