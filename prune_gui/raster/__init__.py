"""A parameter of any size as a grid of cells: statistics of the elements in each; colours."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
