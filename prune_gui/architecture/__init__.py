"""The units of a network, from the names and shapes of its parameters and from its config.json.

Use modules through this package (`architecture.groups.spaces`) where importing yaml has to wait.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
