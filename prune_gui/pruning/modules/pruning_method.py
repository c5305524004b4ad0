"""The base class of the pruning methods of the module API, and a container of several methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.modules.masking import is_binary, keep
from prune_gui.pruning.modules.reparametrization import (
    MASK,
    ORIG,
    PrunedTensor,
    make_computed,
    make_stored,
    unchanged_on_error,
)


@reference.BasePruningMethod.register
class BasePruningMethod(ABC):
    """A pruning method, and a forward pre-hook of the modules that it pruned.

    A subclass implements `compute_mask` and sets `PRUNING_TYPE`, the part of an already pruned
    parameter that a step gets: "unstructured", only the remaining elements; "structured", only the
    channels along `dim` with a remaining element; "global", all elements.

    It is registered as a virtual subclass of torch's `BasePruningMethod`, so that torch's
    `is_pruned` and `remove` accept it. Conversely, a subclass of torch's class is accepted wherever
    this package takes a method. `copy.deepcopy` can copy a pruned module at any time, unlike one
    pruned by torch.
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask (0 and 1) that results from pruning `t` on top of `default_mask`.

        Args:
            t: scores, one per element that this step gets.
            default_mask: of the same shape, 1 where an element remains; must not be changed.
        """

    def __call__(self, module: nn.Module, inputs: object) -> None:
        """Let the module compute the pruned tensor when it is read, as after `apply`."""
        make_computed(module, self._name(module))

    def apply_mask(self, module: nn.Module) -> Tensor:
        """Return the pruned tensor: `_orig` where the mask is 1, +0 elsewhere.

        torch multiplies instead, which makes -0 of a pruned negative weight, and NaN of a pruned
        NaN or infinity. The gradient is the same: 0 for pruned elements.
        """
        name = self._name(module)
        return keep(getattr(module, name + ORIG), getattr(module, name + MASK))

    @classmethod
    def apply(
        cls,
        module: nn.Module,
        name: str,
        *args: Any,  # noqa: ANN401 - arguments of a subclass
        importance_scores: Tensor | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> BasePruningMethod:
        """Prune a parameter of a module, in addition to earlier pruning.

        A call that fails leaves the module unchanged; torch may leave it partly pruned. Scores are
        computed from `_orig` and `_mask`; torch reads the attribute that the last forward pass
        set. Scores are 0 where already pruned; in torch, `importance_scores` are not, so that
        pruned elements contribute to the norm of their channel. The parameter may be transposed or
        channels-last, which torch's unstructured methods refuse; the mask gets the same strides.

        Args:
            *args: arguments of the method's constructor, like **kwargs.
            importance_scores: of the parameter's shape, ranked instead of its weights.

        Returns:
            The hook: the method itself, or a `PruningContainer` of all methods applied so far.

        Raises:
            AttributeError: the module has no attribute of that name.
            TypeError: the attribute is not a parameter of the module.
            ValueError: the attribute is None, which torch would delete; the amount cannot be
                pruned; the mask holds values other than 0 and 1, which torch would store.
            KeyError: the module already has an attribute `<name>_orig` or `<name>_mask`.
            AssertionError: the scores are of another shape.
        """
        tensor = PrunedTensor.find(module, name)
        method = cls(*args, **kwargs)
        hook = method.as_hook(tensor)
        mask = method.mask_for(tensor, tensor.values(importance_scores))
        has_own = type(hook).apply_mask is not BasePruningMethod.apply_mask
        tensor.store(mask, hook, try_hook=has_own)
        return hook

    def mask_for(self, tensor: PrunedTensor, values: Tensor) -> Tensor:
        """Return the mask after this method; subclasses are faster than `compute_mask`."""
        scores = tensor.scores(values)
        if tensor.hook is None:
            mask = self.compute_mask(scores, default_mask=tensor.mask())
        else:
            mask = mask_on_top(self, scores, tensor.mask())
        _check_binary(mask)
        return mask

    def as_hook(self, tensor: PrunedTensor) -> BasePruningMethod:
        """Return the hook that applies this method after those that already prune a parameter."""
        self._tensor_name = tensor.name
        if tensor.hook is None:
            return self
        hook = tensor.hook
        earlier = tuple(hook) if isinstance(hook, reference.PruningContainer) else (hook,)
        return PruningContainer(*earlier, self)

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return a pruned copy of a tensor that belongs to no module.

        Pruned elements are +0, as in `apply_mask`; torch multiplies instead.

        Args:
            default_mask: of the same shape; None for ones.
            importance_scores: of the same shape, ranked instead of `t`.

        Raises:
            AssertionError: the scores are of another shape.
            ValueError: the mask holds values other than 0 and 1.
        """
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores have shape {tuple(importance_scores.shape)}; "
                f"the tensor has {tuple(t.shape)}."
            )
        mask = self.compute_mask(
            t if importance_scores is None else importance_scores,
            default_mask=torch.ones_like(t) if default_mask is None else default_mask,
        )
        _check_binary(mask)
        return keep(t, mask)

    def remove(self, module: nn.Module) -> None:
        """Make pruning permanent: store the pruned tensor as parameter, remove `_orig` and `_mask`.

        The `Parameter` object stays the same, so optimisers that reference it still work.
        """
        name = self._name(module)
        pruned = self.apply_mask(module).detach()  # first: a GPU does it meanwhile
        with unchanged_on_error(module):
            orig: Any = module._parameters.pop(name + ORIG)
            del module._buffers[name + MASK]
            make_stored(module, name)
            setattr(module, name, orig)
            orig.data = pruned  # last, so that an earlier failure leaves the weights unchanged

    def _name(self, module: nn.Module) -> str:
        if self._tensor_name is None:
            raise AssertionError(f"{type(self).__name__} has not pruned anything of {module} yet.")
        return self._tensor_name


@reference.PruningContainer.register
class PruningContainer(BasePruningMethod):
    """The methods applied to one parameter so far, in order. The last one computes the mask."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            if not self._pruning_methods:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method after the others, which prune the same parameter."""
        if not isinstance(method, reference.BasePruningMethod):
            raise TypeError(f"{type(method)} is not a pruning method.")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"This container prunes '{self._tensor_name}'; a method that prunes "
                f"'{method._tensor_name}' cannot join it."
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    @overload
    def __getitem__(self, idx: int) -> BasePruningMethod: ...
    @overload
    def __getitem__(self, idx: slice) -> tuple[BasePruningMethod, ...]: ...
    def __getitem__(self, idx: int | slice) -> BasePruningMethod | tuple[BasePruningMethod, ...]:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of the last method on top of `default_mask`, see `mask_on_top`."""
        return mask_on_top(self._pruning_methods[-1], t, default_mask)


def mask_on_top(method: BasePruningMethod, t: Tensor, default_mask: Tensor) -> Tensor:
    """Compute the mask of a method on top of the mask of earlier methods."""
    index = _prunable_index(method, default_mask)
    prunable = t[index]
    prunable_mask = method.compute_mask(prunable, default_mask=default_mask[index])
    if prunable_mask.shape != prunable.shape:
        raise ValueError(
            f"{type(method).__name__} was shown scores of shape {tuple(prunable.shape)}, "
            f"but returned a mask of shape {tuple(prunable_mask.shape)}."
        )
    if isinstance(index, tuple) and not any(isinstance(item, Tensor) for item in index):
        return prunable_mask.to(t.dtype)  # the method got the whole tensor
    mask = default_mask.to(t.dtype, copy=True)
    mask[index] = prunable_mask.to(t.dtype)
    return mask


def _check_binary(mask: Tensor) -> None:
    if not is_binary(mask):
        raise ValueError("A mask must hold nothing but 0 and 1.")


def _prunable_index(method: BasePruningMethod, mask: Tensor) -> Tensor | tuple[slice | Tensor, ...]:
    if method.PRUNING_TYPE == "unstructured":
        return mask != 0
    index: list[slice | Tensor] = [slice(None)] * mask.dim()
    if method.PRUNING_TYPE == "structured":
        dim = _dimension(method, mask.dim())
        # `channel_norms` is not used, since its kernels would delay a plug-in process by a second.
        # `sum([])` would reduce all dimensions, so that a vector gets a second one. torch cannot
        # sum float8.
        others = [other for other in range(mask.dim() + 1) if other != dim]
        summable = mask.bool() if mask.dtype.itemsize == 1 else mask
        has_remaining = summable.unsqueeze(-1).sum(others) != 0
        if not has_remaining.all():
            index[dim] = has_remaining
    elif method.PRUNING_TYPE != "global":
        raise ValueError(
            f"PRUNING_TYPE {method.PRUNING_TYPE!r} of {type(method).__name__} is unknown; "
            "use 'unstructured', 'structured' or 'global'."
        )
    return tuple(index)


def _dimension(method: BasePruningMethod, dims: int) -> int:
    dim = getattr(method, "dim", None)
    if dim is None:
        raise AttributeError(
            f"{type(method).__name__} is 'structured'; it must say along which `dim` it prunes."
        )
    if not -dims <= dim < dims:
        raise IndexError(f"dim={dim} is none of the {dims} dimensions of this tensor.")
    return int(dim) % dims
