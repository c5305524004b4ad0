"""One toy of each kind that CONTRIBUTING.md says how to add, and the program with all of them.

``python extension.py ARGUMENTS`` is ``prune-gui ARGUMENTS`` with the toys. ``python extension.py
window CHECKPOINT OUT`` uses them in the window, saves to OUT, and writes what it saw to
`report.json` in the working folder.
"""

import json
import sys
import zlib
from pathlib import Path
from typing import ClassVar

import click
import numpy as np
import torch
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from prune_gui import cli, language
from prune_gui.checkpoint import formats
from prune_gui.checkpoint.base import FileCheckpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.checkpoint.write.atomic import write_bytes
from prune_gui.checkpoint.write.content import WrittenFile
from prune_gui.cli.printing import print_line
from prune_gui.language import deferred
from prune_gui.pruning import methods
from prune_gui.pruning.decisions.target import Decision
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.fields import Amount, MethodGroup, Unit
from prune_gui.pruning.predicates.predicate import ElementRank, Predicate
from prune_gui.recipe.selector import CONDITION_FIELDS, NumberProperty

REPORT = "report.json"


# A pruning method: a schema, and what it decides.


class FirstWeights(Method):
    """Prune the first weights of every target."""

    name: ClassVar[str] = "first_weights"
    title: ClassVar[str] = deferred("First weights")
    unit: ClassVar[Unit] = "entry"
    method_group: ClassVar[MethodGroup] = "elements"
    source: ClassVar[str] = "toy"

    amount: Amount = 2

    def decide(self, targets, monitor):
        decisions = []
        for target in targets:
            end, remaining = min(target.size, self.amount), target.remaining_mask
            pruned = end if remaining is None else int(remaining(0, end).sum())
            decisions.append(Decision(FirstElements(end), pruned))
        return decisions


class FirstElements(Predicate):
    note = ""

    def __init__(self, end):
        self._end = end

    def mark(self, start, step, codes):
        part = codes[: max(0, self._end - start)]
        part[part == 0] = step

    def element_rank(self, flat):
        return ElementRank(flat < self._end)


# A file format: the values as hexadecimal digits in a JSON text.


class HexCheckpoint(FileCheckpoint):
    format = "hex"

    def __init__(self, source, _, surroundings):
        self.source = source
        source.file.seek(0)
        content = json.loads(source.file.read().removeprefix(b"HEX"))
        self._tensors = content["tensors"]
        raw = {key: RawTensor(tuple(t["shape"]), t["dtype"]) for key, t in self._tensors.items()}
        super().__init__(source.path, raw, content["metadata"], surroundings=surroundings)

    def read_key(self, key):
        stored = self._tensors[key]
        values = np.frombuffer(bytes.fromhex(stored["hex"]), stored["dtype"])
        return torch.from_numpy(values.copy()).reshape(stored["shape"])


def hex_file(content, values, checksums):
    tensors = {
        writer.key: {
            "shape": writer.tensor.shape, "dtype": writer.tensor.dtype,
            "hex": values[writer.key].hex(),
        }
        for writer in content.writers
    }  # fmt: skip
    text = json.dumps({"metadata": content.texts(checksums), "tensors": tensors})
    return b"HEX" + text.encode()


def write_hex(path, content, monitor):
    values = {writer.key: b"".join(writer.tensor.byte_chunks()) for writer in content.writers}
    checksums = {key: zlib.crc32(each) for key, each in values.items()}
    write_bytes(path, hex_file(content, values, checksums))
    return WrittenFile(checksums)


def hex_nbytes(content):
    zeros = {writer.key: bytes(writer.tensor.nbytes) for writer in content.writers}
    return len(hex_file(content, zeros, None))


HEX = FileFormat(
    name="hex",
    suffixes=(".hex",),
    shard_suffix=".hex",
    recognizes=lambda start, _: start.startswith(b"HEX"),
    program="the toy",
    open=HexCheckpoint,
    write=write_hex,
    file_nbytes=hex_nbytes,
    load_code="load_hex({path})",
)


# A condition of the search language: the length of the last dimension.

WIDTH = NumberProperty("width", "width>=4", lambda tensor: (1, *tensor.shape)[-1])


# A command.


@click.command()
def greet() -> None:
    """Print a greeting."""
    print_line("Good day.")


# A translation: a catalogue with one message.


def add_translation(folder: Path) -> None:
    catalogue = Catalog(locale="fr")
    catalogue.add("First weights", "Premiers poids")
    with (folder / "fr.mo").open("wb") as file:
        write_mo(file, catalogue)
    language.LANGUAGES["fr"] = "français"
    language.resource = lambda *_: folder / "fr.mo"


def add_all() -> None:
    """Add each toy as CONTRIBUTING.md says: by what a line in a list does."""
    from prune_gui.cli import program

    methods.register([FirstWeights])
    formats.FORMATS = (HEX, *formats.FORMATS)
    CONDITION_FIELDS["width"] = WIDTH
    program.cli.add_command(greet)


def add_to_window() -> list[str]:
    """Add a view, a column of Layers, and an action; return the list that the action fills."""
    from PySide6.QtWidgets import QLabel

    from prune_gui.gui.actions import menus
    from prune_gui.gui.actions.action_spec import ActionSpec
    from prune_gui.gui.views import registry, tabs
    from prune_gui.gui.views.layers import columns
    from prune_gui.gui.views.view import View
    from prune_gui.table import Column

    class NameView(View):
        lane = "name"

        def __init__(self, workbench):
            super().__init__(workbench, lambda: workbench.subject, "Name")
            self.label = QLabel()
            self._lay_out([], self.label, [])

        def _request_picture(self, subject):
            self._run_picture_job(subject, lambda _: subject.name, self.label.setText)

    greetings: list[str] = []
    registry.NameView = NameView
    spec = registry.ViewSpec("name", deferred("Name of it"), "registry:NameView")
    tabs.VIEWS = (*tabs.VIEWS, spec)
    length = Column(
        title=deferred("Length"),
        values=lambda rows: [len(name) for name in rows.names],
        text=lambda rows, row: str(len(rows.names[row])),
    )
    columns.LAYER_COLUMNS = (*columns.LAYER_COLUMNS, length)
    action = ActionSpec("Greet", "Greet", lambda _: greetings.append("Good day."))
    menus.ACTIONS["greet"] = action
    menus.MENUS["&Help"] = (*menus.MENUS["&Help"], ("greet",))
    return greetings


def use_all(window, greetings, out):
    """Use the toys in the window, save, and write the report."""
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QTabWidget
    from use_window import add_step, pick, retype, save

    bench, draft, views = window.workbench, window.draft, window.views
    yield lambda: bench.resolved is not None
    pick(draft.method, "Premiers poids")
    retype(draft.targets.line, "*.conv*.weight width>=3")
    yield from add_step(window)
    tab_bar = views.findChild(QTabWidget)
    titles = [tab_bar.tabText(index) for index in range(tab_bar.count())]
    tab_bar.setCurrentIndex(titles.index("Name of it"))
    bench.choose("features.conv1.weight")
    yield lambda: views.current and views.current.picture() and views.current.label.text()
    report = {"name": views.current.label.text(), "stack": window.stack._model.index(0, 0).data()}
    tab_bar.setCurrentIndex(titles.index("&Layers"))
    yield lambda: views.current is views.view("layers") and views.current.picture()
    model = views.current._model
    headings = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    position = headings.index("Length")
    report["lengths"] = [model.index(i, position).data() for i in range(model.rowCount())]
    window.menu_actions["greet"].trigger()
    yield from save(window, out, "finalized")
    Path(REPORT).write_text(json.dumps({**report, "greetings": greetings}))
    window.close()


def open_window(checkpoint: str, out: str) -> None:
    """Open the window in French with all toys, use them and close it."""
    from use_window import run_robot

    add_translation(Path.cwd())
    greetings = add_to_window()
    run_robot(checkpoint, lambda window: use_all(window, greetings, out))


if __name__ == "__main__":
    add_all()
    if sys.argv[1] == "window":
        open_window(*sys.argv[2:])
    cli.main()
