"""A mask, and a parameter that is larger than its picture."""

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.gui.views.maps.mask_view import mask_view
from prune_gui.gui.views.maps.viewport import Viewport


@pytest.fixture
def mask(bench, checkpoint, shown):
    view = shown(mask_view(bench, Viewport()))
    bench.open_and_choose(checkpoint, "fc.weight")
    return view


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.safetensors"
    weights = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(0))
    save_file({"fc.weight": weights}, path)
    return path
