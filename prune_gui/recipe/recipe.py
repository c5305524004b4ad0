"""The recipe: an ordered, immutable list of steps, and its file format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from prune_gui.errors import RecipeError
from prune_gui.language import suggestion, tr
from prune_gui.pruning.methods import METHODS, Method
from prune_gui.pruning.methods.fields import FileName, FilePath
from prune_gui.pruning.plugins import use_installed
from prune_gui.pruning.validation_messages import telling, validation_message
from prune_gui.recipe.selector import Pattern
from prune_gui.regular_files import read_regular

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


MAX_STEPS = 250  # `Resolution.pruned_by` stores step numbers in a uint8, and reserves a few values
MAX_PROBLEMS = 5  # limit on the problems reported in one message
KEPT: Final = 0
IN_FILE: Final = 255
"""Pruned in the opened file, before the first step. All other codes are step numbers."""
ZERO: Final = 254
"""Zero in the opened file, and pruned by no step; only in `Resolution.marking_zeros`."""


def _is_pattern(text: str) -> str:
    try:
        Pattern.parse(text)
    except RecipeError as error:
        raise ValueError(str(error)) from error
    return text


PatternText = Annotated[str, StringConstraints(min_length=1), AfterValidator(_is_pattern)]


class Step(BaseModel):
    """A method with its parameters, and its targets. In a recipe file they are one flat mapping.

    Attributes:
        method: the method; in the flat mapping, ``method`` is its name and its parameters are
            further keys.
        targets: shell globs over parameter names, and conditions; ``!`` excludes.
        enabled: a disabled step keeps its position in the recipe and prunes nothing.
    """

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", ser_json_inf_nan="constants"
    )

    method: SerializeAsAny[Method]
    targets: Annotated[tuple[PatternText, ...], Field(min_length=1)]
    enabled: bool = True

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping) or isinstance(value.get("method"), Method):
            return value
        own = {key: value[key] for key in value if key in ("targets", "enabled")}
        parameters = {key: value[key] for key in value if key not in ("method", *own)}
        name = value.get("method")
        if isinstance(name, str) and name not in METHODS:
            use_installed()
        if not isinstance(name, str) or name not in METHODS:
            raise ValueError(
                tr(
                    "method: {name!r} is unknown{suggestion}; prune-gui methods lists all of them. "
                    "If it is your own method, load its file first: --methods FILE on the command "
                    "line, Prune > Load methods from a file in the window",
                    name=name,
                    suggestion=suggestion(str(name), METHODS),
                )
            )
        folder = info.context or Path()
        return {"method": METHODS[name].model_validate(parameters, context=folder), **own}

    @model_validator(mode="after")
    def _check_amounts(self) -> Self:
        for pattern in self.method.own_amounts:
            try:
                Pattern.parse(pattern)
            except RecipeError as error:
                raise ValueError(tr("amounts: {reason}", reason=error)) from error
        return self

    @model_serializer(mode="plain")
    def _to_flat(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"method": self.method.name, "targets": list(self.targets)}
        flat |= self.method.model_dump(mode="json")
        if not self.enabled:
            flat["enabled"] = False
        unused = self.method.unused_fields(dict(self.method))
        return {k: value for k, value in flat.items() if value is not None and k not in unused}


class Recipe(BaseModel):
    """An ordered list of steps. It is immutable; its methods return changed copies.

    Attributes:
        version: version of the file format.
        start: ``dense``, or ``zeros`` to count zeros already in the file as pruned.
        protect: patterns, like the targets of a step, for parameters that no step prunes.
        table: the file of a table of the architecture, which tells the coupled units; None for the
            tables of this program.
        steps: the steps, applied in order.
    """

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", ser_json_inf_nan="constants"
    )

    version: Literal[1] = 1
    start: Literal["dense", "zeros"] = "dense"
    protect: tuple[PatternText, ...] = ()
    table: FileName | None = None
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = serialize(self)
        defaults = {"protect": not self.protect, "table": self.table is None}
        return {name: value for name, value in fields.items() if not defaults.get(name)}

    @property
    def table_path(self) -> Path | None:
        """The file of the table of the architecture; None for the tables of this program."""
        return None if self.table is None else Path(self.table)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a recipe file; relative paths in it are resolved against its folder.

        Raises:
            RecipeError: the file cannot be read or is not a recipe.
        """
        from prune_gui.plain_yaml import MAX_BYTES  # yaml: slow to import

        path = Path(path)
        try:
            with RecipeError.on_os_error("{path}: the recipe cannot be read: {reason}.", path=path):
                text = read_regular(path, MAX_BYTES).decode()
        except UnicodeDecodeError as error:
            raise RecipeError(
                "{path}: the recipe cannot be read: it is not UTF-8 text.", path=path
            ) from error
        return cls.from_yaml(text, source=str(path), folder=path.parent)

    @classmethod
    def from_yaml(cls, text: str, *, source: str | None = None, folder: Path | None = None) -> Self:
        """Parse a recipe.

        Args:
            text: YAML.
            source: the name of the recipe in messages; None: "The recipe".
            folder: the folder against which relative paths are resolved; None: the current
                folder. The returned recipe has absolute paths.

        Raises:
            RecipeError: the text is not a recipe; the message names the line or the field.
        """
        import yaml  # slow to import

        from prune_gui.plain_yaml import load_yaml, not_yaml  # yaml: slow to import

        source = source or tr("The recipe")
        try:
            fields = load_yaml(text)
        except yaml.YAMLError as error:
            raise RecipeError(not_yaml(source, error, text)) from error
        if not isinstance(fields, dict):
            raise RecipeError(
                "{recipe}: not a recipe, which has fields such as version and steps.", recipe=source
            )
        return cls.validated(fields, source, folder)

    @classmethod
    def validated(cls, fields: dict[str, object], source: str, folder: Path | None) -> Self:
        """Return the recipe with the fields of a recipe file; see `from_yaml`."""
        try:
            return cls.model_validate(fields, context=folder or Path())
        except ValidationError as error:
            told = telling(error.errors(include_url=False), depth=3)  # steps, a number, a field
            explained = (_explain(problem, fields) for problem in told[:MAX_PROBLEMS])
            problems = tr("; ").join(dict.fromkeys(explained))
            raise RecipeError("{recipe}: {problems}.", recipe=source, problems=problems) from error

    def to_yaml(self) -> str:
        """Return the recipe as YAML, with paths as the user wrote them.

        With the same folder, `from_yaml` returns an equal recipe.

        Raises:
            RecipeError: the text is longer than `from_yaml` accepts.
        """
        from prune_gui.plain_yaml import dump_yaml  # yaml: slow to import

        return dump_yaml(self.model_dump(mode="json"))

    def renewed(self) -> Self:
        """Return the recipe validated again, with the methods that are registered now."""
        steps = [step.model_dump() | step.method.files for step in self.steps]
        fields = self.model_dump() | {"steps": steps, "table": self.table}
        return self.validated(fields, tr("The recipe"), None)

    def with_steps(self, steps: tuple[Step, ...]) -> Self:
        """Return a copy of the recipe with other steps.

        Raises:
            RecipeError: there are more than `MAX_STEPS` steps.
        """
        if len(steps) > MAX_STEPS:
            raise RecipeError("A recipe holds at most {most} steps.", most=MAX_STEPS)
        return self.model_copy(update={"steps": steps})

    def with_table(self, table: Path | None, folder: Path | None = None) -> Self:
        """Return a copy of the recipe with another table of the architecture.

        Args:
            table: the file of the table; None for the tables of this program.
            folder: the folder of the recipe file. The path of a table below it is relative.
        """
        if table is None:
            return self.model_copy(update={"table": None})
        full = FilePath.of(str(table), Path())
        if folder is not None and Path(full).is_relative_to(folder.absolute()):
            full = FilePath.of(str(Path(full).relative_to(folder.absolute())), folder)
        return self.model_copy(update={"table": full})

    def anchored(self) -> Self:
        """Return an equal recipe whose YAML has absolute paths, independent of its folder."""
        return self._with_paths(attrgetter("in_full"))

    def lying_in(self, folder: Path) -> Self:
        """Return an equal recipe for a file in `folder`: relative paths stay if they fit there."""
        return self._with_paths(methodcaller("seen_from", folder))

    def _with_paths(self, write: Callable[[FilePath], FilePath]) -> Self:
        steps = []
        for step in self.steps:
            files = {name: write(path) for name, path in step.method.files.items()}
            method = step.method.model_copy(update=files)
            steps.append(step.model_copy(update={"method": method}) if files else step)
        table = write(self.table) if isinstance(self.table, FilePath) else None
        return self.model_copy(update={"steps": tuple(steps), "table": table})


def _explain(problem: ErrorDetails, fields: Mapping[str, Any]) -> str:
    reason, location = validation_message(problem), problem["loc"]
    if problem["type"] == "extra_forbidden":
        reason += suggestion(str(location[-1]), _known_fields(location, fields))
    match location:
        case ("steps", int(index)):
            return tr("step {number}: {reason}", number=index + 1, reason=reason)
        case ("steps", int(index), field, *rest):
            field = f"amounts, {rest[0]}" if field == "amounts" and rest else field
            return tr(
                "step {number}, {field}: {reason}", number=index + 1, field=field, reason=reason
            )
        case (field, *_):
            return tr("{field}: {reason}", field=field, reason=reason)
    return reason


def _known_fields(location: tuple[int | str, ...], fields: Mapping[str, Any]) -> Iterable[str]:
    match location:
        case ("steps", int(index), _):
            method = METHODS[fields["steps"][index]["method"]]
            return [*Step.model_fields, *method.model_fields]
        case (_,):
            return Recipe.model_fields
    return ()


PREFIX: Final = "prune_gui."
ERRORS_KEY: Final = PREFIX + "reconstruction"
"""JSON, of a block of an unfinished reconstruction a `BlockError`; of the result all of them."""
INPUT_KEY: Final = f"{PREFIX}input"  # metadata: the fingerprint of the checkpoint that was pruned


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a file was made.

    Attributes:
        form: "finalized", "reparametrized", "masks" or "compact".
        problem: why the recipe cannot be parsed, in one line; "" if it can or is missing.
        calibration: "sha256:<hex>" of the data that a reconstruction used; "" without one.
        errors: of the layers that were reconstructed, see `LayerError.error`.
    """

    version: str
    form: str
    recipe: Recipe | None
    problem: str
    input: str
    pruned: Mapping[str, int]
    calibration: str = ""
    errors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: Mapping[str, str], folder: Path | None = None) -> Provenance | None:
        """Read the metadata of a file in a folder; None if this program did not write it."""
        own = {key.removeprefix(PREFIX): text for key, text in metadata.items()}
        if PREFIX + "version" not in metadata:
            return None
        recipe, problem = None, ""
        try:
            if "recipe" in own:
                recipe = Recipe.from_yaml(own["recipe"], folder=folder)
        except RecipeError as error:
            problem = str(error)
        form, made_of = own.get("form", ""), own.get("input", "")
        pruned, errors = _counts(own, "pruned"), reconstruction_errors(metadata)
        calibration = own.get("calibration", "")
        return cls(own["version"], form, recipe, problem, made_of, pruned, calibration, errors)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about the metadata for the user, one sentence each."""
        if not self.problem:
            return ()
        return (tr("The recipe in the metadata is ignored. {problem}", problem=self.problem),)


def pruned_before(metadata: Mapping[str, str]) -> Mapping[str, int]:
    """Return the number of zeros that this program wrote into each parameter of a file."""
    form = metadata.get(PREFIX + "form")
    if PREFIX + "version" not in metadata or form not in ("finalized", "masks", "compact"):
        return {}
    return _counts(metadata, PREFIX + "pruned")


def metadata_of(
    recipe: Recipe,
    form: str,
    input: str,  # noqa: A002 - as the field is called
    pruned: Mapping[str, int],
    folded: Mapping[str, int],
    recordings: Mapping[str, str],
) -> dict[str, str]:
    """Return the metadata to write into a file; `Provenance.of` reads them.

    Paths stay as the user wrote them, so that the file does not reveal those of this machine.
    """
    metadata = {
        PREFIX + "version": own_version(),
        PREFIX + "form": form,
        PREFIX + "recipe": recipe.to_yaml(),
        INPUT_KEY: input,
        PREFIX + "pruned": json.dumps(dict(pruned)),
    }
    optional = {"folded": folded, "recordings": recordings}
    return metadata | {
        PREFIX + key: json.dumps(dict(values)) for key, values in optional.items() if values
    }


@cache
def own_version() -> str:
    """Return the version of this program, cached so that later saves do not read it again."""
    try:
        return version("prune-gui")
    except PackageNotFoundError:  # it runs from a source folder, or the package is unreadable
        return "unknown"


def reconstruction_errors(metadata: Mapping[str, str]) -> Mapping[str, float]:
    """Return the error of each layer of a reconstructed file, see `LayerError.error`; or none."""
    try:
        blocks = json.loads(metadata[ERRORS_KEY])
        errors = {one["name"]: one["error"] for block in blocks for one in block["layers"]}
        return {name: float(error) for name, error in errors.items() if error is not None}
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}  # there are none, or another program wrote them


def _counts(metadata: Mapping[str, str], key: str) -> dict[str, int]:
    try:
        counts = json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if type(count) is int and count > 0}
