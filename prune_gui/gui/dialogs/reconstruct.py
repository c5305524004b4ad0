"""The dialog that reconstructs the model of the open folder, and shows the errors of its layers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import shiboken6
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QSpinBox, QWidget

from prune_gui.engine import Event, Job, Progressed, Reported
from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.evaluation_jobs import MetricCurve
from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.job_sequence import JobSequenceDialog
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.tab import side_by_side
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.grid_painter import error_cells
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import colours
from prune_gui.language import deferred, tr
from prune_gui.number_formats import duration, short_bytes, sparsity, sparsity_share
from prune_gui.recipe.output import with_ending
from prune_gui.worker.jobs import reconstruct_job

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.reconstruction.block import LayerError
    from prune_gui.reconstruction.running import BlockError, Pace

CALIBRATION: Final = questions.FileQuestion(
    deferred("Choose the calibration data"),
    deferred("Texts, token ids, Python (*.txt *.safetensors *.py);;All files (*)"),
)
OUTPUT: Final = deferred("Folder for the reconstructed model")
MAX_COUNT: Final = 1_000_000
MAX_SPREAD: Final = 30
"""Percentage points."""
MAX_TICKS: Final = 8


class ReconstructDialog(JobSequenceDialog):
    """Runs a reconstruction with the stack; what is finished of a stopped one is kept."""

    open_wanted = Signal(object)  # (path) the user wants to see the result
    compare_wanted = Signal(object)  # (path) the user wants to compare it with the open checkpoint

    def __init__(self, workbench: Workbench, folder: Path, parent: QWidget) -> None:
        super().__init__(workbench, tr("Reconstruct the model"), tr("Re&construct"), parent)
        self._start_folder = folder
        self._job: Job | None = None
        self._written: Path | None = None
        self._arrangement = Arrangement(())
        self._errors: dict[str, LayerError] = {}
        self._blocks: list[BlockError] = []
        self._count, self._started = 0, 0.0
        self._pace: Pace | None = None
        self._told = ""  # the problem that is shown
        self.calibration = layouts.described(QLineEdit(), tr("Calibration data"))
        self.calibration.setPlaceholderText(
            tr("Texts like those that the model is for, or token ids")
        )
        self.out = layouts.described(QLineEdit(), tr(OUTPUT))
        self.masks = layouts.described(QComboBox(), tr("Masks"))
        self.masks.addItem(tr("Chosen with the values, as many as in the stack"), True)
        self.masks.addItem(tr("Those of the stack"), False)
        self.samples, self.length, self.tuning = (
            layouts.described(QSpinBox(minimum=least, maximum=MAX_COUNT, value=value), name)
            for least, value, name in (
                (1, 128, tr("Samples")),
                (1, 512, tr("Tokens of a sample")),
                (0, 0, tr("Steps of training per block")),
            )
        )
        self.tuning.setToolTip(
            tr("Then train the kept weights of each block towards the outputs of the dense one")
        )
        self.spread = layouts.described(
            QSpinBox(maximum=MAX_SPREAD, prefix="± ", suffix=" %"), tr("Amounts of layers")
        )
        self.spread.setSpecialValueText(tr("As in the stack"))
        self.spread.setToolTip(
            tr(
                "More is pruned of layers from which the output of the block suffers less, and as "
                "much in all"
            )
        )
        browse = (
            layouts.button(tr("&Browse…"), self._ask_calibration),
            layouts.button(tr("B&rowse…"), self._ask_output),
        )
        counts = layouts.sentence(
            tr("{samples} of {length} tokens; {steps} training steps per block"),
            samples=self.samples,
            length=self.length,
            steps=self.tuning,
        )
        numbers = self.samples, self.length, self.tuning, self.spread
        self._inputs: tuple[QWidget, ...] = (
            *(self.calibration, self.out, self.masks),
            *numbers,
            *browse,
        )
        form = layouts.form(
            (tr("Calibration"), layouts.row((self.calibration, 1), browse[0])),
            (tr("Output"), layouts.row((self.out, 1), browse[1])),
            (tr("Masks"), self.masks),
            (tr("Amounts"), self.spread),
            (tr("Samples"), counts),
        )
        self.grid = BlockGrid(tr("Errors of layers"))
        self.grid.tip_of = self._describe
        self.plot = MetricPlot(tr("Errors by block"), tr("block"))
        self.plot.pointed.connect(self._point)
        self.legend = QLabel(textFormat=Qt.TextFormat.RichText, wordWrap=True)
        self.pointed = ElidedLabel(tr("Layer under the cursor"))
        self._curves = QWidget()
        layouts.column((self.plot, 1), self.legend, self.pointed, of=self._curves, margin=0)
        self._curves.hide()  # until there is an error
        self.message = Message()
        self.show_result = self._add_button(tr("&Open the result"), self._open)
        self.compare_result = self._add_button(tr("Co&mpare"), self._compare)
        pictures = side_by_side(self.grid, self._curves)
        layouts.column(form, (pictures, 1), self.message, self.buttons, of=self)
        self.resize(900, 600)
        self.ended.connect(self._say_stopped)
        workbench.bridge.happened.connect(self._follow)
        for field in (self.calibration, self.out):
            field.textChanged.connect(self._refresh)
        checkpoint = workbench.opened.checkpoint
        model, tensors = checkpoint.path.parent, checkpoint.tensors
        self.out.setText(str(model.with_name(with_ending(model.name))))
        names = [name for name, info in tensors.items() if len(info.shape) > 1]
        title = deferred("Arranging the parameters")
        workbench.bridge.run(Job(title, lambda _: Arrangement.of(tensors, names)), self._arrange)
        self.calibration.setFocus()
        self._refresh()

    @property
    def writing(self) -> bool:
        return self.running

    def _ask_calibration(self) -> None:
        if path := questions.ask_file(self, CALIBRATION, self._start_folder):
            self.calibration.setText(str(path))

    def _ask_output(self) -> None:
        start = Path(self.out.text()).parent if self.out.text() else self._start_folder
        if path := questions.ask_folder(self, start, OUTPUT):
            self.out.setText(str(path))

    def _problem(self) -> str:
        """Return why it cannot begin, to be translated; "" if it can."""
        if not self._workbench.opened.steps:
            return deferred("The stack is empty. Add a step first.")
        if not self.calibration.text().strip():
            return deferred("Choose a file with calibration data.")
        if not self.out.text().strip():
            return deferred("Enter a folder for the output.")
        return ""

    def _refresh(self) -> None:
        running, problem = self.running, self._problem()
        if not running and problem != self._told:
            self.message.say(tr(problem) if problem else "", warning=False)
            self._told = problem
        for widget in self._inputs:
            widget.setEnabled(not running)
        for button in (self.show_result, self.compare_result):
            button.setEnabled(self._written is not None)
        self._enable_buttons(ready=not problem)

    def _run(self) -> None:
        session = self._workbench.opened
        out = Path(self.out.text().strip()).absolute()
        self._errors, self._blocks, self._written, self._count = {}, [], None, 0
        self._pace, self._started = None, time.monotonic()
        self._job = reconstruct_job(
            session.checkpoint.path.parent,
            session.recipe,
            Path(self.calibration.text().strip()).absolute(),
            out,
            samples=self.samples.value(),
            length=self.length.value(),
            choose=self.masks.currentData(),
            tuning_steps=self.tuning.value(),
            spread=self.spread.value() / 100,
        )
        self._start([self._job])
        self.message.say(tr("Reading the calibration data"), warning=False)
        self._show()
        self._refresh()

    def _follow(self, event: Event) -> None:
        if event.job is not self._job:
            return
        if isinstance(event, Progressed):
            self._count = self._count or event.total
            self.plot.extent = 0, self._count - 1
            spacing = max(1, self._count // MAX_TICKS)
            self.plot.plotItem.getAxis("bottom").setTickSpacing(spacing, spacing)
            if not self._errors:
                text = tr("Block {number:,} of {total:,}", number=1, total=self._count)
                self.message.say(text, warning=False)
        elif isinstance(event, Reported):
            self._take(cast("LayerError | BlockError", event.found))
            self._show()

    def _take(self, found: LayerError | BlockError) -> None:
        from prune_gui.reconstruction.running import BlockError, Pace  # torch: slow to import

        self._pace = self._pace or Pace(self._started)
        self._pace.take(found)
        if isinstance(found, BlockError):
            self._blocks.append(found)
            self._errors |= {layer.name: layer for layer in found.layers}  # also of an earlier run
            self._say_progress(found)
            return
        self._errors[found.name] = found
        if self._pace.seconds_left(1) is None:
            text = tr(
                "Block {number:,} of {total:,}: {name}",
                number=len(self._blocks) + 1,
                total=self._count,
                name=found.name,
            )
            self.message.say(text, warning=False)

    def _say_progress(self, block: BlockError) -> None:
        from prune_gui.pruning.devices import chosen_device  # torch: slow to import
        from prune_gui.reconstruction.running import memory_in_use

        assert self._pace is not None
        done = block.number + 1
        left = self._pace.seconds_left(self._count - done)
        text = tr(
            "Block {done:,} of {total:,}: error {error}",
            done=done,
            total=self._count,
            error=_error_text(block),
        )
        if left and done < self._count:
            text = tr("{text}; about {left} left", text=text, left=duration(left))
        memory = short_bytes(memory_in_use(chosen_device()))
        text = tr("{text}; {memory} of memory", text=text, memory=memory)
        self.message.say(text, warning=False)

    def _arrange(self, arrangement: Arrangement) -> None:
        if shiboken6.isValid(self):  # it may be closed by now
            self._arrangement = arrangement
            self._show()

    def _show(self) -> None:
        shades = colours(self.palette())
        known = {
            name: layer.error for name, layer in self._errors.items() if layer.error is not None
        }
        self.grid.show_cells(self._arrangement, error_cells(known, shades), shades)
        self.plot.show_curves(list(self._error_curves()), {}, tr("error, %"), shades)
        self._curves.setVisible(bool(self.plot.curves))
        self.legend.setText(self.plot.legend().replace("<br>", " &nbsp; "))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._show()

    def _error_curves(self) -> Iterator[MetricCurve]:
        """Yield the errors of the blocks, and of the layers of each role, by block.

        Those without errors yet are there, too, so that the others keep their colours.
        """
        numbers = [block.number for block in self._blocks]
        values = [100 * block.after for block in self._blocks]
        yield _curve(tr("block"), self._blocks, numbers, values)
        for section in self._arrangement.sections:
            for column, role in enumerate(section.roles):
                found = {
                    row: layer
                    for row, one in enumerate(section.rows)
                    if (layer := self._errors.get(one.names[column] or "")) is not None
                    and layer.error is not None
                }
                values = [100 * (layer.error or 0.0) for layer in found.values()]
                yield _curve(role.label, list(found.values()), list(found), values)

    def _describe(self, name: str) -> str:
        layer = self._errors.get(name)
        return name if layer is None else self._described(layer)

    def _described(self, found: LayerError | BlockError) -> str:
        from prune_gui.reconstruction.running import BlockError  # torch: slow to import

        if isinstance(found, BlockError):
            return tr("block {number:,}: {error}", number=found.number, error=_error_text(found))
        pruned = sparsity(found.total - found.kept, found.total)
        error = "" if found.error is None else sparsity_share(found.error)
        text = tr(
            "{name}: error {error}, {pruned} pruned", name=found.name, error=error, pruned=pruned
        )
        return f"{text}\n{found.note}" if found.note else text

    def _point(self, found: LayerError | BlockError | None) -> None:
        self.pointed.say("" if found is None else self._described(found))

    def _take_result(self, _index: int, out: Path) -> None:
        self._written = out
        known = [layer for layer in self._errors.values() if layer.error is not None]
        worst = max(known, key=lambda layer: layer.error or 0.0, default=None)
        text = tr("Saved {name}.", name=out.name)
        if worst is not None and worst.error is not None:
            text = tr(
                "Saved {name}. Largest error: {layer}, {error}",
                name=out.name,
                layer=worst.name,
                error=sparsity_share(worst.error),
            )
        self.message.say(text, warning=False)
        self._refresh()

    def _fail(self, title: str, error: BaseException) -> None:
        self._blocks.clear()
        if isinstance(error, PruneGuiError):
            self.message.say_error(str(error), "")
        else:
            self.message.say("")
            super()._fail(title, error)

    def _say_stopped(self) -> None:
        if self._written is None and self._blocks:
            text = tr(
                "Stopped after {count:,} of {total:,} blocks, which are kept. To go on, "
                "reconstruct again with the same output.",
                count=len(self._blocks),
                total=self._count,
            )
            self.message.say(text, warning=False)

    def _open(self) -> None:
        if self._written is not None:
            self.open_wanted.emit(self._written)

    def _compare(self) -> None:
        if self._written is not None:
            self.compare_wanted.emit(self._written)


def _error_text(block: BlockError) -> str:
    if block.after == block.before:
        return sparsity_share(block.after)
    return tr(
        "{error}, {before} before training",
        error=sparsity_share(block.after),
        before=sparsity_share(block.before),
    )


def _curve(
    label: str, points: Sequence[object], numbers: Sequence[int], values: Sequence[float]
) -> MetricCurve:
    return MetricCurve(label, tuple(points), np.array(numbers, float), np.array(values, float))
