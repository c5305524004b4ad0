"""The list of views, in the order of their tabs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from prune_gui.language import deferred

if TYPE_CHECKING:
    from prune_gui.gui.views.maps.viewport import Viewport
    from prune_gui.gui.views.view import View
    from prune_gui.gui.workbench import Workbench


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view that the window offers.

    Attributes:
        factory: "module:name" of the class or function that creates the view, below this package.
            It is imported when the view is needed, because the plotting library takes long to load.
        caches_pictures: whether the view gets a share of the memory for pictures; maps do.
    """

    key: str
    title: str  # title of the tab; to be translated
    factory: str
    is_map: bool = False  # whether the factory takes the viewport of all views after the workbench
    caches_pictures: bool = False

    def create(self, workbench: Workbench, viewport: Viewport) -> View[Any]:
        return self.load()(workbench, *([viewport] if self.is_map else []))

    def load(self) -> Callable[..., View[Any]]:
        module, _, name = self.factory.partition(":")
        factory: Callable[..., View[Any]] = getattr(import_module(f"{__package__}.{module}"), name)
        return factory


VIEWS: Final = (
    ViewSpec("overview", deferred("&Overview"), "overview.view:OverviewView", caches_pictures=True),
    ViewSpec("mask", deferred("&Mask"), "mask.view:MaskView", is_map=True),
    ViewSpec("weights", deferred("Wei&ghts"), "weights.view:WeightsView", is_map=True),
    ViewSpec("distribution", deferred("&Distribution"), "distribution.view:DistributionView"),
    ViewSpec("norms", deferred("&Norms"), "norms.view:NormsView"),
    ViewSpec("groups", deferred("Groups"), "groups.view:GroupsView"),
    ViewSpec("layers", deferred("&Layers"), "layers.view:LayersView"),
    ViewSpec("compare", deferred("Compa&re"), "compare.view:CompareView", is_map=True),
)
