"""Prune neural networks: a checkpoint and a recipe in, masks and a pruned checkpoint out.

The names of `__init__.pyi` load their modules on first use, so that importing the package costs
nothing. Not even `lazy_loader` is imported earlier: `__main__` must first take the working folder
off the import path.
"""


def __getattr__(name: str) -> object:
    import lazy_loader

    lazy = lazy_loader.attach_stub(__name__, __file__)
    globals().update(zip(("__getattr__", "__dir__", "__all__"), lazy, strict=True))
    return lazy[2] if name == "__all__" else lazy[0](name)


def __dir__() -> list[str]:
    return __getattr__("__all__")
