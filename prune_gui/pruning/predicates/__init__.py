"""Predicates: which elements of one parameter a step prunes, computed for any span on demand."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
