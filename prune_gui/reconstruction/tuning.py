"""Tuning a pruned block by gradient descent, so that it gives what the dense block gave.

A block at a time is enough: retraining after pruning gains little from larger parts of the network
(Wagner et al., "A Free Lunch in LLM Compression: Revisiting Retraining after Pruning", 2025).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from prune_gui.monitor import check_cancelled
from prune_gui.reconstruction.networks import Call

WARM_UP_STEPS: Final = 20
BETAS: Final = (0.9, 0.95)


def relative_error(outputs: Iterable[Tensor], wanted: Sequence[Tensor]) -> float:
    """Return |outputs - wanted|^2 / |wanted|^2 over all batches."""
    lost = sum(
        float((now.float() - then.float()).square().sum())
        for now, then in zip(outputs, wanted, strict=True)
    )
    return lost / max(sum(float(then.float().square().sum()) for then in wanted), 1e-30)


def tune_block(
    block: nn.Module,
    masks: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    wanted: Sequence[Tensor],
    calls: Sequence[Call],
    *,
    steps: int,
    rate: float,
    seed: int,
) -> float:
    """Train the parameters of a pruned block so that its outputs come closer to those wanted.

    Each step of Adam (Kingma and Ba 2015) takes one batch; the learning rate rises linearly and
    falls as a cosine. Pruned elements stay zero. All kept weights, biases and norms are trained; if
    the error is not smaller afterwards, they are as before.

    Args:
        masks: by name of a parameter in the block, True where kept.
        inputs: what the pruned blocks before give.
        wanted: what the dense block gives for dense inputs.
        rate: the highest learning rate.
        seed: of the order of the batches.

    Returns:
        The relative error before.
    """

    def error() -> float:
        outputs = (call.run(block, batch) for call, batch in zip(calls, inputs, strict=True))
        return relative_error(outputs, wanted)

    before = error()
    parameters = [one for one in block.parameters() if one.is_floating_point()]
    kept = {block.get_parameter(name): mask for name, mask in masks.items()}
    optimizer = torch.optim.Adam(parameters, lr=rate, betas=BETAS)
    generator = torch.Generator().manual_seed(seed)
    order: list[int] = []
    trained = [one.requires_grad for one in parameters]
    solved = [one.detach().clone() for one in parameters]
    try:
        for one in parameters:
            one.requires_grad_(True)
        for step in range(steps):
            check_cancelled()
            order = order or torch.randperm(len(inputs), generator=generator).tolist()
            number = order.pop()
            for group in optimizer.param_groups:
                group["lr"] = rate * _schedule(step, steps)
            with torch.enable_grad():
                outputs = calls[number].run(block, inputs[number])
                loss = torch.nn.functional.mse_loss(outputs, wanted[number])
            torch.autograd.backward(loss)
            for parameter, mask in kept.items():
                if parameter.grad is not None:
                    parameter.grad.mul_(mask)
            optimizer.step()
            optimizer.zero_grad()
    finally:
        for one, was_trained in zip(parameters, trained, strict=True):
            one.requires_grad_(was_trained)
    if not error() < before:  # also if it is not a number
        for one, values in zip(parameters, solved, strict=True):
            one.copy_(values)
    return before


def _schedule(step: int, steps: int) -> float:
    warm = min(1.0, (step + 1) / WARM_UP_STEPS)
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))
