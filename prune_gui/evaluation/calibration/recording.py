"""Recording statistics of a network while the user's own loop runs it."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedParameter

from prune_gui.checkpoint import TensorWriter, open_checkpoint
from prune_gui.checkpoint.write.content import CHECKSUMS_KEY
from prune_gui.checkpoint.write.writing import FileOutput
from prune_gui.errors import CheckpointError, RecordingError
from prune_gui.evaluation.calibration.layer_inputs import (
    RUNNING_MEAN,
    RUNNING_VAR,
    InputChannels,
    batch_norm_names,
    has_rows,
    input_channels,
    parameter_names,
    second_moments,
    weight_of,
)
from prune_gui.evaluation.calibration.statistics import (
    ACTIVATIONS,
    BATCH_NORM,
    FISHER,
    MEANS,
    OF_GRADIENTS,
    OF_INPUTS,
    SECOND_MOMENTS,
    SHARED_SUMS,
    STATISTICS,
    TAYLOR,
    DeviceSums,
    LazyTensor,
    finished,
)
from prune_gui.language import deferred, join_items
from prune_gui.monitor import Monitor
from prune_gui.pruning.devices import find_device
from prune_gui.pruning.selection.scores import wide_dtype
from prune_gui.recipe.auxiliary_files import RECORDING_KEY
from prune_gui.recipe.recipe import own_version

SUFFIX: Final = ".safetensors"
NO_INPUTS: Final = deferred(
    "Nothing was recorded for {statistic}: no layer of a known type ran. Run the model inside the "
    "with block."
)
NO_GRADIENTS: Final = deferred(
    "Nothing was recorded for {statistic}: no parameter received a gradient. Call backward() of "
    "the loss inside the with block."
)


@contextmanager
def record(
    model: nn.Module, *statistics: str, device: str | torch.device | None = None
) -> Iterator[Recording]:
    """Record statistics of a model while the block runs it, for `Recording.save`.

    Example::

        with prune_gui.record(model, "activations", "obd") as recording:
            for batch in batches:
                model(**batch).loss.backward()
                model.zero_grad()
        recording.save("statistics")

    "activations" (Wanda), "ria" and "means" come from the inputs of `Linear`, `Conv`,
    `ConvTranspose` and `Embedding` modules, and of the `Conv1D` of transformers. Every vector
    counts, also that of a padding token. Embeddings have no means, and "second_moments" are those
    of `Linear`, `Conv` and `Conv1D`. "batch_norm" has the running means and variances of batch
    norms, as `torch.optim.swa_utils.update_bn` computes them, if the model is in training mode; in
    evaluation mode, each follows from batch norms with the old ones. "fisher", "obd" and "taylor"
    come from backward passes, each of which counts as one sample; see `gradient_scores`. Modules
    that `torch.compile` compiled run uncompiled in the block. Forward passes that activation
    checkpointing repeats do not count twice.

    Sums are kept on `device`: 8 bytes per input channel, 4 bytes per weight
    for fisher and obd together and for taylor, and 4 bytes times the square of the columns of each
    weight for second_moments, which go to the memory of the processor where that of the device is
    full.

    Args:
        model: the model whose names of parameters the files should have, as `state_dict` does.
        statistics: names from `STATISTICS`.
        device: where inputs and gradients are summed, such as "cuda:1", "cpu" or "gpu", any
            graphics card; None: where they are.

    Raises:
        DeviceError: there is no such device.
        RecordingError: a statistic is unknown, or nothing in the model can be recorded.
    """
    recording = Recording(model, statistics, device if device is None else find_device(device))
    with ExitStack() as hooks:
        recording._attach(hooks)
        yield recording
    recording._is_complete = True


class Recording:
    """The statistics of a model that a `record` block recorded."""

    def __init__(
        self, model: nn.Module, statistics: tuple[str, ...], device: torch.device | None = None
    ) -> None:
        _check(statistics)
        self._statistics = tuple(dict.fromkeys(statistics))
        self._model, self._device = model, device
        self._names = parameter_names(model)
        self._batch_norms = batch_norm_names(model)
        self._transposed: set[str] = set()
        if any(isinstance(parameter, UninitializedParameter) for parameter in self._names):
            raise RecordingError(
                "The model has lazy layers without weights, which get them from their first "
                "input. Run it once before the recording."
            )
        self._is_complete = False
        self._sums: dict[str, DeviceSums[Any]] = {
            SHARED_SUMS.get(name, name): DeviceSums() for name in self._statistics
        }
        trained = [one for one in self._names if one.requires_grad]
        if not trained and not OF_GRADIENTS.isdisjoint(statistics):
            raise RecordingError(
                "No parameter of the model requires a gradient, so that {statistic} cannot be "
                "recorded. Call requires_grad_() of those to record.",
                statistic=join_items(name for name in statistics if name in OF_GRADIENTS),
            )

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write one file of float32 tensors for each statistic, and return their paths.

        Scores are computed with the weights that the model has now. Each file is written beside its
        target, read back, and only then renamed.

        Args:
            path: a folder, made if necessary, for files such as ``activations.safetensors``; or,
                of a single statistic, a file whose name ends in ``.safetensors``.
            overwrite: whether existing files may be replaced.

        Raises:
            RecordingError: the block has not ended or raised an error, or recorded nothing; or the
                folder cannot be made.
            CheckpointError: a file cannot be written.
        """
        if not self._is_complete:
            raise RecordingError(
                "The recording cannot be saved: its with block has not ended, or ended with an "
                "error. Save after the block."
            )
        path = Path(path)
        is_file = path.suffix == SUFFIX
        if is_file and len(self._statistics) > 1:
            raise RecordingError(
                "{path} is one file, but the recording has several statistics: {names}. Name a "
                "folder, in which each becomes a file.",
                path=str(path),
                names=join_items(self._statistics),
            )
        weights = {names[0]: weight for weight, names in self._names.items()}
        paths = []
        for statistic in self._statistics:
            tensors, counts = self._finished(statistic, weights)
            target = path if is_file else path / (statistic + SUFFIX)
            with RecordingError.on_os_error(
                "The folder {path} cannot be made: {reason}. Save to another folder.",
                path=str(target.parent),
            ):
                target.parent.mkdir(parents=True, exist_ok=True)
            self._write(target, statistic, tensors, counts, overwrite=overwrite)
            paths.append(target)
        return paths

    def _finished(
        self, statistic: str, weights: dict[str, Tensor]
    ) -> tuple[dict[str, LazyTensor], dict[str, int]]:
        """Return the tensors of a statistic by name, and what was counted for them."""
        sums = self._sums[SHARED_SUMS.get(statistic, statistic)]
        tensors = finished(statistic, sums, weights)
        if not tensors:
            message = NO_INPUTS if statistic in OF_INPUTS else NO_GRADIENTS
            raise RecordingError(message, statistic=statistic)
        unit = "vectors" if statistic in OF_INPUTS else "backward_passes"
        if statistic == BATCH_NORM:
            unit = "batches"
        return tensors, {unit: max(sums.counts.values())}

    def _write(
        self,
        path: Path,
        statistic: str,
        tensors: dict[str, LazyTensor],
        counts: dict[str, int],
        *,
        overwrite: bool,
    ) -> None:
        """Write the tensors of one statistic, with what they were recorded from in the metadata."""
        if overwrite and path.exists() and not _has_statistics(path):
            raise CheckpointError(
                "{path} was not written: the file there has no recorded statistics, and may be a "
                "checkpoint. Choose another name.",
                path=path,
            )
        model, named = type(self._model), {**self._names, **self._batch_norms}.items()
        recorded = {first: (weight, more) for weight, (first, *more) in named if first in tensors}
        record = {
            "statistic": statistic,
            "formula": STATISTICS[statistic],
            **counts,
            "model": f"{model.__module__}.{model.__qualname__}",
            "shapes": {name: list(weight.shape) for name, (weight, _) in recorded.items()},
            "aliases": {alias: name for name, (_, more) in recorded.items() for alias in more},
            "transposed": [name for name in recorded if name in self._transposed],
            "versions": {
                "prune_gui": own_version(),
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
        }
        writers = [
            TensorWriter(name, "float32", tensors[name].shape, partial(_whole, tensors[name]))
            for name in recorded  # in the order of the model
        ]
        metadata = {RECORDING_KEY: json.dumps(record), CHECKSUMS_KEY: ""}
        output = FileOutput(path=path, tensors=writers, template=None, overwrite=overwrite)
        output.write(metadata, Monitor())

    def _attach(self, hooks: ExitStack) -> None:
        """Add the hooks to the model; closing `hooks` removes them."""
        if OF_INPUTS & self._sums.keys():
            for module in self._model.modules():
                weight, channels = weight_of(module), input_channels(module)
                if channels is not None and weight is not None and weight in self._names:
                    hook = partial(self._add_inputs, self._names[weight][0], channels)
                    hooks.enter_context(module.register_forward_hook(hook, with_kwargs=True))
                    # an embedding has no second moments, but may share the weight of a linear layer
                    if channels.weight_dim == 0 and channels.input_dim is not None:
                        self._transposed.add(self._names[weight][0])
        if BATCH_NORM in self._sums:
            for module in self._model.modules():
                if isinstance(module, _BatchNorm) and module.running_mean is not None:
                    hooks.enter_context(module.register_forward_hook(self._add_batch))
        if OF_GRADIENTS & self._sums.keys():
            for parameter, names in self._names.items():
                if parameter.requires_grad:
                    # runs once for each backward pass, with the sum over all uses
                    add = partial(self._add_gradient, names[0], parameter)
                    handle = parameter.register_hook(add)  # type: ignore[no-untyped-call]
                    hooks.callback(handle.remove)
        if "torch._dynamo" in sys.modules:  # else nothing is compiled, and importing it takes long
            hooks.enter_context(torch.compiler.set_stance("force_eager"))

    def _add_inputs(
        self,
        name: str,
        channels: InputChannels,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: object,
    ) -> None:
        if torch._C._current_graph_task_id() != -1:
            return  # a backward pass repeats the forward pass
        inputs: Tensor = next(iter((*args, *kwargs.values()))).detach()
        inputs = inputs if self._device is None else inputs.to(self._device)
        count = channels.vectors(inputs)
        if squares := self._sums.get(ACTIVATIONS):
            squares.add((name, channels), channels.squares(inputs), count)
        if (sums := self._sums.get(MEANS)) and channels.input_dim is not None:
            sums.add((name, channels), channels.sums(inputs), count)
        if (products := self._sums.get(SECOND_MOMENTS)) and count and has_rows(module):
            with torch.autocast(inputs.device.type, enabled=False):
                try:
                    products.add(name, second_moments(module, inputs), count)
                except torch.OutOfMemoryError:
                    products.add(name, second_moments(module, inputs.cpu()), count)

    def _add_batch(self, module: nn.Module, args: tuple[Tensor, ...], output: object) -> None:
        inputs = args[0].detach()
        inputs = inputs if self._device is None else inputs.to(self._device)
        if torch._C._current_graph_task_id() != -1 or inputs.numel() <= inputs.shape[1]:
            return  # a backward pass repeats the forward pass; or there is no variance
        variance, mean = torch.var_mean(
            inputs.to(wide_dtype(inputs.dtype)), [dim for dim in range(inputs.dim()) if dim != 1]
        )
        for key, value in ((RUNNING_MEAN, mean), (RUNNING_VAR, variance)):
            self._sums[BATCH_NORM].add(self._batch_norms[module.get_buffer(key)][0], value)

    def _add_gradient(self, name: str, weight: Tensor, gradient: Tensor) -> None:
        if gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        wide = gradient.detach().to(self._device or gradient.device, torch.float32)
        if squares := self._sums.get(FISHER):
            squares.add(name, wide.square())
        if products := self._sums.get(TAYLOR):
            products.add(name, (wide * weight.detach().to(wide)).abs())


def _check(statistics: tuple[str, ...]) -> None:
    names = join_items(STATISTICS)
    if not statistics:
        raise RecordingError("Name at least one statistic of: {names}.", names=names)
    unknown = [name for name in statistics if name not in STATISTICS]
    if unknown:
        raise RecordingError(
            "There is no statistic {name!r}. Use: {names}.", name=unknown[0], names=names
        )


def _has_statistics(path: Path) -> bool:
    try:
        with open_checkpoint(path) as old:
            return RECORDING_KEY in old.metadata
    except CheckpointError:
        return False


def _whole(tensor: LazyTensor) -> Iterator[Tensor]:
    yield tensor.compute().reshape(-1)
