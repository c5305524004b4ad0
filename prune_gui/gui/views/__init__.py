"""What the user looks at: the chosen parameter as a mask, a distribution, and norms."""

from prune_gui.gui.views.distribution_view import DistributionView
from prune_gui.gui.views.mask_view import MaskView
from prune_gui.gui.views.norms_view import NormsView
from prune_gui.gui.views.tabs import ViewTabs

__all__ = ["DistributionView", "MaskView", "NormsView", "ViewTabs"]
