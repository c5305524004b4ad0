"""Predicates: which elements of one parameter a step prunes, computed for any span on demand.

A predicate holds a few numbers and a way to read the scores, whatever the size of the parameter.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
