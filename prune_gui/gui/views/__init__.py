"""Views: pictures of the chosen parameter, a comparison of two states, and all parameters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
