from .compare_view import CompareView as CompareView
from .distribution_view import DistributionView as DistributionView
from .layers_view import LayersView as LayersView
from .mask_view import MaskView as MaskView
from .norms_view import NormsView as NormsView
from .tabs import ViewTabs as ViewTabs
from .weights_view import WeightsView as WeightsView
