"""The kinds of units that a checkpoint has."""

from __future__ import annotations

from collections.abc import Callable

from prune_gui.engine import Job
from prune_gui.gui.draft.form import MethodForm
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods.coupled import SPACE_CHOICES


def choose_units(workbench: Workbench, form: MethodForm, chosen: Callable[[], None]) -> None:
    """Offer the kinds of units that the checkpoint has, and choose one if the form has another.

    What is wrong with a table of them is told by the outcome of the draft.
    """
    session, kind = workbench.session, form.values.get("space")
    if session is None or kind is None:
        return
    table = session.recipe.table_path

    def find(_: Monitor) -> list[str]:
        from prune_gui.architecture.groups import spaces  # yaml: slow to import

        return [one for one in spaces(session.checkpoint, table) if one in SPACE_CHOICES]

    def choose(found: list[str]) -> None:
        if session is not workbench.session or not found:
            return
        form.enable_only("space", found)
        if form.values.get("space") == kind not in found:
            form.show_values({"space": found[0]})
            chosen()

    title = deferred("Looking for units in {name}", name=session.checkpoint.path.name)
    workbench.bridge.run(Job(title, find, lane="draft.units"), choose, lambda _: None)
