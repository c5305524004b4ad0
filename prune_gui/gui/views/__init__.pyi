from .compare.compare_view import CompareView as CompareView
from .distribution.distribution_view import DistributionView as DistributionView
from .layers.layers_view import LayersView as LayersView
from .maps.mask_view import MaskView as MaskView
from .maps.weights_view import WeightsView as WeightsView
from .norms.norms_view import NormsView as NormsView
from .tabs import ViewTabs as ViewTabs
