"""All views of unusual parameters: one element, no element, and the limits of float64."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtWidgets import QCheckBox, QComboBox, QTabWidget
from safetensors.torch import save_file

from prune_gui.gui.views import ViewTabs

LARGEST, TINIEST = torch.finfo(torch.float64).max, 5e-324
TENSORS = {
    "one": torch.tensor([[0.5]]),
    "scalar": torch.tensor(-3.0),
    "empty": torch.zeros(0, 4),
    "nan": torch.full((2, 3), float("nan")),
    "huge": torch.tensor([[LARGEST, -LARGEST], [TINIEST, 1.0]], dtype=torch.float64),
    "tiny": torch.tensor([[TINIEST, -TINIEST]], dtype=torch.float64),
}
METHODS = {
    "lamp": {"method": "lamp"},
    "row": {"method": "l1_unstructured", "scope": "row"},
    "channels": {"method": "ln_structured", "dim": 0, "n": 2},
}


def choices(view):
    """Make every choice that a view offers, yielding after each; repeat with all boxes toggled."""
    for _ in range(2):
        for box in (box for box in view.findChildren(QComboBox) if box.isVisible()):
            asks_nothing = [i for i in range(box.count()) if not box.itemText(i).endswith("…")]
            for index in (*asks_nothing, asks_nothing[0]):
                box.setCurrentIndex(index)
                box.activated.emit(index)
                yield
        for tick in view.findChildren(QCheckBox):
            if tick.isVisible() and tick.isEnabled():
                tick.click()
                yield


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("name", TENSORS)
def test_every_choice_of_every_view_is_drawn(bench, shown, tmp_path, name):
    save_file({"odd.weight": TENSORS[name]}, tmp_path / "odd.safetensors")
    tabs = shown(ViewTabs(bench))
    pages = tabs.findChild(QTabWidget)
    bench.open_and_choose(tmp_path / "odd.safetensors", "odd.weight")
    drawn = 0
    for settings in METHODS.values() if TENSORS[name].dim() > 1 else [METHODS["lamp"]]:
        bench.draft_step(bench.step(**settings, amount=0.5, targets=["*"]))
        for page in range(pages.count()):
            pages.setCurrentIndex(page)
            bench.until_idle()
            for _ in choices(pages.widget(page)):
                bench.until_idle()
                drawn += 1
    assert (drawn > 0) is (name != "empty")
