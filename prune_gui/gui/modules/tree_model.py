"""The Qt model of the module tree: lazy, and filtered by name."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, Qt

from prune_gui.checkpoint import ModuleNode, TensorInfo
from prune_gui.checkpoint.roles import KINDS
from prune_gui.errors import one_line
from prune_gui.gui.widgets.table_widgets import RIGHT, ROOT, Index, Role
from prune_gui.gui.widgets.theme import icon
from prune_gui.language import deferred, format_number, join_clauses, join_items, tr, trn
from prune_gui.number_formats import shape_text, sparsity
from prune_gui.session import ModuleIndex, Node
from prune_gui.session.module_index import Outline
from prune_gui.session.space_outline import UnitNode
from prune_gui.statistics.file_zeros import FileZeros
from prune_gui.table import Table

SELECTABLE: Final = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable


ICONS: Final = ("module", "lock", "tensor", "tensor-pruned", "tensor-off")


class TreeColumn(enum.IntEnum):
    """The columns, from the left."""

    NAME = 0
    SPARSITY = 1
    ZEROS = 2
    SHAPE = 3
    TYPE = 4
    PARAMETERS = 5


HEADINGS: Final = {
    TreeColumn.NAME: deferred("Name"),
    TreeColumn.SPARSITY: deferred("Sparsity"),
    TreeColumn.ZEROS: deferred("Zeros"),
    TreeColumn.SHAPE: deferred("Shape"),
    TreeColumn.TYPE: deferred("Type"),
    TreeColumn.PARAMETERS: deferred("Parameters"),
}


@dataclass(frozen=True, slots=True)
class TreeRow:
    """The contents of the cells of one row."""

    path: str
    texts: tuple[str, ...]  # one per column
    share: float | None  # the pruned share in [0, 1]; None where nothing can be pruned
    zero_share: float | None  # zero in the file; None while not all of it is counted
    icon: str
    can_be_opened: bool  # whether the node is a module with parameters that pass the filter


class TreeModel(QAbstractItemModel):
    """The model of parameters under their modules, all of them or those that pass a filter.

    The internal id of an index is the number of a node of the outline: the `ModuleIndex`, or a
    `SpaceOutline`, in which a parameter may have several nodes. Rows are made when their parent is
    expanded, so that the cost depends on the visible part, also for 100,000 parameters.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._protected: frozenset[str] = frozenset()
        self.show(ModuleIndex(()))
        for name in ICONS:  # fills the icon cache before a file is opened
            icon(name)

    def show(self, module_index: ModuleIndex) -> None:
        """Show the parameters of another checkpoint below their modules, unfiltered."""
        with self._reset():
            self.module_index = module_index
            self.outline: Outline = module_index
            self._pruned_units: Mapping[int, int] = {}
            self._counts: Mapping[str, tuple[int, int]] = {}
            self._pruned = module_index.pruned({})
            self._countable = module_index.prunable
            self._shown = module_index.matches("")
            self.has_zeros = False  # whether the column of zeros in the file is wanted
            self._set_zeros(FileZeros())
            self.chosen: str | None = None

    def arrange(self, outline: Outline) -> None:
        """Show the parameters below other nodes. The filter stays."""
        with self._reset():
            self.outline, self._pruned_units = outline, {}

    @contextmanager
    def _reset(self) -> Iterator[None]:
        self.beginResetModel()
        yield
        self._child_numbers: dict[int, list[int]] = {}
        self._rows: dict[int, int] = {}
        self._row_cache: dict[int, TreeRow] = {}
        self.endResetModel()

    def has_pruned(self, number: int) -> bool:
        return bool(self._pruned[self.outline[number].places].any())

    def show_pruned_units(self, numbers: Mapping[int, int]) -> None:
        """Show how many units are pruned, by the number of the node of a space or group."""
        before, self._pruned_units = self._pruned_units, numbers
        for below in self._child_numbers.values():
            changed = [one for one in below if before.get(one, 0) != numbers.get(one, 0)]
            for one in changed:
                self._row_cache.pop(one, None)
            self._changed(below if changed else (), TreeColumn.NAME)

    def filter(self, text: str) -> tuple[int, int]:
        """Show only matching parameters; return the numbers of shown ones and of all."""
        shown = self.module_index.matches(text, self._counts)
        with self._reset():
            self._shown = shown
        return int(shown.sum()), len(shown)

    def count(self, counts: Mapping[str, tuple[int, int]]) -> None:
        before, countable_before = self._pruned, self._countable
        self._counts = counts
        self._pruned = self.module_index.pruned(counts)
        self._countable = self.module_index.countable(counts)
        changed = (before != self._pruned) | (countable_before != self._countable)

        def is_changed(number: int) -> bool:
            return bool(changed[self.outline[number].places].any())

        kept = {number: row for number, row in self._row_cache.items() if not is_changed(number)}
        self._row_cache = kept
        if np.any((before > 0) != (self._pruned > 0)):
            self._repaint_icons()
        for number, below in self._child_numbers.items():
            if is_changed(number):
                self._changed(below, TreeColumn.SPARSITY)

    def show_zeros(self, zeros: FileZeros, *, wanted: bool) -> None:
        if zeros is self._zeros and wanted == self.has_zeros:
            return
        self.has_zeros = wanted
        self._set_zeros(zeros)
        self._row_cache = {}
        for below in self._child_numbers.values():
            self._changed(below, TreeColumn.ZEROS)

    def _set_zeros(self, zeros: FileZeros) -> None:
        self._zeros = zeros
        counts = self.module_index.values_of(zeros.counts, missing=-1)
        self._zero_counts = np.maximum(counts, 0)
        self._counted = (counts >= 0) * self.module_index.prunable

    def protect(self, names: frozenset[str]) -> None:
        if names != self._protected:
            self._protected = names
            self._row_cache = {}
            self._repaint_icons()

    def emphasize(self, name: str | None) -> None:
        """Mark the parameter that the views show."""
        before, self.chosen = self.chosen, name
        for path in filter(None, (before, name)):
            for indexed_node in self.outline.nodes_of(path):
                if indexed_node.number in self._rows:
                    self._changed([indexed_node.number], TreeColumn.NAME)

    def _repaint_icons(self) -> None:
        for below in self._child_numbers.values():
            self._changed(below, TreeColumn.NAME)

    def node(self, index: Index) -> ModuleNode:
        return self._node(index).node

    def find(self, path: str) -> QModelIndex:
        """Return the first index of a node by its dotted path; invalid if it is not shown."""
        indexed_node = self.outline.find(path)
        return QModelIndex() if indexed_node is None else self.index_of(indexed_node.number)

    def index_of(self, number: int) -> QModelIndex:
        indexed_node = self.outline[number]
        if not self._are_shown([indexed_node]).any():
            return QModelIndex()
        parents = [indexed_node.parent]
        while parents[-1] > 0:
            parents.append(self.outline[parents[-1]].parent)
        for parent in reversed(parents):
            self._children(parent)  # makes the row
        return self._index(number, TreeColumn.NAME)

    def selected_parameters(self, indexes: Iterable[Index]) -> frozenset[str]:
        """Return the names of the parameters that are targets if some rows are selected."""
        return self.module_index.selected_parameters(map(self._node, indexes), self._shown)

    def count_matches(self) -> int:
        """Return the number of parameters that are targets if all that is shown is selected."""
        return self.module_index.count_selected(self._node(ROOT), self._shown)

    def prunable_below(self, indexes: Iterable[Index]) -> frozenset[str]:
        wanted = self._shown & (self.module_index.prunable > 0)
        below = (self._node(index).places for index in indexes)
        tensor_indexes = (i for some in below for i in some[wanted[some]])
        return frozenset(self.module_index.tensors[i].name for i in tensor_indexes)

    def table(self, title: str) -> Table:
        outline = self.module_index
        names = [node.tensor.name for node in outline[0].node.walk() if node.tensor is not None]
        order = np.array([outline.index_of(name) for name in names], np.intp)
        order = order[self._shown[order]]
        shown = [outline.tensors[i] for i in order]
        return Table(
            title,
            {
                "name": [tensor.name for tensor in shown],
                "shape": [" x ".join(map(str, tensor.shape)) for tensor in shown],
                "type": [tensor.dtype for tensor in shown],
                "entries": outline.elements[order],
                "can be pruned": outline.prunable[order] > 0,
                "pruned": self._pruned[order],
                "zero in the file": self._zero_counts[order],
            },
        )

    # The interface of `QAbstractItemModel`.

    def index(self, row: int, column: int, parent: Index = ROOT) -> QModelIndex:
        below = self._children(number_of(parent))
        if 0 <= row < len(below) and 0 <= column < len(TreeColumn):
            return self.createIndex(row, column, below[row])
        return QModelIndex()

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override]
        return self._index(self._node(index).parent, TreeColumn.NAME)

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        return 0 if parent.column() > 0 else len(self._children(number_of(parent)))

    def columnCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        return len(TreeColumn)

    def hasChildren(self, parent: Index = ROOT) -> bool:  # noqa: N802
        if parent.column() > 0:
            return False
        node = self._node(parent).node
        if parent.isValid() and (node.tensor is None or not node.below):
            return bool(node.below)  # a module is only shown with a parameter below it
        return self.row(parent).can_be_opened

    def flags(self, index: Index) -> Qt.ItemFlag:
        return SELECTABLE if index.isValid() else Qt.ItemFlag.NoItemFlags

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:  # noqa: ANN401 - as Qt has it
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(HEADINGS):
            return None
        if role == Role.TextAlignmentRole and section == TreeColumn.PARAMETERS:
            return RIGHT
        return tr(HEADINGS[TreeColumn(section)]) if role == Role.DisplayRole else None

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        if not index.isValid():
            return None
        if role == Role.DisplayRole:
            return self.row(index).texts[index.column()]
        if role != Role.ToolTipRole:
            return None
        node = self._node(index).node
        protected = node.tensor is not None and node.tensor.name in self._protected
        lines = _description(node)
        if node.tensor is not None and (layout := self.module_index.layouts().get(node.path)):
            lines.insert(2, layout.describe(node.tensor.shape))
        if isinstance(node, UnitNode) and node.units:
            pruned = self._pruned_units.get(number_of(index), 0)
            lines.append(tr("{units}, {pruned:,} pruned", units=_units(node), pruned=pruned))
        lines += [tr("protected: no step prunes it")] if protected else []
        if node.tensor is not None and (patterns := self._zeros.describe(node.tensor.name)):
            lines.append(tr("zeros in the file: {patterns}", patterns=patterns))
        return "\n".join(map(one_line, lines))

    def row(self, index: Index) -> TreeRow:
        number = number_of(index)
        row = self._row_cache.get(number)
        if row is None:
            row = self._row_cache[number] = self._make_row(self.outline[number])
        return row

    def _make_row(self, indexed_node: Node) -> TreeRow:
        node, tensor = indexed_node.node, indexed_node.node.tensor
        total = self._count(indexed_node, self._countable)
        pruned = self._count(indexed_node, self._pruned)
        counted = self._count(indexed_node, self._counted)
        zeros = self._count(indexed_node, self._zero_counts)
        elements = self._count(indexed_node, self.module_index.elements)
        below = indexed_node.places[tensor is not None :]  # own tensor is first
        if node.below:
            icon_name = "module"
        elif not total:
            icon_name = "tensor-off"
        elif tensor is not None and tensor.name in self._protected:
            icon_name = "lock"
        elif tensor is not None and tensor.kind is not None and not pruned:
            icon_name = "tensor-off"
        else:
            icon_name = "tensor-pruned" if pruned else "tensor"
        mark = "?" if node.module_type and node.is_type_inferred else ""
        texts = {
            TreeColumn.NAME: self._name(indexed_node),
            TreeColumn.SPARSITY: sparsity(pruned, total) if total else "",
            TreeColumn.ZEROS: sparsity(zeros, total) if total and counted == total else "",
            TreeColumn.SHAPE: shape_text(tensor.shape) if tensor else "",
            TreeColumn.TYPE: _type(tensor) if tensor else f"{node.module_type}{mark}",
            TreeColumn.PARAMETERS: format_number(elements),
        }
        return TreeRow(
            node.path,
            tuple(texts[column] for column in TreeColumn),
            pruned / total if total else None,
            zeros / total if total and counted == total else None,
            icon_name,
            bool(self._shown[below].any()),
        )

    def _name(self, indexed_node: Node) -> str:
        node, name = indexed_node.node, one_line(indexed_node.node.name)
        if not isinstance(node, UnitNode) or not node.units:
            return name
        pruned = self._pruned_units.get(indexed_node.number, 0)
        if not pruned:
            return tr("{name} · {units}", name=name, units=_units(node))
        return tr("{name} · {pruned:,} of {count:,}", name=name, pruned=pruned, count=node.units)

    def _count(self, indexed_node: Node, elements: NDArray[np.int64]) -> int:
        """Return a number of elements; a module with weights counts these only."""
        places = indexed_node.places
        weights = places[self.module_index.is_weight[places]]
        return int(elements[weights if weights.size else places].sum())

    def _are_shown(self, nodes: Sequence[Node]) -> NDArray[np.bool_]:
        if not nodes:
            return np.zeros(0, np.bool_)
        tensor_indexes = [node.places for node in nodes]
        starts = np.cumsum([0, *map(len, tensor_indexes[:-1])])
        are_shown = self._shown[np.concatenate(tensor_indexes)]
        shown: NDArray[np.bool_] = np.logical_or.reduceat(are_shown, starts)
        return shown

    def _children(self, number: int) -> list[int]:
        below = self._child_numbers.get(number)
        if below is None:
            children = self.outline.children(number)
            below = [child.number for child in compress(children, self._are_shown(children))]
            self._child_numbers[number] = below
            self._rows.update(zip(below, range(len(below)), strict=True))
        return below

    def _node(self, index: Index) -> Node:
        return self.outline[number_of(index)]

    def _index(self, number: int, column: int) -> QModelIndex:
        return self.createIndex(self._rows[number], column, number) if number > 0 else QModelIndex()

    def _changed(self, siblings: Sequence[int], column: TreeColumn) -> None:
        if siblings:
            first, last = siblings[0], siblings[-1]
            self.dataChanged.emit(self._index(first, column), self._index(last, column))


def number_of(index: Index) -> int:
    """Return the number of the node at an index; 0, that of the root, for an invalid one."""
    return index.internalId() if index.isValid() else 0


def _units(node: UnitNode) -> str:
    return trn("{count:,} unit", "{count:,} units", node.units)


def _type(tensor: TensorInfo) -> str:
    return join_clauses((tensor.dtype, tr(KINDS[tensor.kind]) if tensor.kind else ""))


def _description(node: ModuleNode) -> list[str]:
    tensor = node.tensor
    lines = [node.path]
    if tensor is not None:
        lines.append(
            join_clauses((shape_text(tensor.shape), tensor.dtype, _elements(tensor.numel)))
        )
        if tensor.aliases:
            lines.append(tr("tied with {names}", names=join_items(tensor.aliases)))
        if tensor.pair is not None:
            lines.append(tr("a reparametrized pair: its mask is in the file"))
        if tensor.not_prunable:
            lines.append(tr("cannot be pruned: {reason}", reason=tr(tensor.not_prunable)))
        if tensor.role:
            lines.append(tr(tensor.role))
        if tensor.kind and not tensor.not_prunable:
            lines.append(tr("patterns such as * leave it out; its exact name prunes it"))
        if tensor.scale is not None:
            lines.append(tr("shown and pruned as codes × scales of {name}", name=tensor.scale.key))  # noqa: RUF001
    if node.below:
        number, elements = len(node.tensors), sum(tensor.numel for tensor in node.tensors)
        count = trn("{count:,} parameter", "{count:,} parameters", number)
        lines.append(join_clauses((count, _elements(elements))))
    if node.module_type and node.is_type_inferred:
        lines.append(tr("{kind}: inferred from names and shapes", kind=node.module_type))
    elif node.module_type:
        lines.append(tr("class {name}", name=one_line(node.module_classes[node.path])))
    return lines


def _elements(count: int) -> str:
    return trn("{count:,} element", "{count:,} elements", count)
