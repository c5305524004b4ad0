"""Norms of channels and of blocks, in one pass over a tensor and without a copy of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
