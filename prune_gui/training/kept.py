"""Masks that hold during training: one hook on the optimizer, and nothing in the model."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from prune_gui.checkpoint.opening import open_checkpoint
from prune_gui.errors import TrainingError
from prune_gui.recipe.recipe import Recipe, pruned_before
from prune_gui.recipe.resolution import resolve
from prune_gui.training import cuts
from prune_gui.training.mask_report import MaskReport
from prune_gui.training.names import named_parameters, plain_name
from prune_gui.training.packed_mask import PackedMask
from prune_gui.training.ranks import Ranks, is_sharded, local, local_part, whole
from prune_gui.training.run_folder import Event, RunWriter, writing_to
from prune_gui.training.schedules import Rewind, Schedule, Update, one_shot

MASKS: Final = "masks.safetensors"
STEP: Final = "step"

Source = Recipe | str | os.PathLike[str] | Mapping[str, Tensor] | None


class Kept:
    """The masks of a model in training, made by `keep`. A context manager that ends with `close`.

    After each optimizer step, the pruned elements of the weights and of the optimizer's state are
    0, and what the schedule says is pruned. It is stateful in the sense of
    `torch.distributed.checkpoint`, too.

    Attributes:
        step: optimizer steps since the start.
        masks: by name of a parameter, of the part that this process holds.
        loss: set it to have it in the film of the run; see `prune_gui.training.Run`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        recipe: Recipe | None,
        schedule: Schedule,
        schedulers: Iterable[Any],
        seed: int,
    ) -> None:
        self.step = 0
        self.loss: float | None = None
        self.masks: dict[str, PackedMask] = {}
        self._model, self._optimizer, self._recipe = model, optimizer, recipe
        self._schedule = schedule
        self._schedulers = tuple(schedulers)
        self._seed = seed
        steps = (update.rewind_to for update in schedule)
        self._rewound_to = {step for step in steps if step is not None}
        self._snapshots: dict[int, bytes] = {}
        self._is_filmed = False
        self._run: RunWriter | None = None  # of the first process
        hook = torch.compiler.disable(self._after_step)  # type: ignore[no-untyped-call]
        self._hook = optimizer.register_step_post_hook(hook)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop keeping the masks. The weights are as after the last step."""
        self._hook.remove()

    def apply(self, model: nn.Module | None = None) -> None:
        """Set the pruned elements of a model to 0, in place.

        For a model that was averaged over steps, or into which adapters were merged: (W + BA) * M
        is W + (BA) * M for a pruned W. By default, for the model in training and its optimizer.

        Raises:
            TrainingError: the model has no such parameter, or of another shape.
        """
        parameters = named_parameters(model or self._model)
        for name, mask in self.masks.items():
            parameter = _parameter(parameters, name)
            own = local(parameter)
            if own.shape != mask.shape:
                raise TrainingError(
                    "{name} is {shape} here, but its mask is {mask}.",
                    name=name,
                    shape=list(own.shape),
                    mask=list(mask.shape),
                )
            state = [] if model else _elementwise(self._optimizer.state.get(parameter), parameter)
            mask.clear(own, *state)

    def prune(self, recipe: Recipe) -> None:
        """Prune by a recipe, on top of the masks.

        Raises:
            RecipeError: a step cannot be applied; nothing is changed.
        """
        self._use(cuts.prune(recipe, named_parameters(self._model), self.masks), "pruned")

    def rewind(self, step: int, what: Rewind = "weights") -> None:
        """Restore what the model was trained to at a step, under the masks of now.

        Args:
            step: one that the schedule rewinds to.
            what: see `Update.rewind`.

        Raises:
            TrainingError: nothing is stored of that step.
        """
        if step not in self._snapshots:
            raise TrainingError(
                "Nothing is stored of step {step}. It must be a step that the schedule rewinds to.",
                step=step,
            )
        octets = io.BytesIO(self._snapshots[step])
        stored = torch.load(octets, map_location="cpu", weights_only=True)
        state = self._optimizer.state_dict()
        if what != "learning_rate":
            self._model.load_state_dict(stored["model"])
            state["state"] = stored["optimizer"]["state"]
        if what != "weights":
            state["param_groups"] = stored["optimizer"]["param_groups"]
            for scheduler, old in zip(self._schedulers, stored["schedulers"], strict=True):
                scheduler.load_state_dict(old)
        self._optimizer.load_state_dict(state)
        self.apply()

    def report(self) -> list[MaskReport]:
        """Return what each mask prunes; all processes of a distributed run must call it."""
        parameters = named_parameters(self._model)
        result = []
        for name, mask in self.masks.items():
            parameter = _parameter(parameters, name)
            revived = int((local(parameter)[mask.pruned()] != 0).count_nonzero())
            counts = torch.tensor([mask.count, revived], device=mask.bits.device)
            pruned, revived = Ranks([parameter]).total(counts).tolist()
            result.append(MaskReport(name, pruned, parameter.numel(), revived))
        return result

    def state_dict(self) -> dict[str, Any]:
        """Return the step and the whole masks, packed; all processes must call it."""
        parameters = named_parameters(self._model)
        masks = {}
        for name, mask in self.masks.items():
            whole = cuts.whole_mask(mask, _parameter(parameters, name))
            masks[name] = PackedMask.of(whole.cpu()).bits
        return {STEP: self.step, "masks": masks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of `state_dict`, on any number of processes.

        Raises:
            TrainingError: a mask does not fit the model; nothing is changed.
        """
        parameters = named_parameters(self._model)
        masks = {}
        for name, bits in state["masks"].items():
            parameter = _parameter(parameters, name)
            if bits.numel() != -(-parameter.numel() // 8):
                raise TrainingError(
                    "The mask of {name} is not of its shape, {shape}.",
                    name=name,
                    shape=list(parameter.shape),
                )
            pruned = PackedMask(parameter.shape, bits).pruned()
            masks[name] = _distributed(pruned, parameter)
        self.masks, self.step = masks, state[STEP]
        self.apply()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the masks, and what may be rewound to, into a folder. Returns the file of masks.

        All processes of a distributed run must call it.

        Raises:
            TrainingError: the folder cannot be written.
        """
        path = Path(folder)
        state = self.state_dict()
        with writing_to(path):
            path.mkdir(parents=True, exist_ok=True)
            for step, octets in self._snapshots.items():
                _replace(_snapshot(path, step), partial(Path.write_bytes, data=octets))
            if _rank() == 0:
                metadata = {STEP: str(self.step)}
                _replace(path / MASKS, lambda part: save_file(state["masks"], part, metadata))
        if any(map(is_sharded, self._model.parameters())):
            torch.distributed.barrier()  # any process may read them now
        return path / MASKS

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Go on from what `save` wrote.

        Raises:
            TrainingError: it cannot be read, or does not fit the model; nothing is changed.
        """
        path = Path(folder) / MASKS
        try:
            with safe_open(path, "pt") as file:
                masks = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                step = int(file.metadata()[STEP])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise TrainingError(
                "{path} cannot be read as masks of a run: {reason}.", path=path, reason=error
            ) from error
        self.load_state_dict({STEP: step, "masks": masks})
        for wanted in self._rewound_to:
            if (stored := _snapshot(Path(folder), wanted)).exists():
                self._snapshots[wanted] = stored.read_bytes()

    def _after_step(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        found_inf = getattr(optimizer, "found_inf", None)  # of a GradScaler: a fused step skips
        if found_inf is not None and found_inf.item():
            return
        self.step += 1
        self._update()
        self.apply()

    def _update(self) -> None:
        if self.step in self._rewound_to and self.step not in self._snapshots:
            self._snapshots[self.step] = self._stored()
        for update in self._schedule:
            if update.step == self.step:
                self._apply_update(update)

    def _apply_update(self, update: Update) -> None:
        prunes = update.sparsity is not None or not update.replaced
        if prunes and self._recipe is not None:
            self.prune(cuts.at_sparsity(self._recipe, update.sparsity))
        if update.replaced:
            self._replace_elements(update)
        if update.rewind_to is not None:
            self.rewind(update.rewind_to, update.rewind)

    def _replace_elements(self, update: Update) -> None:
        parameters = named_parameters(self._model)
        generator = torch.Generator().manual_seed(self._seed + self.step)
        masks = {}
        for name, mask in self.masks.items():
            parameter = _parameter(parameters, name)
            scores = parameter.grad
            if update.growth == "random" or scores is None:
                own = local(parameter)
                scores = torch.rand(own.shape, generator=generator).to(own.device)
            masks[name], _ = cuts.replace(parameter, mask, update.replaced, scores)
        self._use(masks, "replaced")

    def _use(self, masks: dict[str, PackedMask], event: Event) -> None:
        """Grown elements begin at 0, with a state of 0: the old masks hold once more."""
        self.apply()
        self.masks = masks
        self.apply()
        if self._is_filmed:
            whole_masks = self.state_dict()["masks"]
            parameters = named_parameters(self._model)
            if self._run is not None:
                shapes = {name: p.shape for name, p in parameters.items() if name in masks}
                bits = {name: whole_masks[name].numpy() for name in shapes}
                self._run.add(self.step, event, bits, shapes, self.loss)

    def _stored(self) -> bytes:
        buffer = io.BytesIO()
        content = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "schedulers": [scheduler.state_dict() for scheduler in self._schedulers],
        }
        torch.save(content, buffer)
        return buffer.getvalue()


def keep(
    model: nn.Module,
    optimizer: Optimizer,
    source: Source = None,
    *,
    schedule: Schedule | None = None,
    schedulers: Iterable[Any] = (),
    resume: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    seed: int = 0,
    run: str | os.PathLike[str] | None = None,
) -> Kept:
    """Keep what is pruned at 0 while a model is trained, and prune it further by a schedule.

    The model has no further tensors and no wrapper, so that saving, compiling and exporting work as
    without masks. Masks take one bit per weight.

    Example::

        kept = prune_gui.training.keep(model, optimizer, "pruned.safetensors")
        recipe = prune_gui.Recipe.load("global.yaml")
        schedule = prune_gui.training.cubic(0.0, 0.7, steps=10_000, every=100)
        kept = prune_gui.training.keep(model, optimizer, recipe, schedule=schedule)

    Args:
        model: any module; with `fully_shard`, after it was called.
        optimizer: whose steps count; one that wraps another in an attribute ``optimizer``, too.
        source: what is pruned: a recipe; a file of one (.yaml); a checkpoint, whose masks count,
            else what this program pruned in it, else the zeros of its matrices; masks by name,
            True where kept; None: the zeros of the model's matrices, without those of LoRA.
        schedule: when a recipe is applied, and how far; by default at once, as the recipe says.
        schedulers: of the learning rate, which rewinding restores.
        resume: a folder of `Kept.save`, or a state of `Kept.state_dict`, to go on from.
        seed: of random growth.
        run: a folder that gets the film of the run: each change of the masks, see `Run`.

    Raises:
        TrainingError: a mask does not fit the model, or a schedule needs a recipe.
        RecipeError: a step cannot be applied.
        CheckpointError: the file cannot be read.
    """
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    parameters = named_parameters(model)
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix in (".yaml", ".yml"):
        source = Recipe.load(source)
    recipe = source if isinstance(source, Recipe) else None
    masks = {} if isinstance(source, Recipe) else _masks(source, parameters)
    if recipe is None and any(update.sparsity is not None for update in schedule or ()):
        raise TrainingError("The schedule prunes further: give a recipe, which says by what.")
    if schedule is None:
        schedule = one_shot() if recipe else ()
    kept = Kept(model, optimizer, recipe, schedule, schedulers, seed)
    try:
        if isinstance(resume, Mapping):
            kept.load_state_dict(resume)
        elif resume is not None:
            kept.load(resume)
        if run is not None:
            kept._is_filmed = True
            resumed_at = None if resume is None else kept.step
            kept._run = RunWriter(run, resumed_at) if _rank() == 0 else None
        if resume is None:
            pruned = {name: _distributed(~one, parameters[name]) for name, one in masks.items()}
            kept._use(pruned, "start")
            kept._update()
    except BaseException:
        kept.close()
        raise
    return kept


def _masks(
    source: str | os.PathLike[str] | Mapping[str, Tensor] | None,
    parameters: Mapping[str, nn.Parameter],
) -> dict[str, Tensor]:
    """Return whole masks of parameters, bool, True where kept; only such as prune something."""
    if source is None:
        matrices = ((n, p) for n, p in parameters.items() if p.dim() > 1 and ".lora_" not in n)
        masks = {name: whole(p.detach()) != 0 for name, p in matrices}
    elif isinstance(source, Mapping):
        masks = {name: mask.bool() for name, mask in source.items()}
        for name, mask in source.items():
            if not torch.equal(mask, masks[name].to(mask.dtype)):
                raise TrainingError("The mask of {name} has values besides 0 and 1.", name=name)
    else:
        masks = _masks_of_file(source)
    masks = {plain_name(name): mask for name, mask in masks.items()}
    for name, mask in masks.items():
        parameter = _parameter(parameters, name)
        if mask.shape != parameter.shape:
            raise TrainingError(
                "The mask of {name} is {mask}, but the parameter is {shape}.",
                name=name,
                mask=list(mask.shape),
                shape=list(parameter.shape),
            )
    return {name: mask for name, mask in masks.items() if not bool(mask.all())}


def _masks_of_file(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    with open_checkpoint(path) as checkpoint:
        has_masks = any(info.pair for info in checkpoint.tensors.values())
        is_told = has_masks or bool(pruned_before(checkpoint.metadata))
        resolution = resolve(Recipe(start="dense" if is_told else "zeros"), checkpoint)
        masks = {
            name: resolution.mask(name)
            for name, (pruned, _) in resolution.counts.items()
            if pruned and (is_told or len(checkpoint.tensors[name].shape) > 1)
        }
    if not masks:
        raise TrainingError("Nothing is pruned in {path}.", path=Path(path))
    return masks


def _distributed(pruned: Tensor, parameter: Tensor) -> PackedMask:
    return PackedMask.of(local_part(pruned.to(parameter.device), parameter))


def _parameter(parameters: Mapping[str, nn.Parameter], name: str) -> nn.Parameter:
    if name not in parameters:
        raise TrainingError(
            "The model has no parameter {name}; its first is {first}.",
            name=name,
            first=next(iter(parameters), "-"),
        )
    return parameters[name]


def _elementwise(state: Mapping[str, Any] | None, parameter: Tensor) -> Iterator[Tensor]:
    """Yield the tensors of an optimizer's state that have a value for each element."""
    for value in (state or {}).values():
        if isinstance(value, Tensor) and value.shape == parameter.shape and parameter.dim():
            yield local(value)


def _rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_initialized() else 0


def _snapshot(folder: Path, step: int) -> Path:
    return folder / f"step-{step}-rank-{_rank()}.pt"


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_suffix(".part")
    write(part)
    part.replace(path)
