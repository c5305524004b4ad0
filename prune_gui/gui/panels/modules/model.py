"""The tree of modules as Qt sees it: made as it is opened, filtered by name."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from prune_gui.audit.table import Table
from prune_gui.checkpoint import ModuleNode, TensorInfo
from prune_gui.errors import one_line
from prune_gui.gui.formatting import sparsity, units
from prune_gui.gui.widgets.icons import icon
from prune_gui.language import clauses, items, later, number, tr, trn
from prune_gui.session import ModuleIndex, Node

Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
ROOT: Final = QModelIndex()
SELECTABLE: Final = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class Column(enum.IntEnum):
    """The columns, from the left."""

    NAME = 0
    SPARSITY = 1
    SHAPE = 2
    TYPE = 3
    PARAMETERS = 4


COLUMNS: Final = len(Column)
MODULE, LOCK, TENSOR, PRUNED, OFF = ICONS = (
    "module",
    "lock",
    "tensor",
    "tensor-pruned",
    "tensor-off",
)
HEADINGS: Final = (
    later("Name"),
    later("Sparsity"),
    later("Shape"),
    later("Type"),
    later("Parameters"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What the cells of one row show.

    Attributes:
        path: of the node.
        texts: by column.
        share: that is pruned; None where nothing can be.
        icon: by its name.
        can_be_opened: whether it is a module with something shown.
    """

    path: str
    texts: tuple[str, ...]
    share: float | None
    icon: str
    can_be_opened: bool


class TreeModel(QAbstractItemModel):
    """Shows parameters under their modules, all of them or those that a filter lets through.

    Its cells are painted by `RowDelegate` from whole rows, not role by role.

    An index carries the number of a branch of the outline. Rows are made when their parent is
    opened, so that 100,000 parameters cost what is looked at.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._outline = ModuleIndex(())
        self._counts: Mapping[str, tuple[int, int]] = {}
        self._pruned, self._shown = self._outline.pruned({}), self._outline.matches("")
        self._protected: frozenset[str] = frozenset()
        self.chosen: str | None = None
        self._below: dict[int, list[int]] = {}
        self._rows: dict[int, int] = {}
        self._made: dict[int, Row] = {}
        for name in ICONS:  # drawn now rather than while a file is opened
            icon(name)

    def show(self, outline: ModuleIndex) -> None:
        """Show the parameters of another checkpoint, unfiltered."""
        self.beginResetModel()
        self._outline = outline
        self._counts = {}
        self._pruned = outline.pruned({})
        self._shown = outline.matches("")
        self.chosen = None
        self._below, self._rows, self._made = {}, {}, {}
        self.endResetModel()

    def filter(self, text: str) -> tuple[int, int]:
        """Show only parameters that `text` matches; see `ModuleIndex.matches`.

        Returns how many are shown, of how many.

        Raises:
            RecipeError: a condition in it makes no sense; all stays as it is.
        """
        shown = self._outline.matches(text, self._counts)
        self.beginResetModel()
        self._shown = shown
        self._below, self._rows, self._made = {}, {}, {}
        self.endResetModel()
        return int(self._shown.sum()), len(self._shown)

    @property
    def outline(self) -> ModuleIndex:
        """What is shown."""
        return self._outline

    def count(self, counts: Mapping[str, tuple[int, int]]) -> None:
        """Show the sparsity that (pruned, all) entries by parameter name come to."""
        before, self._counts = self._pruned, counts
        self._pruned = self._outline.pruned(counts)
        self._made = {}
        if np.any((before > 0) != (self._pruned > 0)):
            self.repaint_icons()
        for below in self._below.values():
            self._changed(below, Column.SPARSITY)

    def protect(self, names: frozenset[str]) -> None:
        """Show which parameters no step touches."""
        if names != self._protected:
            self._protected = names
            self._made = {}
            self.repaint_icons()

    def emphasize(self, name: str | None) -> None:
        """Show which parameter the views show."""
        before, self.chosen = self.chosen, name
        for path in (before, name):
            branch = self._outline.find(path) if path else None
            if branch is not None and branch.number in self._rows:
                self._changed([branch.number], Column.NAME)

    def repaint_icons(self) -> None:
        """Draw the icons anew: others, or in the colours of a new palette."""
        for below in self._below.values():
            self._changed(below, Column.NAME)

    def node(self, index: Index) -> ModuleNode:
        """Return the node at an index; the root for an invalid one."""
        return self._branch(index).node

    def find(self, path: str) -> QModelIndex:
        """Return the index of a node by its dotted path; invalid if it is not shown."""
        branch = self._outline.find(path)
        if branch is None or not self._are_shown([branch]).any():
            return QModelIndex()
        waiting = [branch]
        while waiting[-1].parent > 0:
            waiting.append(self._outline[waiting[-1].parent])
        for lower in reversed(waiting):
            self._children(lower.parent)
        return self._index(branch.number, Column.NAME)

    def meant_by(self, indexes: Iterable[Index]) -> frozenset[str]:
        """Return the names of the parameters that selected rows stand for."""
        return self._outline.meant_by(map(self._branch, indexes), self._shown)

    def prunable_below(self, indexes: Iterable[Index]) -> frozenset[str]:
        """Return the names of all parameters shown at and below rows that can be pruned."""
        wanted = self._shown & (self._outline.prunable > 0)
        below = (self._branch(index).places for index in indexes)
        places = (place for some in below for place in some[wanted[some]])
        return frozenset(self._outline.tensors[place].name for place in places)

    def table(self, title: str) -> Table:
        """Return the parameters that are shown, in the order of the tree."""
        outline = self._outline
        tensors = [node.tensor for node in outline[0].node.walk() if node.tensor is not None]
        places = np.array([outline.place_of(tensor.name) for tensor in tensors], np.intp)
        places = places[self._shown[places]]
        shown = [outline.tensors[place] for place in places]
        return Table(
            title,
            {
                "name": [tensor.name for tensor in shown],
                "shape": [" x ".join(map(str, tensor.shape)) for tensor in shown],
                "type": [tensor.dtype for tensor in shown],
                "entries": outline.entries[places],
                "can be pruned": outline.prunable[places] > 0,
                "pruned": self._pruned[places],
            },
        )

    # What Qt asks of a model.

    def index(self, row: int, column: int, parent: Index = ROOT) -> QModelIndex:
        """Return the index of a row, if there is one."""
        below = self._children(_number(parent))
        if 0 <= row < len(below) and 0 <= column < COLUMNS:
            return self.createIndex(row, column, below[row])
        return QModelIndex()

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override]
        """Return the index of the module above."""
        return self._index(self._branch(index).parent, Column.NAME)

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return how many nodes are directly below."""
        return 0 if parent.column() > 0 else len(self._children(_number(parent)))

    def columnCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of columns."""
        return COLUMNS

    def hasChildren(self, parent: Index = ROOT) -> bool:  # noqa: N802
        """Tell whether a node is a module with something shown, without making its rows."""
        return parent.column() <= 0 and self.row(parent).can_be_opened

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Everything can be looked at and chosen."""
        return SELECTABLE if index.isValid() else Qt.ItemFlag.NoItemFlags

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:  # noqa: ANN401 - as Qt has it
        """Return the heading of a column."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(HEADINGS):
            return None
        if role == Role.TextAlignmentRole and section == Column.PARAMETERS:
            return RIGHT
        return tr(HEADINGS[section]) if role == Role.DisplayRole else None

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        """Return what one cell shows."""
        if not index.isValid():
            return None
        if role == Role.DisplayRole:
            return self.row(index).texts[index.column()]
        if role != Role.ToolTipRole:
            return None
        node = self._branch(index).node
        protected = node.tensor is not None and node.tensor.name in self._protected
        lines = _description(node)
        lines += [tr("protected: no step touches it")] if protected else []
        return "\n".join(map(one_line, lines))

    def row(self, index: Index) -> Row:
        """Return what the cells beside an index show, worked out once: it is asked for often."""
        place = _number(index)
        row = self._made.get(place)
        if row is None:
            row = self._made[place] = self._make_row(self._outline[place])
        return row

    def _make_row(self, branch: Node) -> Row:
        node, tensor = branch.node, branch.node.tensor
        total = self._count(branch, self._outline.prunable)
        pruned = self._count(branch, self._pruned)
        below = branch.places[tensor is not None :]  # its own tensor stands first
        if node.below:
            shown = MODULE
        elif not total:
            shown = OFF
        elif tensor is not None and tensor.name in self._protected:
            shown = LOCK
        else:
            shown = PRUNED if pruned else TENSOR
        kind = f"{node.kind}?" if node.kind else ""
        texts = {
            Column.NAME: one_line(node.name),
            Column.SPARSITY: sparsity(pruned, total) if total else "",
            Column.SHAPE: _shape(tensor) if tensor else "",
            Column.TYPE: tensor.dtype if tensor else kind,
            Column.PARAMETERS: number(self._count(branch, self._outline.entries)),
        }
        return Row(
            node.path,
            tuple(texts[column] for column in Column),
            pruned / total if total else None,
            shown,
            bool(self._shown[below].any()),
        )

    def _count(self, branch: Node, entries: NDArray[np.int64]) -> int:
        """Return what the entries at and below a branch add up to."""
        return int(entries[branch.places].sum())

    def _are_shown(self, branches: Sequence[Node]) -> NDArray[np.bool_]:
        """Return of each branch whether any parameter at or below it is shown."""
        if not branches:
            return np.zeros(0, np.bool_)
        every = [branch.places for branch in branches]
        starts = np.cumsum([0, *map(len, every[:-1])])
        found: NDArray[np.bool_] = np.logical_or.reduceat(
            self._shown[np.concatenate(every)], starts
        )
        return found

    def _children(self, number: int) -> list[int]:
        below = self._below.get(number)
        if below is None:
            children = self._outline.children(number)
            below = [child.number for child in compress(children, self._are_shown(children))]
            self._below[number] = below
            self._rows.update(zip(below, range(len(below)), strict=True))
        return below

    def _branch(self, index: Index) -> Node:
        return self._outline[_number(index)]

    def _index(self, number: int, column: int) -> QModelIndex:
        return self.createIndex(self._rows[number], column, number) if number > 0 else QModelIndex()

    def _changed(self, siblings: Sequence[int], column: Column) -> None:
        if siblings:
            first, last = siblings[0], siblings[-1]
            self.dataChanged.emit(self._index(first, column), self._index(last, column))


def _number(index: Index) -> int:
    """Return the number of the branch at an index; that of the root for an invalid one."""
    return index.internalId() if index.isValid() else 0


def _shape(tensor: TensorInfo) -> str:
    return " × ".join(map(str, tensor.shape)) or tr("scalar")  # noqa: RUF001


def _description(node: ModuleNode) -> list[str]:
    tensor = node.tensor
    lines = [node.path]
    if tensor is not None:
        lines.append(clauses((_shape(tensor), tensor.dtype, units("entry", tensor.numel))))
        if tensor.aliases:
            lines.append(tr("tied with {names}", names=items(tensor.aliases)))
        if tensor.pair is not None:
            lines.append(tr("a reparametrized pair: its mask is in the file"))
        if tensor.not_prunable:
            lines.append(tr("cannot be pruned: {reason}", reason=tr(tensor.not_prunable)))
        if tensor.role:
            lines.append(tr(tensor.role))
    if node.below:
        number, entries = len(node.tensors), sum(tensor.numel for tensor in node.tensors)
        count = trn("{count:,} parameter", "{count:,} parameters", number)
        lines.append(clauses((count, units("entry", entries))))
    if node.kind:
        lines.append(tr("{kind}: inferred from names and shapes", kind=node.kind))
    return lines
