"""The statistics that can be recorded, and how the sums become the tensors of a file.

N is the number of backward passes, w a weight, g its gradient in one of them, and x an input.
"""

from __future__ import annotations

import json
import platform
import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from prune_gui.checkpoint import TensorWriter, open_checkpoint
from prune_gui.checkpoint.write.content import CHECKSUMS_KEY
from prune_gui.checkpoint.write.writing import FileOutput
from prune_gui.errors import CheckpointError, RecordingError
from prune_gui.evaluation.calibration.layer_inputs import InputChannels
from prune_gui.monitor import Monitor
from prune_gui.recipe.auxiliary_files import RECORDING_KEY
from prune_gui.recipe.provenance import own_version

Key = TypeVar("Key", bound=Hashable)


class DeviceSums(Generic[Key]):
    """A sum of tensors for each key, kept on the device of its terms until it is asked for.

    Each key and each device on which it has terms takes one tensor. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[Key, dict[torch.device, Tensor]] = {}
        self.counts: Counter[Key] = Counter()

    def add(self, key: Key, term: Tensor, count: int = 1) -> None:
        """Add a tensor to the sum of a key, and a number to its count."""
        with self._lock, torch.inference_mode(False), torch.no_grad():
            self.counts[key] += count
            sums = self._sums.setdefault(key, {})
            if term.device in sums:
                sums[term.device] += term
            else:
                # a tensor of the inference mode could not be changed outside of it
                sums[term.device] = term.clone() if term.is_inference() else term

    @property
    def keys(self) -> list[Key]:
        """The keys that have a sum, in the order of their first terms."""
        return list(self._sums)

    def shape(self, key: Key) -> tuple[int, ...]:
        """Return the shape of the sum of a key."""
        return tuple(next(iter(self._sums[key].values())).shape)

    def total(self, key: Key) -> Tensor:
        """Return the sum of a key over all devices, on the CPU."""
        first, *others = self._sums[key].values()
        total = first.cpu()
        for other in others:
            total = total + other.cpu()
        return total


ACTIVATIONS, RIA = "activations", "ria"
MEANS, SECOND_MOMENTS = "means", "second_moments"
BATCH_NORM = "batch_norm"
FISHER, OBD, TAYLOR = "fisher", "obd", "taylor"
STATISTICS: Final[Mapping[str, str]] = {
    ACTIVATIONS: "norm of each input channel, sqrt(sum x^2); |w| * norm where channels are not "
    "columns of the weight (Sun et al. 2023)",
    RIA: "|w| * (1 / row sum + 1 / column sum) * sqrt(norm) (Zhang et al. 2024)",
    MEANS: "mean of each input channel, sum x / vectors",
    SECOND_MOMENTS: "X^T X, where the rows of X are the inputs",
    BATCH_NORM: "mean over batches of the mean and the variance of each input channel of batch "
    "norms, as torch.optim.swa_utils.update_bn",
    FISHER: "diagonal of the empirical Fisher information, sum g^2 / N",
    OBD: "0.5 * (sum g^2 / N) * w^2 (LeCun et al. 1990)",
    TAYLOR: "sum |g * w| / N (Molchanov et al. 2017, 2019)",
}
"""By name, what its file holds."""
OF_SQUARES: Final = frozenset({ACTIVATIONS, RIA})
OF_INPUTS: Final = OF_SQUARES | {MEANS, SECOND_MOMENTS, BATCH_NORM}
OF_SQUARED_GRADIENTS: Final = frozenset({FISHER, OBD})
OF_GRADIENTS: Final = OF_SQUARED_GRADIENTS | {TAYLOR}

ChannelSums = DeviceSums[tuple[str, InputChannels]]
"""Sums for each name of a weight and each way in which layers use it."""
WeightSums = DeviceSums[str]
"""Sums for each name of a weight."""


class LazyTensor(NamedTuple):
    """A float32 tensor of a file, which is computed when it is written."""

    shape: tuple[int, ...]
    compute: Callable[[], Tensor]


def activation_scores(
    squares: ChannelSums, weights: Mapping[str, Tensor], *, relative: bool = False
) -> dict[str, LazyTensor]:
    """Return Wanda's factors or scores of each weight, or the scores of RIA.

    Wanda: |w_ij| * ||x_j||_2, where x_j is the vector of all inputs of channel j (Sun et al., "A
    Simple and Effective Pruning Approach for Large Language Models", 2023, equation 1). If channel
    j is column j of the weight, these are the norms, of shape (columns,). Otherwise (groups,
    transposed weights, embeddings) they are the products, of the shape of the weight.

    RIA: (|w_ij| / sum of row i + |w_ij| / sum of column j) * ||x_j||_2^0.5, of the shape of the
    weight (Zhang et al., "Plug-and-Play: An Efficient Post-training Pruning Method for Large
    Language Models", 2024). Rows are dimension 0; columns are dimension 1, of a convolution with
    all positions of the kernel. The sums are those of absolute weights.

    A tied weight has several uses. Their squared norms are added, as are the squared changes of
    the outputs.
    """
    uses: dict[str, list[InputChannels]] = {}
    for name, channels in squares.keys:
        uses.setdefault(name, []).append(channels)
    scores = {}
    for name, every in uses.items():
        shape = weights[name].shape
        norms = partial(_norms, squares, name, every, shape)
        if relative:
            compute = partial(_ria, weights[name], norms)
            scores[name] = LazyTensor(tuple(shape), compute)
        elif all(use.are_columns for use in every):
            scores[name] = LazyTensor((shape[1],), partial(_flat, norms))
        else:
            scores[name] = LazyTensor(tuple(shape), partial(_wanda, weights[name], norms))
    return scores


def input_means(sums: ChannelSums) -> dict[str, LazyTensor]:
    """Return the mean of each input channel of the layers of a weight, (channels,)."""
    return {
        name: LazyTensor((channels.count,), partial(_mean, sums, (name, channels)))
        for name, channels in sums.keys
    }


def input_second_moments(sums: WeightSums) -> dict[str, LazyTensor]:
    """Return X^T X of the inputs of each weight; see `input_rows.second_moments`."""
    return {name: LazyTensor(sums.shape(name), partial(_total, sums, name)) for name in sums.keys}


def batch_norm_means(sums: WeightSums) -> dict[str, LazyTensor]:
    """Return the mean over batches of each buffer of batch norms, (channels,)."""

    def mean(name: str) -> Tensor:
        return (sums.total(name) / sums.counts[name]).float()

    return {name: LazyTensor(sums.shape(name), partial(mean, name)) for name in sums.keys}


def gradient_scores(
    statistic: str, sums: WeightSums, weights: Mapping[str, Tensor]
) -> dict[str, LazyTensor]:
    """Return the scores of each weight that had a gradient, of its shape.

    - fisher: sum g^2 / N, the diagonal of the empirical Fisher information. It is exact if each
      backward pass is that of one sample; of a mean over a batch, g is the mean of its gradients.
    - obd: 0.5 * fisher * w^2, the increase of the loss without w, with Fisher as the diagonal of
      the Hessian (LeCun, Denker and Solla, "Optimal Brain Damage", 1990, equation 5).
    - taylor: sum |g * w| / N, the change of the loss without w to first order (Molchanov et al.,
      "Pruning Convolutional Neural Networks for Resource Efficient Inference", 2017, and
      "Importance Estimation for Neural Network Pruning", 2019).

    N is the largest number of passes of any weight; in others, a weight had the gradient 0.
    """
    passes = max(sums.counts.values(), default=1)

    def compute(name: str) -> Tensor:
        mean = sums.total(name) / passes
        if statistic == OBD:
            mean *= _values(weights[name]).square() / 2
        return mean

    return {name: LazyTensor(sums.shape(name), partial(compute, name)) for name in sums.keys}


def _norms(squares: ChannelSums, name: str, uses: list[InputChannels], shape: torch.Size) -> Tensor:
    """Return the norm of the inputs that each element of a weight meets; broadcasts to `shape`."""
    norm_squares = torch.zeros((), dtype=torch.float64)
    for use in uses:
        norm_squares = norm_squares + use.beside_weight(squares.total((name, use)), shape)
    return norm_squares.sqrt().float()


def _flat(norms: Callable[[], Tensor]) -> Tensor:
    return norms().flatten()


def _wanda(weight: Tensor, norms: Callable[[], Tensor]) -> Tensor:
    return _values(weight).abs() * norms()


def _ria(weight: Tensor, norms: Callable[[], Tensor]) -> Tensor:
    absolute = _values(weight).abs()
    smallest = torch.finfo(torch.float32).tiny  # the share in a row of zeros is 0
    rows = absolute.sum(tuple(range(1, absolute.dim())), keepdim=True).clamp_min(smallest)
    columns = absolute.sum((0, *range(2, absolute.dim())), keepdim=True).clamp_min(smallest)
    return (absolute / rows + absolute / columns) * norms().sqrt()


def _values(weight: Tensor) -> Tensor:
    """Return a weight in float32 on the CPU."""
    if weight.is_meta:
        raise RecordingError(
            "The scores cannot be computed, because weights of the model are on the device "
            "meta and have no values. Load the whole model into memory."
        )
    return weight.detach().cpu().float()


def _mean(sums: ChannelSums, key: tuple[str, InputChannels]) -> Tensor:
    return (sums.total(key) / max(1, sums.counts[key])).float()


def _total(sums: WeightSums, name: str) -> Tensor:
    return sums.total(name).float()


def write_scores(
    path: Path,
    tensors: Mapping[str, LazyTensor],
    *,
    statistic: str,
    counts: Mapping[str, int],
    model: type,
    names: Mapping[Tensor, Sequence[str]],
    transposed: Collection[str],
    overwrite: bool,
) -> None:
    """Write the tensors of one statistic, with what they were recorded from in the metadata."""
    if overwrite and path.exists() and not _has_statistics(path):
        raise CheckpointError(
            "{path} was not written: the file there has no recorded statistics, and may be a "
            "checkpoint. Choose another name.",
            path=path,
        )
    recorded = {
        first: (weight, aliases) for weight, (first, *aliases) in names.items() if first in tensors
    }
    record = {
        "statistic": statistic,
        "formula": STATISTICS[statistic],
        **counts,
        "model": f"{model.__module__}.{model.__qualname__}",
        "shapes": {name: list(weight.shape) for name, (weight, _) in recorded.items()},
        "aliases": {alias: name for name, (_, aliases) in recorded.items() for alias in aliases},
        "transposed": [name for name in recorded if name in transposed],
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


def _has_statistics(path: Path) -> bool:
    try:
        with open_checkpoint(path) as old:
            return RECORDING_KEY in old.metadata
    except CheckpointError:
        return False


def _whole(tensor: LazyTensor) -> Iterator[Tensor]:
    yield tensor.compute().reshape(-1)
