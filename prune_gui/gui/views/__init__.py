"""What the user looks at: the chosen parameter, its mask, values, norms, and it beside another."""

from prune_gui.gui.views.compare_view import CompareView
from prune_gui.gui.views.distribution_view import DistributionView
from prune_gui.gui.views.mask_view import MaskView
from prune_gui.gui.views.norms_view import NormsView
from prune_gui.gui.views.tabs import ViewTabs

__all__ = ["CompareView", "DistributionView", "MaskView", "NormsView", "ViewTabs"]
