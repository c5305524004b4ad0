"""A Compare view with the pictures of one parameter."""

from __future__ import annotations

import pytest

from prune_gui.gui.views.compare.view import CompareView
from prune_gui.gui.views.maps.viewport import Viewport


@pytest.fixture
def compare(bench, checkpoint, shown):
    view = shown(CompareView(bench, Viewport()))
    view.resize(900, 700)
    bench.open_and_choose(checkpoint, "fc.weight")
    view.show_pictures()
    bench.until_idle()
    return view
