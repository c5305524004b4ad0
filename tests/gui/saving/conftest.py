"""A save dialog, its sizes, and the files that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PySide6.QtWidgets import QDialog
from safetensors.torch import save_file
from written_files import size_of

from prune_gui.gui.saving import save_dialog as save_dialog
from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.gui.saving.save_dialog import SaveDialog


@pytest.fixture
def model(tmp_path) -> Path:
    torch.manual_seed(0)
    tensors = {f"{name}.weight": torch.randn(40, 30) for name in "abc"}
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.fixture
def make_dialog(qtbot, workbench, open_file, make_step):
    """Return a function that opens a checkpoint, prunes half of it and shows the dialog."""

    def make(path: Path, *, pruned: bool = True) -> SaveDialog:
        open_file(path)
        if pruned:
            step = make_step("l1_unstructured", "*.weight", amount=0.5)
            workbench.edit(lambda session: session.add(step))
        made = SaveDialog(workbench, pruned_path(path))
        qtbot.addWidget(made)
        made.show()
        return made

    return make


@pytest.fixture
def dialog(make_dialog, model) -> SaveDialog:
    return make_dialog(model)


@pytest.fixture
def shown_sizes(qtbot):
    """Return a function that waits for the sizes, and returns them by form, exact if they are."""

    def wait(dialog: SaveDialog) -> dict[str, str]:
        def known() -> bool:
            return save_dialog.UNKNOWN not in {one.text() for one in dialog._figures.values()}

        qtbot.waitUntil(known, timeout=60_000)
        return {form: one.toolTip() or one.text() for form, one in dialog._figures.items()}

    return wait


@pytest.fixture
def save(qtbot, workbench):
    """Return a function that saves with the input of the dialog, and returns the bytes written."""

    def act(dialog: SaveDialog) -> int:
        assert dialog.result() == QDialog.DialogCode.Accepted
        with qtbot.waitSignal(workbench.saved, timeout=60_000) as saved:
            workbench.files.save(dialog.path, dialog.options)
        [out] = saved.args
        return size_of(out)

    return act
