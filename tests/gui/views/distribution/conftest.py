"""A Distribution view of one parameter."""

from __future__ import annotations

import pytest

from prune_gui.gui.views.distribution.view import DistributionView


@pytest.fixture
def distribution(bench, checkpoint, shown):
    widget = shown(DistributionView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return widget
