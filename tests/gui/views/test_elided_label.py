import pytest
from small_bert import write_bert

from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.registry import VIEWS
from prune_gui.gui.widgets.eliding import ElidedLabel


@pytest.mark.parametrize("spec", VIEWS, ids=lambda spec: spec.key)
def test_a_long_text_under_a_picture_is_elided(spec, bench, shown, tmp_path):
    view = shown(spec.create(bench, Viewport()))
    bench.open_and_choose(write_bert(tmp_path), "encoder.layer.0.output.dense.weight")
    lines = [line for line in view.findChildren(ElidedLabel) if line.isVisible()]
    assert lines
    before, whole = view.minimumSizeHint(), "[3, 17] 0.0125 kept " * 40
    for line in lines:
        line.say(whole)
        room = line.contentsRect().width()
        assert "…" in line.text()
        assert line.fontMetrics().horizontalAdvance(line.text()) <= room
        assert line.accessibleDescription() == whole
        line.say("[3, 17]")
        assert line.text() == "[3, 17]"
    assert view.minimumSizeHint() == before
