"""What the user looks at: the chosen parameter in many ways, it beside another, and all."""

from prune_gui.gui.views.compare_view import CompareView
from prune_gui.gui.views.distribution_view import DistributionView
from prune_gui.gui.views.layers_view import LayersView
from prune_gui.gui.views.mask_view import MaskView
from prune_gui.gui.views.norms_view import NormsView
from prune_gui.gui.views.tabs import ViewTabs
from prune_gui.gui.views.weights_view import WeightsView

__all__ = [
    "CompareView",
    "DistributionView",
    "LayersView",
    "MaskView",
    "NormsView",
    "ViewTabs",
    "WeightsView",
]
