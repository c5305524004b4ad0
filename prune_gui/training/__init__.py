"""Training under masks: what is pruned stays pruned, and more is pruned as a schedule says."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
