import pytest

from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.registry import VIEWS
from prune_gui.gui.widgets.elided_label import ElidedLabel


@pytest.mark.parametrize("spec", VIEWS, ids=lambda spec: spec.key)
def test_a_long_text_under_a_picture_is_elided(spec, bench, checkpoint, shown):
    view = shown(spec.create(bench, Viewport()))
    bench.open_and_choose(checkpoint, "fc.weight")
    [line] = [line for line in view.findChildren(ElidedLabel) if not line.wordWrap()]
    before, whole = view.minimumSizeHint(), "[3, 17] 0.0125 kept " * 40
    line.say(whole)
    room = line.contentsRect().width()
    assert line.text().endswith("…")
    assert room / 2 < line.fontMetrics().horizontalAdvance(line.text()) <= room
    assert line.accessibleDescription() == whole
    assert view.minimumSizeHint() == before
    line.say("[3, 17] 0.0125 kept")
    assert line.text() == "[3, 17] 0.0125 kept"
