"""What the tree shows the parameters below: their modules, or the units that they have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from prune_gui.engine import Job
from prune_gui.gui.modules.tree_model import TreeModel
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.session import Session
from prune_gui.session.changes import Changes
from prune_gui.session.module_index import Outline
from prune_gui.session.space_outline import SpaceOutline

GroupBy = Literal["module", "space"]
PrunedUnits = dict[int, list[int]]
"""By the number of the node of a space, the number of pruned units of each of its groups."""


class TreeGrouping:
    """Groups the tree by modules or by spaces of units, and counts pruned units."""

    def __init__(
        self, workbench: Workbench, model: TreeModel, arrange: Callable[[Outline], None]
    ) -> None:
        self._workbench = workbench
        self._model = model
        self._arrange = arrange
        self._by: GroupBy = "module"
        self._table: Path | None = None
        self._ticket: int | None = None

    def group_by(self, by: GroupBy) -> None:
        if by != self._by:
            self._by = by
            self._update()

    def group_of(self, number: int) -> CoupledGroup | None:
        outline = self._model.outline
        return outline.group_of(number) if isinstance(outline, SpaceOutline) else None

    def follow(self, changes: Changes) -> None:
        session = self._workbench.session
        if session is None or self._by == "module":
            return
        if changes.file or (changes.recipe and session.recipe.table_path != self._table):
            self._update()
        elif changes.resolution:
            self._count_units()

    def _update(self) -> None:
        session = self._workbench.session
        if session is None:
            return
        if self._by == "module":
            self._show(session, session.module_index)
            return
        self._table = table = session.recipe.table_path

        def work(_: Monitor) -> SpaceOutline:
            return SpaceOutline.of(session.checkpoint, table, session.module_index)

        def failed(error: BaseException) -> None:
            self._show(session, session.module_index)
            self._workbench.noted.emit(str(error))

        def then(found: SpaceOutline) -> None:
            self._show_spaces(session, found)

        title = deferred("Looking for units in {name}", name=session.checkpoint.path.name)
        job = Job(title, work, lane="tree.spaces", long=True)
        self._workbench.bridge.run(job, then, failed)

    def _show_spaces(self, session: Session, found: SpaceOutline) -> None:
        if self._by == "module":
            return
        if any(space.groups for space in found.spaces):
            self._show(session, found)
            self._count_units()
        else:
            self._show(session, session.module_index)
            name = session.checkpoint.path.name
            note = tr("The tree is grouped by module: no units are known in {name}.", name=name)
            self._workbench.noted.emit(note)

    def _show(self, session: Session, outline: Outline) -> None:
        if session is self._workbench.session and outline is not self._model.outline:
            self._arrange(outline)

    def _count_units(self) -> None:
        """Count the pruned units of each group; the engine may have to read tensors for it."""
        outline, resolution = self._model.outline, self._workbench.shown
        if not isinstance(outline, SpaceOutline) or resolution is None:
            return
        spaces = enumerate(outline.spaces, start=1)
        groups_of = {n: space.groups for n, space in spaces if self._model.has_pruned(n)}

        def work(monitor: Monitor) -> PrunedUnits:
            # torch: slow to import
            from prune_gui.recipe.compaction.network import removable_units

            return {
                number: [int(one.sum()) for one in removable_units(resolution, groups, monitor)]
                for number, groups in groups_of.items()
            }

        def then(found: PrunedUnits) -> None:
            if ticket == self._ticket and outline is self._model.outline:
                self._model.show_pruned_units(_by_node(outline, found))

        title = deferred("Counting pruned units")
        job = Job(title, work, lane="tree.units", long=True)
        # A view that cannot read the file says so.
        ticket = self._ticket = self._workbench.bridge.run(job, then, lambda _: None)


def _by_node(outline: SpaceOutline, found: PrunedUnits) -> dict[int, int]:
    numbers = {}
    for space, counts in found.items():
        if any(counts):
            numbers[space] = sum(counts)
            numbers.update(zip(outline.group_numbers(space), counts, strict=True))
    return numbers
