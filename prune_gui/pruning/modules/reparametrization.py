"""The reparametrization of a pruned parameter in a module.

The parameter `X` becomes the parameter `X_orig` and the buffer `X_mask`; `X` itself becomes an
attribute that is computed from the two whenever it is read, by the hook that pruned it.

torch computes it in a hook before the forward pass of its module. Programs that read the attribute
without calling the module, as `nn.MultiheadAttention` reads `out_proj.weight` and a tied output
layer the weight of an embedding, then get the tensor of an earlier pass: old weights, whose graph a
backward pass has already freed. As in `torch.nn.utils.parametrize`, the class of a pruned module is
therefore a subclass of its own, with a property of the name of the parameter.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.modules.masking import keep, mask_like
from prune_gui.pruning.selection.scores import is_on_cpu


@dataclass(frozen=True, slots=True)
class PrunedTensor:
    """One parameter of a module before a pruning step; without a `hook` it is not pruned yet."""

    module: nn.Module
    name: str
    orig: nn.Parameter
    hook: reference.BasePruningMethod | None

    @classmethod
    def find(cls, module: nn.Module, name: str) -> PrunedTensor:
        """Find a parameter and check that it can be pruned; nothing is changed."""
        hooks = pruning_hooks(module, name)
        if len(hooks) > 1:
            raise AssertionError(
                f"{len(hooks)} hooks prune '{name}' of {module}; join them in a PruningContainer."
            )
        for hook in hooks.values():
            return cls(module, name, getattr(module, name + ORIG), hook)
        tensor = getattr(module, name)
        if tensor is None:
            raise ValueError(f"'{name}' of {module} is None; there is nothing to prune.")
        if not isinstance(tensor, nn.Parameter):
            raise TypeError(f"'{name}' of {module} is a {type(tensor).__name__}, not a parameter.")
        if type(tensor).__name__ == "DTensor":  # its module takes long to import
            raise TypeError(
                f"'{name}' of {module} is a DTensor, whose elements are on several devices. Prune "
                "the model before it is distributed, or prune its checkpoint."
            )
        for needed in (name + ORIG, name + MASK):
            if hasattr(module, needed):
                raise KeyError(f"attribute '{needed}' already exists; pruning '{name}' needs it")
        return cls(module, name, tensor, None)

    def mask(self) -> Tensor:
        """Return a copy of the mask; ones if the parameter is not pruned."""
        if self.hook is None:
            return torch.ones_like(self.orig, requires_grad=False)
        mask = self.stored_mask().detach()
        return torch.empty_like(mask, requires_grad=False).copy_(mask)

    def remaining(self) -> Tensor | None:
        """Return the mask, contiguous, not 0 where elements remain; None if it is not pruned.

        It is boolean on the CPU, and in dtypes that the kernels of a device cannot compare.
        """
        if self.hook is None:
            return None
        mask = self.stored_mask()
        if is_on_cpu(mask.device) or mask.itemsize == 1 or mask.is_complex():
            mask = mask.bool()
        return mask.contiguous()

    def mask_without(self, kept: Tensor) -> Tensor:
        """Return a copy of the mask, 0 where `kept` is False, which may broadcast."""
        return mask_like(self.orig, kept if self.hook is None else self.stored_mask().bool() & kept)

    def values(self, given: Tensor | None = None) -> Tensor:
        if given is None:
            return self.orig.detach()
        if given.shape != self.orig.shape:
            raise AssertionError(
                f"importance_scores of '{self.name}' have shape {tuple(given.shape)}; "
                f"the parameter has {tuple(self.orig.shape)}."
            )
        return given.detach().to(self.orig.device)

    def scores(self, values: Tensor) -> Tensor:
        return values if self.hook is None else keep(values, self.stored_mask())

    def store(
        self, mask: Tensor, hook: Callable[[nn.Module, object], None], *, try_hook: bool = False
    ) -> None:
        """Store a new mask and the hook that applies it; on an error, the module is unchanged.

        With `try_hook`, a hook that cannot apply the mask is such an error.
        """
        if mask.shape != self.orig.shape:
            raise ValueError(
                f"A mask for '{self.name}' must have its shape, {tuple(self.orig.shape)}, but has "
                f"the shape {tuple(mask.shape)}."
            )
        module, name = self.module, self.name
        with unchanged_on_error(module):
            if self.hook is None:
                module.register_parameter(name + ORIG, self.orig)
                del module._parameters[name]
            for key in pruning_hooks(module, name):
                del module._forward_pre_hooks[key]
            module.register_buffer(name + MASK, self._as_buffer(mask))
            module.register_forward_pre_hook(hook)
            make_computed(module, name)
            if try_hook:
                getattr(module, name)

    def stored_mask(self) -> Tensor:
        mask: Tensor = getattr(self.module, self.name + MASK)
        return mask.detach()

    def _as_buffer(self, mask: Tensor) -> Tensor:
        like = self.orig
        if (mask.dtype, mask.device, mask.stride()) == (like.dtype, like.device, like.stride()):
            return mask.detach()
        return torch.empty_like(like, requires_grad=False).copy_(mask)


def pruning_hooks(module: nn.Module, name: str) -> dict[int, reference.BasePruningMethod]:
    """Return the hooks, of this package or torch, that prune the parameter `name`, by hook id."""
    return {
        key: hook
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, reference.BasePruningMethod) and hook._tensor_name == name
    }


@contextmanager
def unchanged_on_error(*modules: nn.Module) -> Iterator[None]:
    """Restore class, parameters, buffers, hooks and attributes of modules if the block raises.

    Lists among the attributes are restored too, since a recurrent module has its weights in one.
    """
    tables: list[MutableMapping[Any, Any]] = [
        table
        for module in modules
        for table in (
            module.__dict__,
            module._parameters,
            module._buffers,
            module._forward_pre_hooks,
        )
    ]
    before = [dict(table) for table in tables]
    classes = [(module, type(module)) for module in modules]
    lists = [
        (value, list(value))
        for module in modules
        for value in vars(module).values()
        if isinstance(value, list)
    ]
    try:
        yield
    except BaseException:
        for module, cls in classes:
            module.__class__ = cls
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)
        for value, items in lists:
            value[:] = items
        raise


ORIG, MASK = "_orig", "_mask"
NAMES: Final = "_computed_names"
"""The attribute of the subclasses with the names of the computed attributes."""
FLAT_WEIGHTS: Final = "_flat_weights"
"""The attribute of recurrent modules with a list of all their weights."""

_subclasses: WeakValueDictionary[tuple[type[nn.Module], tuple[str, ...]], type[nn.Module]] = (
    WeakValueDictionary()
)


def make_computed(module: nn.Module, name: str) -> None:
    """Let a module compute the attribute `name` whenever it is read."""
    if isinstance(vars(type(module)).get(name), property):
        return
    base, names = _split(_class(module))
    if name in names:
        return
    vars(module).pop(name, None)  # what torch or an earlier version stored
    _set_class(module, _computing(base, (*names, name)))


def make_stored(module: nn.Module, name: str) -> None:
    """Let a module have an attribute or a parameter `name` again, as before `make_computed`."""
    base, names = _split(_class(module))
    if not names:
        return
    names = tuple(other for other in names if other != name)
    _set_class(module, _computing(base, names) if names else base)
    if not names and isinstance(module, nn.RNNBase):
        module._flat_weights = _flat_weights(module)


def _class(module: nn.Module) -> type[nn.Module]:
    """Return the class of a module, without that of its own which `parametrize` gave it."""
    cls = type(module)
    return cls.__bases__[0] if _is_parametrized(module) else cls


def _set_class(module: nn.Module, cls: type[nn.Module]) -> None:
    """Set the class of a module; that of `parametrize` stays above it."""
    if _is_parametrized(module):
        type(module).__bases__ = (cls,)
    else:
        object.__setattr__(module, "__class__", cls)  # that of modules looks for parameters


def _is_parametrized(module: nn.Module) -> bool:
    """Return what `is_parametrized` of torch does, which reads a missing attribute if it is not."""
    return isinstance(module._modules.get("parametrizations"), nn.ModuleDict)


def _split(cls: type[nn.Module]) -> tuple[type[nn.Module], tuple[str, ...]]:
    """Return the class of a module before it was pruned, and the names of computed attributes."""
    names = vars(cls).get(NAMES, ())
    return (cls.__bases__[0], names) if names else (cls, ())


def _computing(base: type[nn.Module], names: tuple[str, ...]) -> type[nn.Module]:
    cls = _subclasses.get((base, names))
    if cls is None:
        members: dict[str, Any] = {
            "__module__": base.__module__,
            "__qualname__": base.__qualname__,
            "__doc__": base.__doc__,
            "__reduce_ex__": _reduce_ex,
            NAMES: names,
        }
        members |= _properties(base, names)
        cls = _subclasses[base, names] = type(base.__name__, (base,), members)
    return cls


def _properties(cls: type[nn.Module], names: Iterable[str]) -> dict[str, property]:
    found = {name: _property(name) for name in names}
    if issubclass(cls, nn.RNNBase):
        found[FLAT_WEIGHTS] = property(_flat_weights, _ignore)
    return found


def _property(name: str) -> property:
    def get(module: nn.Module) -> Any:  # noqa: ANN401 - as of any module
        if name + MASK not in module._buffers:  # while pruning is removed
            return nn.Module.__getattr__(module, name)
        hooks: Iterable[Any] = module._forward_pre_hooks.values()
        for hook in hooks:
            if isinstance(hook, reference.BasePruningMethod) and hook._tensor_name == name:
                return hook.apply_mask(module)  # type: ignore[no-untyped-call]
        return keep(getattr(module, name + ORIG), getattr(module, name + MASK))

    def delete(module: nn.Module) -> None:  # torch does, before it stores the parameter again
        make_stored(module, name)

    return property(get, _ignore, delete)


def _ignore(module: nn.Module, value: object) -> None:
    """Do nothing, since torch's hooks set the attribute to what it is."""


def _flat_weights(module: nn.RNNBase) -> list[Tensor | None]:
    names: Any = module._flat_weights_names
    return [getattr(module, name, None) for name in names]


def _reduce_ex(module: nn.Module, protocol: int) -> Any:  # noqa: ANN401 - of pickle
    """Pickle and copy a module without its own class, which no program can import."""
    base, names = _split(type(module))
    reduced: Any = super(type(module), module).__reduce_ex__(protocol)
    function, arguments, *rest = reduced
    if function in (copyreg.__newobj__, copyreg._reconstructor):  # type: ignore[attr-defined]
        return new_computing, (base, names), *rest
    return function, arguments, *rest


def new_computing(base: type[nn.Module], names: Iterable[str]) -> nn.Module:
    """Return a module without attributes, for pickle."""
    cls = _computing(base, tuple(names))
    return cls.__new__(cls)
