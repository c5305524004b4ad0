"""A plug-in's class as a method of recipes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial, reduce
from io import BufferedRandom
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from prune_gui.errors import PluginError, RecipeError
from prune_gui.language import tr
from prune_gui.memory import shortage
from prune_gui.pruning.methods.base import Decision, Method, Scope, Seed, Target, all_targets
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.plugins.faults import Fault
from prune_gui.pruning.plugins.fields import field_of
from prune_gui.pruning.plugins.process import PluginProcess, raise_fault, shared_file
from prune_gui.pruning.predicates import PackedMask, PluginMask
from prune_gui.pruning.selection.keys import RandomKeys
from prune_gui.pruning.validation_messages import validation_message

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor

UNITS: Final[dict[str, Literal["entry", "channel"]]] = {
    "unstructured": "entry",
    "structured": "channel",
    "global": "entry",
}
COPIES: Final = 3
"""Of the scores at once: what the plug-in is shown, the default mask, and its own."""
FLOAT: Final = 4
"""Bytes of an entry as it is shown, if the file keeps it in one."""
TAKEN: Final = frozenset({"method", "targets", "enabled", "scope"})
"""What a step has beside the parameters of its method."""
LONGEST_NAME: Final = 100
"""Characters."""
LIMIT_S: Final = 60.0
LIMIT_S_PER_ENTRY: Final = 1e-5
"""How long a plug-in may take for a mask: to sort the entries takes a hundredth of that."""


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

    plugin: ClassVar[str]
    """The name of the class; one on torch's own base is as good as one on ours."""
    process: ClassVar[PluginProcess]
    """Where the class is."""
    takes: ClassVar[frozenset[str]]
    """Those of the fields that its constructor takes."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Make the mask of each target, or one of all."""
        decisions = []
        with monitor.in_charge(), monitor.plan(sum(target.weights.nbytes for target in targets)):
            for group in [targets] if self._as_one else [[target] for target in targets]:
                monitor.advance()
                mask = PackedMask(partial(self._pruned, group), f"{self.title} ({self.source})")
                first = 0
                for target in group:
                    made = PluginMask(mask, first)
                    decisions.append(Decision(made, int(made.prunes(0, target.size).sum())))
                    monitor.advance(target.weights.nbytes)
                    first += target.size
        return decisions

    def try_out(self) -> None:
        """Have it make masks of small tensors: are they masks, and the same if made again?

        Raises:
            Fault: they are not, or do not, or the plug-in makes none of any.
        """
        self.process.ask(self._request("try", 0, ""), LIMIT_S)

    @property
    def _as_one(self) -> bool:
        return dict(self).get("scope") == "global"

    def _request(self, what: str, count: int, stream: str) -> dict[str, Any]:
        """Return what to ask for, with the seed for `count` random numbers."""
        return {
            "do": what,
            "class": self.plugin,
            "given": {name: value for name, value in self if name in self.takes},
            "seed": int(RandomKeys(dict(self)["seed"], stream, count).stream),
            "threads": torch.get_num_threads(),
        }

    def _pruned(self, group: Sequence[Target]) -> NDArray[np.bool_]:
        """Return which entries of some targets, one target after the other, this step prunes.

        Raises:
            RecipeError: the plug-in makes no mask.
        """
        try:
            return self._made(group)
        except Fault as fault:
            problem = fault.of(self.plugin)
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
        """Refuse what cannot fit.

        Raises:
            Fault: there is too little memory.
        """
        needed = 0
        for target in group:
            width = target.weights.dtype.itemsize
            needed += target.size * (COPIES * (width if width > 1 else FLOAT) + 1)
        lack = shortage(needed)
        if lack is not None:
            raise Fault("too_large_as_one" if self._as_one else "too_large", lack=lack)

    def _made(self, group: Sequence[Target]) -> NDArray[np.bool_]:
        if any(field.is_required() for field in type(self).model_fields.values()):
            self.try_out()  # as could not be done when it was loaded
        self._check_room(group)
        count = sum(target.size for target in group)
        if self._as_one:
            request = self._request("mask", count, "") | {"name": "temp", "shape": [count]}
        else:
            [target] = group
            name = target.name
            request = self._request("mask", count, name)
            request |= {"name": name.rpartition(".")[2], "shape": target.shape}
        pruned_before = self._as_one or group[0].remaining_mask is not None
        dtype = reduce(torch.promote_types, [_shown_dtype(target) for target in group])
        request |= {"dtype": str(dtype).removeprefix("torch."), "pruned_before": pruned_before}
        kept = np.empty(count, np.uint8)
        try:
            with shared_file() as file:
                there = _write(file, group, dtype)
                if pruned_before:
                    file.write(there.data)
                file.flush()
                if count:
                    self.process.ask(request, LIMIT_S + count * LIMIT_S_PER_ENTRY, file)
                file.seek(0)
                if file.readinto(kept.data) != count or kept.max(initial=0) > 1:
                    raise Fault("bad_answer")
        except OSError as error:
            raise Fault("no_scores", reason=error.strerror or str(error)) from error
        there &= kept == 0
        return there


def method_from(
    process: PluginProcess, described: dict[str, Any], source: str
) -> type[PluginMethod]:
    """Return a class as a method of recipes, once it has made a few masks.

    A class whose constructor needs what only a recipe can say is tried when a step first uses it.

    Args:
        process: where the class is.
        described: what that says of it.
        source: where it comes from.

    Raises:
        PluginError: it is no method that a recipe can use; the message says why.
        Fault: the description is none.
    """
    name = described.get("name") if isinstance(described, dict) else None
    if not (isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST_NAME):
        raise Fault("bad_answer")
    try:
        raise_fault(described)
        method = _model(name, described)
        method.process, method.source = process, source
        if not any(field.is_required() for field in method.model_fields.values()):
            _with_defaults(method).try_out()
    except Fault as fault:
        problem = fault.of(name)
    else:
        return method
    raise PluginError(
        tr("{source}: {problem}. Mend it, and load it again.", source=source, problem=problem)
    )


def _model(plugin: str, described: dict[str, Any]) -> type[PluginMethod]:
    """Return a class of methods for the class of that name.

    Raises:
        Fault: it cannot be one, or the description is none.
    """
    taken = TAKEN | PluginMethod.__class_vars__ | set(dir(PluginMethod))
    try:
        kind, doc = (
            described["kind"],
            described["doc"] or tr("Prune as {plugin} does.", plugin=plugin),
        )
        unit = UNITS[kind]
        fields: dict[str, Any] = {}
        for parameter in described["parameters"]:
            name = parameter["name"]
            if not name.isidentifier():
                raise ValueError(name)  # noqa: TRY301
            if name in taken or name.startswith(("_", "model_")):
                raise Fault("parameter_name", name=name)
            fields[name] = field_of(plugin, parameter)
        added: dict[str, Any] = {"seed": (Seed, 0)}
        if kind != "structured":
            added = {"scope": (Scope, "global" if kind == "global" else "local"), **added}
        method = create_model(
            plugin, __base__=PluginMethod, __doc__=str(doc), **{**fields, **added, **fields}
        )
    except (AttributeError, KeyError, NameError, TypeError, ValueError, RecursionError,
            PydanticUserError, SchemaError) as error:  # fmt: skip
        raise Fault("bad_answer") from error
    method.plugin, method.takes = plugin, frozenset(fields)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plugin)
    method.name, method.unit = words.lower(), unit
    method.title = words.replace("_", " ").capitalize()
    return method


def _with_defaults(method: type[PluginMethod]) -> PluginMethod:
    """Return a method as it is unless told otherwise.

    Raises:
        Fault: a default is no value of its type.
    """
    try:
        return method()
    except ValidationError as error:
        [problem, *_] = error.errors()
        raise Fault(
            "default", name=str(problem["loc"][0]), reason=validation_message(problem)
        ) from error


def _shown_dtype(target: Target) -> torch.dtype:
    """Return a type that torch computes in, and that holds the weights."""
    dtype = target.weights.dtype
    return torch.float if dtype.itemsize == 1 else dtype


def _write(file: BufferedRandom, group: Sequence[Target], dtype: torch.dtype) -> NDArray[np.bool_]:
    """Write the weights of targets, +0 where pruned before; return where they are still there."""
    kept = np.ones(sum(target.size for target in group), np.bool_)
    first = 0
    for target in group:
        for start, stop in chunks(target.size):
            part = target.weights.part(start, stop).to(dtype, copy=True)
            if target.remaining_mask is not None:
                there = kept[first + start : first + stop]
                there[:] = target.remaining_mask(start, stop)
                part.masked_fill_(~torch.from_numpy(there), 0.0)
            file.write(part.view(torch.uint8).numpy().data)
        first += target.size
    return kept
