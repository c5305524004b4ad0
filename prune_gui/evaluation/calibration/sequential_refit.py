"""Correcting the kept weights of a model in memory, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from prune_gui.checkpoint.parameters import MASK_SUFFIX
from prune_gui.errors import RecordingError
from prune_gui.evaluation.calibration.forward_passes import ForwardPasses, Layer, Run
from prune_gui.evaluation.calibration.layer_inputs import (
    has_rows,
    is_transposed_linear,
    parameter_names,
    second_moments,
    weight_of,
)
from prune_gui.evaluation.calibration.statistics import DeviceSums
from prune_gui.language import tr
from prune_gui.pruning.devices import find_device
from prune_gui.recipe.correction.corrected_values import refitted


def refit(
    model: nn.Module,
    masks: Mapping[str, Tensor] | None,
    batches: Iterable[Any],
    *,
    forward: Run | None = None,
    damping: float = 0.01,
    device: str | torch.device | None = None,
) -> dict[str, str]:
    """Prune a model in place, and correct the kept weights of each layer by least squares.

    Layers are corrected in the order in which they run, each for the inputs X that the pruned and
    corrected layers before it give; layers with the same inputs, such as q, k and v, at once. For
    each, all batches run up to it: from the block that it is in, where blocks get the output of
    the block before (one input of a block is kept for each batch), else from the beginning.

    The kept weights are w_S = H_SS^-1 H_S: w with H = X^T X + damping * mean(diag X^T X) * I, for
    which the outputs of the layer are closest to those of the dense weight w on the same inputs.
    Formula and sources are
    in `prune_gui.recipe.correction.least_squares`: OBS (Hassibi and Stork 1993), AdaPrune (Hubara
    et al. 2021). SparseGPT (Frantar and Alistarh 2023) also goes from layer to layer. The method
    `refit` of recipes corrects all layers at once for the inputs of the dense model.

    Example::

        with prune_gui.open_checkpoint(path) as checkpoint:
            resolution = prune_gui.resolve(recipe, checkpoint)
            masks = {name: resolution.mask(name) for name in resolution.layers}
        prune_gui.refit(model, masks, batches, forward=lambda model, batch: model(**batch))

    Args:
        model: the dense model, or one whose modules `torch.nn.utils.prune` has pruned. It runs as
            it is: call eval() first for inference.
        masks: by name of a parameter in the state dict, bool of its shape, True where kept. None:
            the masks of pruned modules, which stay pruned and get other values in `weight_orig`.
        batches: inputs, for example a DataLoader without shuffling; they are iterated once for
            each layer.
        forward: runs the model on a batch; by default ``model(batch)``. It may be left before its
            end, by an exception.
        damping: see above; at least 0. It is raised where H is not positive definite.
        device: where H is summed and solved, such as "cuda:1", "cpu" or "gpu", any graphics card;
            None: where the inputs and the weights are.

    Returns:
        By name of each corrected weight of a `Linear`, `Conv` or `Conv1D`, a note on the solution,
        or "".

    Raises:
        RecordingError: no layer with a mask ran, a mask does not fit its parameter, or inputs are
            not finite; the layers before have been corrected.
        DeviceError: there is no such device.
    """
    run = forward or (lambda model, batch: model(batch))
    inputs = list(batches) if isinstance(batches, Iterator) else batches
    names = parameter_names(model)
    _check_masks(masks or {}, names)
    layers: dict[Tensor, list[nn.Module]] = {}
    for module in model.modules():
        weight = weight_of(module)
        if weight is None or weight not in names or not has_rows(module):
            continue
        if _mask(module, names[weight], masks) is not None:
            layers.setdefault(weight, []).append(module)
    chosen = device if device is None else find_device(device)
    notes = {}
    with torch.no_grad():
        passes = ForwardPasses(model, inputs, run, layers)
        for parameter, every in names.items():
            given = _given(every, masks)
            if given is not None and parameter not in passes.layers:
                parameter.masked_fill_(~given.to(parameter.device, torch.bool), 0.0)
        moments: Tensor | None = None
        latest: Layer | None = None
        for parameter, layer in passes.layers.items():
            if not layer.shares_inputs or layer.leader is not latest:
                moments, latest = _moments(passes, layer, chosen), layer
            module, every = layer.modules[0], names[parameter]
            mask = _mask(module, every, masks)
            assert mask is not None
            kept = mask.detach().to(parameter.device, torch.bool)
            corrected, note = parameter.detach(), tr("not corrected: it had no inputs")
            if moments is not None:
                if not bool(moments.isfinite().all()):
                    raise RecordingError(
                        "The inputs of {name} are not finite, or too large for their dtype. Give "
                        "other batches, or run the model in float32.",
                        name=every[0],
                    )
                transposed = is_transposed_linear(module)
                corrected, note = refitted(
                    corrected, kept, moments, damping, transposed=transposed, device=chosen
                )
            notes[every[0]] = note
            parameter.copy_(corrected if masks is None else corrected.masked_fill(~kept, 0.0))
    if not notes:
        raise RecordingError(
            "No layer with a mask ran: give masks by the names of the weights, and batches."
        )
    return notes


def _check_masks(masks: Mapping[str, Tensor], names: Mapping[Tensor, list[str]]) -> None:
    shapes = {name: weight.shape for weight, every in names.items() for name in every}
    for name, mask in masks.items():
        if mask.shape != shapes.get(name):
            found = list(shapes[name]) if name in shapes else None
            raise RecordingError(
                "The mask of {name} has shape {shape}, but the parameter of the model has {found}.",
                name=name,
                shape=list(mask.shape),
                found=found,
            )


def _given(names: Iterable[str], masks: Mapping[str, Tensor] | None) -> Tensor | None:
    return next((masks[name] for name in names if name in masks), None) if masks else None


def _mask(
    module: nn.Module, names: Iterable[str], masks: Mapping[str, Tensor] | None
) -> Tensor | None:
    if masks is None:
        return module._buffers.get("weight" + MASK_SUFFIX)
    return _given(names, masks)


def _moments(passes: ForwardPasses, layer: Layer, device: torch.device | None) -> Tensor | None:
    """Return X^T X of the inputs of a layer; None if it had only empty ones."""
    sums: DeviceSums[None] = DeviceSums()

    def see(module: nn.Module, inputs: Tensor) -> None:
        if inputs.numel():
            inputs = inputs.to(device or inputs.device)
            with torch.autocast(inputs.device.type, enabled=False):
                sums.add(None, second_moments(module, inputs))

    passes.show_inputs(layer, see)
    return sums.total(None, device) if sums.keys else None
