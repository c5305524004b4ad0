"""What the evaluators share: the weights of the dense network, and measures of fidelity to it."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch.nn import functional

from prune_gui import open_checkpoint

State = dict[str, torch.Tensor]


def model_file(*parts: str) -> Path:
    """Return the path of a file in the folder of models, which PRUNE_GUI_MODELS names."""
    return Path(os.environ["PRUNE_GUI_MODELS"], *parts)


def dense_state(*parts: str) -> State:
    """Return the tensors of a checkpoint in the folder of models."""
    with open_checkpoint(model_file(*parts)) as checkpoint:
        return {name: checkpoint.read(name).clone() for name in checkpoint.tensors}


def mean_cosine(outputs: torch.Tensor, dense: torch.Tensor) -> float:
    """Return the mean cosine of the rows of two matrices; a row that is not finite counts as 0."""
    return functional.cosine_similarity(outputs, dense, dim=1).nan_to_num(0.0).mean().item()


def cosines(outputs: torch.Tensor, dense: torch.Tensor) -> dict[str, float]:
    """Return the mean cosine as `value`, and without the mean dense row as `centered`.

    Where the rows of `dense` are similar, constant outputs have a large mean cosine; their centered
    one is near 0.
    """
    mean = dense.mean(dim=0)
    return {
        "value": mean_cosine(outputs, dense),
        "centered": mean_cosine(outputs - mean, dense - mean),
    }


def correlation(outputs: torch.Tensor, dense: torch.Tensor) -> float:
    """Return Pearson's correlation of all elements; of constant outputs, 0."""
    both = torch.stack([outputs.flatten(), dense.flatten()])
    return torch.corrcoef(both)[0, 1].nan_to_num(0.0).item()


def convolved(state: State, name: str, values: torch.Tensor, **options: int) -> torch.Tensor:
    """Return a 1-d convolution with `name`.weight and `name`.bias, if there is one."""
    return functional.conv1d(values, state[f"{name}.weight"], state.get(f"{name}.bias"), **options)


def linear(state: State, name: str, values: torch.Tensor) -> torch.Tensor:
    """Return the output of the linear layer `name`."""
    return functional.linear(values, state[f"{name}.weight"], state[f"{name}.bias"])


def normalized(state: State, name: str, values: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Return the output of the batch norm `name` with its recorded statistics."""
    mean, var, weight, bias = (
        state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return functional.batch_norm(values, mean, var, weight, bias, eps=eps)
