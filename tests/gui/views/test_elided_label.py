from functools import partial

import pytest

from prune_gui.gui.views import (
    CompareView,
    DistributionView,
    LayersView,
    MaskView,
    NormsView,
    WeightsView,
)
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.elided_label import ElidedLabel


def of_a_plane(view, bench):
    return view(bench, Viewport())


@pytest.mark.parametrize(
    "make",
    [
        *(partial(of_a_plane, view) for view in (MaskView, WeightsView, CompareView)),
        *(DistributionView, LayersView, NormsView),
    ],
)
def test_a_long_text_under_a_picture_is_elided(make, bench, checkpoint, shown):
    view = shown(make(bench))
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
