"""The statistics that can be recorded, and how the sums become the tensors of a file.

N is the number of backward passes, w a weight, g its gradient in one of them, and x an input.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from prune_gui.errors import RecordingError
from prune_gui.evaluation.calibration.layer_inputs import InputChannels

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

    def total(self, key: Key, device: torch.device | str | None = "cpu") -> Tensor:
        """Return the sum of a key over all devices, on one; None: on that of the first term."""
        first, *others = self._sums[key].values()
        total = first.to(device or first.device)
        for other in others:
            total = total + other.to(total.device)
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
OF_GRADIENTS: Final = frozenset({FISHER, OBD, TAYLOR})
OF_INPUTS: Final = STATISTICS.keys() - OF_GRADIENTS
SHARED_SUMS: Final = {RIA: ACTIVATIONS, OBD: FISHER}
"""The statistics that come from the sums of another one."""

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
        elif all(use.weight_dim == 1 and use.groups == 1 for use in every):
            scores[name] = LazyTensor((shape[1],), partial(_flat, norms))
        else:
            scores[name] = LazyTensor(tuple(shape), partial(_wanda, weights[name], norms))
    return scores


def finished(
    statistic: str, sums: DeviceSums[Any], weights: Mapping[str, Tensor]
) -> dict[str, LazyTensor]:
    """Return the tensors of a statistic by name of a weight or buffer, as `STATISTICS` has them."""
    if statistic in (ACTIVATIONS, RIA):
        return activation_scores(sums, weights, relative=statistic == RIA)
    if statistic in OF_GRADIENTS:
        return gradient_scores(statistic, sums, weights)

    def mean(key: Hashable) -> Tensor:
        count = 1 if statistic == SECOND_MOMENTS else max(1, sums.counts[key])
        return (sums.total(key) / count).float()

    names = {key: key[0] if statistic == MEANS else key for key in sums.keys}
    return {name: LazyTensor(sums.shape(key), partial(mean, key)) for key, name in names.items()}


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
