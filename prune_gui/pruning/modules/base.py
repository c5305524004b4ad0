"""What every pruning method of the module API has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any, Self, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.modules.reparametrization import MASK, ORIG, PrunedTensor, is_binary, keep


@reference.BasePruningMethod.register
class BasePruningMethod(ABC):
    """A way of choosing what to prune, and the hook that applies the choice.

    A subclass sets `PRUNING_TYPE` and writes `compute_mask`. torch takes it for one of its own, so
    that torch's `is_pruned` and `remove` work on what it pruned; and wherever a method is asked for
    here, a subclass of torch's `BasePruningMethod` will do. `copy.deepcopy` copies a pruned module
    at any time; what torch pruned it cannot copy.

    Attributes:
        PRUNING_TYPE: what a step on an already pruned parameter is shown: "unstructured", only the
            entries still there; "structured", only the channels along `dim` with an entry left;
            "global", all.
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None
    _pruned: Tensor | None = None

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask that results from pruning `t` on top of `default_mask`.

        Args:
            t: scores, one per entry that this step is shown.
            default_mask: of the same shape, 1 where an entry is still there; not to be changed.

        Returns:
            Of the same shape; nothing but 0 and 1.
        """

    def __call__(self, module: nn.Module, inputs: object) -> None:
        """Make the pruned tensor anew from `_orig` and `_mask`, before the module's forward pass.

        Args:
            module: has been pruned by this method.
            inputs: not looked at.
        """
        self._pruned = self.apply_mask(module)
        setattr(module, self._name(module), self._pruned)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # torch refuses to copy a tensor that autograd made, which the pruned one is. A module
        # copies its hooks before its plain attributes, so it finds this copy when it gets there.
        if self._pruned is not None:
            memo[id(self._pruned)] = self._pruned.detach().clone()
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__dict__.update(deepcopy(self.__dict__, memo))
        return copy

    def apply_mask(self, module: nn.Module) -> Tensor:
        """Return the pruned tensor: `_orig` where the mask is 1, +0 elsewhere.

        torch multiplies instead, which leaves -0 of a pruned negative weight, and NaN of a pruned
        NaN or infinity. The gradient is the same: none for pruned entries.

        Raises:
            AssertionError: this method has pruned nothing yet.
        """
        name = self._name(module)
        return keep(getattr(module, name + ORIG), getattr(module, name + MASK))

    @classmethod
    def apply(
        cls,
        module: nn.Module,
        name: str,
        *args: Any,  # noqa: ANN401 - whatever a subclass takes
        importance_scores: Tensor | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> BasePruningMethod:
        """Prune a parameter of a module, on top of what was pruned before.

        Where torch may leave the module half pruned by a call that fails, this one leaves it as it
        was. Scores are read from `_orig` and `_mask`, not, as in torch, from the attribute that the
        last forward pass left behind. They are 0 where already pruned; in torch, given ones are
        not, so that pruned entries vote on their channel. The parameter may be transposed or
        channels-last, which torch's unstructured methods refuse; the mask then lies as it does.

        Args:
            module: changed in place.
            name: of a parameter of this module.
            *args: for the method's constructor.
            importance_scores: of the parameter's shape, ranked in its place.
            **kwargs: for the method's constructor.

        Returns:
            The hook: the method itself, or a `PruningContainer` of all methods applied so far.

        Raises:
            AttributeError: the module has nothing of that name.
            TypeError: it is not a parameter of the module.
            ValueError: it is None, which torch would delete; the amount cannot be pruned; the
                mask holds other than 0 and 1, which torch would store.
            KeyError: the module already has an attribute `<name>_orig` or `<name>_mask`.
            AssertionError: the scores are of another shape.
        """
        from prune_gui.pruning.modules.container import PruningContainer  # it is a method too

        tensor = PrunedTensor.find(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if tensor.hook is not None:
            hook = tensor.hook
            earlier = tuple(hook) if isinstance(hook, reference.PruningContainer) else (hook,)
            method = PruningContainer(*earlier, method)
        scores = tensor.scores(importance_scores)
        tensor.store(method.compute_mask(scores, default_mask=tensor.mask()), method)
        if isinstance(tensor.hook, BasePruningMethod):
            tensor.hook._pruned = None  # it lives on in the container, which holds the new one
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """Return a pruned copy of a tensor that belongs to no module.

        Pruned entries are +0, as in `apply_mask`, where torch multiplies.

        Args:
            t: any shape.
            default_mask: of the same shape; None for ones.
            importance_scores: of the same shape, ranked in place of `t`.

        Raises:
            AssertionError: the scores are of another shape.
            ValueError: the mask holds other than 0 and 1.
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
        if not is_binary(mask):
            raise ValueError("A mask must hold nothing but 0 and 1.")
        return keep(t, mask)

    def remove(self, module: nn.Module) -> None:
        """Make pruning final: the pruned tensor becomes the parameter, `_orig` and `_mask` go.

        The `Parameter` object stays the same, so an optimiser that holds it goes on.

        Raises:
            AssertionError: this method has pruned nothing yet.
        """
        name = self._name(module)
        orig: nn.Parameter = getattr(module, name + ORIG)
        pruned = self.apply_mask(module).detach()
        module.__dict__.pop(name, None)
        del module._parameters[name + ORIG]
        del module._buffers[name + MASK]
        setattr(module, name, orig)
        orig.data = pruned  # last, so that a failure before it has not touched the weights

    def _name(self, module: nn.Module) -> str:
        if self._tensor_name is None:
            raise AssertionError(f"{type(self).__name__} has not pruned anything of {module} yet.")
        return self._tensor_name


def is_method(candidate: object) -> TypeGuard[BasePruningMethod]:
    """Tell whether an object is a pruning method, ours or torch's: they work alike."""
    return isinstance(candidate, reference.BasePruningMethod)
