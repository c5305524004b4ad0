"""What the methods decide with: loaded on first use, because methods are imported without torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
