"""A plug-in's class as a method of recipes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError, create_model
from torch import Tensor

from prune_gui.errors import PluginError, RecipeError
from prune_gui.language import later, tr
from prune_gui.memory import shortage
from prune_gui.pruning.base import BasePruningMethod
from prune_gui.pruning.keys import RandomKeys
from prune_gui.pruning.methods.base import Decision, Method, Scope, Seed, Target, all_targets
from prune_gui.pruning.plugins.calling import Fault, Raised, ask, foreign
from prune_gui.pruning.plugins.fields import fields_of
from prune_gui.pruning.predicates import MadeMask, PackedMask
from prune_gui.pruning.problems import in_words

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor

UNITS: Final[dict[object, Literal["entry", "channel"]]] = {
    "unstructured": "entry",
    "structured": "channel",
    "global": "entry",
}
SHAPES: Final = ((6, 5), (4, 3, 3, 3), (64, 64))
"""What a plug-in is tried on: a matrix, a convolution, and enough for one that counts in units."""
FLOAT: Final = 4
"""Bytes of an entry as it is shown, if the file keeps it in one."""
TAKEN: Final = frozenset({"method", "targets", "enabled", "scope"})
"""What a step has beside the parameters of its method."""
TOO_LARGE: Final = later("{it} takes {lack}; use another method, or close other programs")
TOO_LARGE_AS_ONE: Final = later(
    "{it} takes {lack}; use fewer targets, or scope local, or close other programs"
)


class PluginMethod(Method):
    """What `method_from` makes a subclass of for each class of a plug-in.

    A target that no earlier step touched is shown to the plug-in as it is, and any other as its
    `PRUNING_TYPE` says, as torch does; in scope global all targets are one vector, as in
    `torch.nn.utils.prune.global_unstructured`. Entries that earlier steps pruned stay pruned
    whatever its mask says of them, where torch would let it bring them back. Random numbers depend
    on the seed and on the target's name, as in the methods built in, so that no two layers are
    pruned alike.
    """

    model_config = ConfigDict(strict=True)

    plugin: ClassVar[type[BasePruningMethod]]
    """The class; one on torch's own base is as good as one on ours."""
    takes: ClassVar[frozenset[str]]
    """Those of the fields that its constructor takes."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Make the mask of each target, or one of all."""
        decisions = []
        with monitor.plan(sum(target.weights.nbytes for target in targets)):
            for group in [targets] if self._as_one else [[target] for target in targets]:
                monitor.advance()
                mask = PackedMask(partial(self._pruned, group), f"{self.title} ({self.source})")
                first = 0
                for target in group:
                    made = MadeMask(mask, first)
                    decisions.append(Decision(made, int(made.prunes(0, target.size).sum())))
                    monitor.advance(target.weights.nbytes)
                    first += target.size
        return decisions

    def try_out(self) -> None:
        """Make masks of small tensors: are they masks, and do they come out the same again?

        Raises:
            Fault: they are not, or do not, or the plug-in makes none of any.
        """
        failed: Fault | None = None
        works = False
        for shape in SHAPES:
            drawn = torch.Generator().manual_seed(0)
            t = torch.randn(shape, generator=drawn)
            some = torch.rand(shape, generator=drawn) < 0.7
            for there in (None, some):
                try:
                    mask, again = (self._ask(t.clone(), there, "weight", "") for _ in range(2))
                except Raised as error:
                    failed = error
                    continue
                if not torch.equal(mask, again):
                    raise Fault(
                        later(
                            "{it} makes another mask when asked again under the same seed: draw "
                            "random numbers from torch's default generator, and keep nothing "
                            "between calls"
                        )
                    )
                works = True
        if failed and not works:
            raise failed

    @property
    def _as_one(self) -> bool:
        return dict(self).get("scope") == "global"

    def _build(self) -> BasePruningMethod:
        return self.plugin(**{name: value for name, value in self if name in self.takes})

    def _ask(self, t: Tensor, there: Tensor | None, torch_name: str, stream: str) -> Tensor:
        seed = int(RandomKeys(dict(self)["seed"], stream, t.numel()).stream)
        return ask(self._build, t, there, torch_name, seed)

    def _pruned(self, group: Sequence[Target]) -> NDArray[np.bool_]:
        """Return which entries of some targets, one target after the other, this step prunes.

        Raises:
            RecipeError: the plug-in makes no mask.
        """
        try:
            return self._made(group)
        except Fault as fault:
            problem = fault.of(self.plugin.__name__)
        # Out here, because an error keeps alive what led to it: in there, whole tensors.
        raise RecipeError(
            tr(
                "{of}: {problem} (from {source}).",
                of=all_targets() if self._as_one else group[0].name,
                problem=problem,
                source=self.source,
            )
        )

    def _check_room(self, group: Sequence[Target]) -> None:
        """Refuse what cannot fit: what the plug-in is shown, the default mask, and its own.

        Raises:
            Fault: there is too little memory.
        """
        copies = 4 if self._as_one else 3  # those of targets shown as one are put side by side
        needed = 0
        for target in group:
            width = target.weights.dtype.itemsize
            needed += target.size * (copies * (width if width > 1 else FLOAT) + 1)
        lack = shortage(needed)
        if lack is not None:
            raise Fault(TOO_LARGE_AS_ONE if self._as_one else TOO_LARGE, lack=lack)

    def _made(self, group: Sequence[Target]) -> NDArray[np.bool_]:
        if any(field.is_required() for field in type(self).model_fields.values()):
            self.try_out()  # as could not be done when it was loaded
        self._check_room(group)
        shown = [_shown(target) for target in group]
        if self._as_one:
            t = torch.cat([scores.reshape(-1) for scores, _ in shown])
            there = torch.cat(
                [
                    torch.ones(scores.numel(), dtype=torch.bool) if old is None else old.reshape(-1)
                    for scores, old in shown
                ]
            )
            pruned = ~self._ask(t, there, "temp", "") & there
        else:
            [(t, old)] = shown
            name = group[0].name
            pruned = ~self._ask(t, old, name.rpartition(".")[2], name)
            if old is not None:
                pruned &= old
        found: NDArray[np.bool_] = pruned.reshape(-1).numpy()
        return found


def method_from(plugin: type[BasePruningMethod], source: str) -> type[PluginMethod]:
    """Return a class as a method of recipes, once it has made a few masks.

    A class whose constructor needs what only a recipe can say is tried when a step first uses it.

    Args:
        plugin: a concrete class on torch's base or ours.
        source: where it comes from.

    Raises:
        PluginError: it is no method that a recipe can use; the message says why.
    """
    try:
        with foreign():
            return _method_from(plugin, source)
    except Fault as fault:
        problem = fault.of(plugin.__name__)
    raise PluginError(
        tr("{source}: {problem}. Mend it, and load it again.", source=source, problem=problem)
    )


def _method_from(plugin: type[BasePruningMethod], source: str) -> type[PluginMethod]:
    kind = getattr(plugin, "PRUNING_TYPE", None)
    if not (isinstance(kind, str) and kind in UNITS):
        raise Fault(
            later(
                "{it} has the PRUNING_TYPE {kind!r}: set it to 'unstructured', 'structured' or "
                "'global'"
            ),
            kind=kind,
        )
    fields = fields_of(plugin)
    taken = TAKEN | PluginMethod.__class_vars__ | set(dir(PluginMethod))
    for name in fields:
        if name in taken or name.startswith(("_", "model_")):
            raise Fault(
                later("{it} has a parameter {name!r}, a name that every step uses: rename it"),
                name=name,
            )
    added: dict[str, Any] = {"seed": (Seed, 0)}
    if kind != "structured":
        added = {"scope": (Scope, "global" if kind == "global" else "local"), **added}
    method = create_model(
        plugin.__name__,
        __base__=PluginMethod,
        __doc__=plugin.__doc__ or tr("Prune as {plugin} does.", plugin=plugin.__name__),
        **{**fields, **added, **fields},
    )
    method.plugin, method.takes, method.source = plugin, frozenset(fields), source
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plugin.__name__)
    method.name, method.unit = words.lower(), UNITS[kind]
    method.title = words.replace("_", " ").capitalize()
    if not any(field.is_required() for field in method.model_fields.values()):
        try:
            method().try_out()
        except ValidationError as error:
            [problem, *_] = error.errors()
            raise Fault(
                later(
                    "{it} has a parameter {name!r} whose default is no value of its type: {reason}"
                ),
                name=problem["loc"][0],
                reason=in_words(problem),
            ) from error
    return method


def _shown(target: Target) -> tuple[Tensor, Tensor | None]:
    """Return a copy of the weights, +0 where pruned before, and where they are still there.

    The copy may be written to, and is of a type that torch computes in.
    """
    t = target.weights.part(0, target.size).reshape(target.shape)
    t = t.float() if t.dtype.itemsize == 1 else t.clone()
    if target.alive is None:
        return t, None
    there = torch.from_numpy(target.alive(0, target.size)).reshape(target.shape)
    return t.masked_fill_(~there, 0.0), there
