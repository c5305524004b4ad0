"""The class of a plug-in as a method of recipes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial, reduce
from io import BufferedRandom
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from prune_gui.errors import PluginError, RecipeError
from prune_gui.isolated.processes import anonymous_file
from prune_gui.language import tr
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks
from prune_gui.pruning.decisions.target import Decision, Target, all_targets
from prune_gui.pruning.methods.base import Method
from prune_gui.pruning.methods.fields import MethodGroup, RankingScope, Scope, Seed, Unit
from prune_gui.pruning.plugins.constructor_fields import field_of
from prune_gui.pruning.plugins.faults import Fault, raise_fault
from prune_gui.pruning.plugins.plugin_process import PluginProcess
from prune_gui.pruning.predicates import PackedMask, PluginMask
from prune_gui.pruning.selection.keys import RandomKeys
from prune_gui.pruning.validation_messages import validation_message

UNITS: Final[dict[str, Unit]] = {
    "unstructured": "entry",
    "structured": "channel",
    "global": "entry",
}
COPIES: Final = 3
"""Tensors of the size of the scores in memory at once: scores, default mask, and returned mask."""
STEP_FIELDS: Final = frozenset({"method", "targets", "enabled", "scope"})
"""Names of step fields, which a method parameter cannot have."""
MAX_NAME_LENGTH: Final = 100
"""In characters."""
LIMIT_S: Final = 60.0
LIMIT_S_PER_ELEMENT: Final = 1e-5
"""Timeout for a mask, plus that much per element: 100 times the time to sort them."""


class PluginMethod(Method):
    """Base of the methods that `method_from` makes from the classes of plug-ins.

    The plug-in gets all of a target that no earlier step pruned, of other targets the part that its
    `PRUNING_TYPE` selects, as in torch; with scope global, all targets as one vector, as in
    `torch.nn.utils.prune.global_unstructured`. Elements that earlier steps pruned stay pruned
    whatever its mask holds. Random numbers depend on the seed and on the name of the target.
    """

    model_config = ConfigDict(strict=True, defer_build=False)  # refuses invalid fields at once

    method_group: ClassVar[MethodGroup] = "plugins"
    plugin: ClassVar[str]
    """Name of the class, a subclass of the `BasePruningMethod` of torch or of this package."""
    process: ClassVar[PluginProcess]
    """The process that has the class."""
    takes: ClassVar[frozenset[str]]
    """Names of the fields that its constructor takes."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Compute a mask per target, or one for all targets with scope global."""
        decisions = []
        with monitor.in_charge(), monitor.plan(sum(target.weights.nbytes for target in targets)):
            is_global = self.ranking_scope == "global"
            for group in monitor.each([targets] if is_global else [[one] for one in targets]):
                mask = PackedMask(partial(self._pruned, group), f"{self.title} ({self.source})")
                first = 0
                for target in group:
                    predicate = PluginMask(mask, first)
                    pruned = int(predicate.prunes(0, target.size).sum())
                    decisions.append(Decision(predicate, pruned))
                    monitor.advance(target.weights.nbytes)
                    first += target.size
        return decisions

    def try_out(self) -> None:
        """Check that the plug-in returns valid and reproducible masks for small tensors."""
        self.process.ask(self._request("try", 0, ""), LIMIT_S)

    @property
    def ranking_scope(self) -> RankingScope:
        """Whether the plug-in gets all targets as one vector."""
        return "global" if dict(self).get("scope") == "global" else "local"

    def _request(self, what: str, count: int, stream: str) -> dict[str, Any]:
        return {
            "do": what,
            "class": self.plugin,
            "given": {name: value for name, value in self if name in self.takes},
            "seed": int(RandomKeys(dict(self)["seed"], stream, count).stream),
            "threads": torch.get_num_threads(),
        }

    def _pruned(self, group: Sequence[Target]) -> NDArray[np.bool_]:
        """Return a boolean array over the concatenated targets, True where this step prunes."""
        try:
            return self._request_mask(group)
        except Fault as fault:
            problem = fault.of(self.plugin)
        # Raised outside the handler: a chained error would keep whole tensors alive.
        raise RecipeError(
            "{of}: {problem} (from {source}).",
            of=all_targets() if self.ranking_scope == "global" else group[0].name,
            problem=problem,
            source=self.source,
        )

    def _request_mask(self, group: Sequence[Target]) -> NDArray[np.bool_]:
        if any(field.is_required() for field in type(self).model_fields.values()):
            self.try_out()  # not possible at loading, without the required fields
        is_global = self.ranking_scope == "global"
        dtypes = [_shown_dtype(target) for target in group]
        sizes = [target.size for target in group]
        lack = shortage(
            sum(size * (COPIES * d.itemsize + 1) for size, d in zip(sizes, dtypes, strict=True))
        )
        if lack is not None:
            raise Fault("too_large_as_one" if is_global else "too_large", lack=lack)
        count = sum(sizes)
        if is_global:
            request = self._request("mask", count, "") | {"name": "temp", "shape": [count]}
        else:
            [target] = group
            name = target.name
            request = self._request("mask", count, name)
            request |= {"name": name.rpartition(".")[2], "shape": target.shape}
        pruned_before = is_global or group[0].remaining_mask is not None
        dtype = reduce(torch.promote_types, dtypes)
        request |= {"dtype": str(dtype).removeprefix("torch."), "pruned_before": pruned_before}
        kept = np.empty(count, np.uint8)
        try:
            with anonymous_file() as file:
                pruned = _write(file, group, dtype)
                if pruned_before:
                    file.write(pruned.data)
                file.flush()
                if count:
                    self.process.ask(request, LIMIT_S + count * LIMIT_S_PER_ELEMENT, file)
                file.seek(0)
                if file.readinto(kept.data) != count or kept.max(initial=0) > 1:
                    raise Fault("bad_answer")
        except OSError as error:
            raise Fault("no_scores", reason=error.strerror or str(error)) from error
        pruned &= kept == 0  # the remaining elements that the mask does not keep
        return pruned


def method_from(
    process: PluginProcess, described: dict[str, Any], source: str
) -> type[PluginMethod]:
    """Return a method of recipes for a class, tried with its default parameters if all have one."""
    name = described.get("name") if isinstance(described, dict) else None
    if not (isinstance(name, str) and name.isidentifier() and len(name) <= MAX_NAME_LENGTH):
        raise Fault("bad_answer")
    try:
        raise_fault(described)
        method = _create_method(name, described)
        method.process, method.source = process, source
        if not any(field.is_required() for field in method.model_fields.values()):
            _with_defaults(method).try_out()
    except Fault as fault:
        problem = fault.of(name)
    else:
        return method
    raise PluginError(
        "{source}: {problem}. Correct it, and load it again.", source=source, problem=problem
    )


def _create_method(plugin: str, described: dict[str, Any]) -> type[PluginMethod]:
    reserved = STEP_FIELDS | PluginMethod.__class_vars__ | set(dir(PluginMethod))
    try:
        kind = described["kind"]
        doc = described["doc"] or tr("Prune with {plugin}.", plugin=plugin)
        unit = UNITS[kind]
        fields: dict[str, Any] = {}
        for parameter in described["parameters"]:
            name = parameter["name"]
            if not name.isidentifier():
                raise ValueError(name)  # noqa: TRY301
            if name in reserved or name.startswith(("_", "model_")):
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
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plugin)
    method.name, method.unit = snake_case.lower(), unit
    method.title = snake_case.replace("_", " ").capitalize()
    return method


def _with_defaults(method: type[PluginMethod]) -> PluginMethod:
    try:
        return method()
    except ValidationError as error:
        [problem, *_] = error.errors()
        raise Fault(
            "default", name=str(problem["loc"][0]), reason=validation_message(problem)
        ) from error


def _shown_dtype(target: Target) -> torch.dtype:
    """Return the dtype in which the plug-in gets a target: float32 for 8-bit weights."""
    dtype = target.weights.dtype
    return torch.float if dtype.itemsize == 1 else dtype


def _write(file: BufferedRandom, group: Sequence[Target], dtype: torch.dtype) -> NDArray[np.bool_]:
    """Write the weights of targets, +0 where pruned before; return which elements remain."""
    kept = np.ones(sum(target.size for target in group), np.bool_)
    first = 0
    for target in group:
        for start, stop in chunks(target.size):
            chunk = target.weights.part(start, stop).to(dtype, copy=True)
            if target.remaining_mask is not None:
                remaining = kept[first + start : first + stop]
                remaining[:] = target.remaining_mask(start, stop)
                chunk.masked_fill_(~torch.from_numpy(remaining), 0.0)
            file.write(chunk.view(torch.uint8).numpy().data)
        first += target.size
    return kept
