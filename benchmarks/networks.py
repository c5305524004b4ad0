"""Half of the units of many networks, beside Torch-Pruning: ``python benchmarks/networks.py``.

Each network has random weights, and is pruned by Prune GUI and by Torch-Pruning, each in a process
of its own; times are those of the processor. Here that is tracing, ranking, saving the compact form
and loading it into the model; there it is the graph of dependencies, ranking by norms and pruning
the model in memory. The *difference* is the largest one between the outputs of the compact and of
the masked model, relative to the largest output; without hidden channels, over which norms are
computed. With ``--checked`` that of Torch-Pruning is measured, too: units are then chosen at
random. Needs torch-pruning, torchvision and timm; ``--table docs/figures.md`` writes the table
there, and NAMES restrict the networks.
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import anonymous_memory, peak_memory, replace_marked, run_in_new_process
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

MARKS = ("<!-- network figures -->", "<!-- end of network figures -->")
HEADINGS = (
    "| network | parameters before | Torch-Pruning | here | multiply-adds before | Torch-Pruning "
    "| here | time of Torch-Pruning | here | memory of Torch-Pruning | here | difference |\n"
    + "| --- " * 12
    + "|"
)
SMALL, LARGE = 224, 299
LIMIT_S = 900
TORCHVISION = """alexnet vgg11_bn resnet18 resnet50 resnext50_32x4d densenet121 squeezenet1_1
googlenet inception_v3 shufflenet_v2_x1_0 mobilenet_v2 mobilenet_v3_large efficientnet_b0
efficientnet_v2_s mnasnet1_0 regnet_x_400mf regnet_y_400mf convnext_tiny vit_b_16
swin_t""".split()  # noqa: SIM905
SEGMENTATION = ["deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
TIMM = """vit_tiny_patch16_224 efficientnet_lite0 mixer_s32_224 ghostnet_100 res2net50_26w_4s
cspdarknet53""".split()  # noqa: SIM905


class Block(nn.Sequential):
    """A convolution, a batch norm and SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class UNet(nn.Module):
    """Four levels with connections from the way down to the way up."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 64, 128, 256]
        self.down = nn.ModuleList(
            nn.Sequential(Block(i, o), Block(o, o))
            for i, o in zip([3, *widths], widths, strict=False)
        )
        self.larger = nn.ModuleList(
            nn.ConvTranspose2d(2 * o, o, 2, 2) for o in reversed(widths[:-1])
        )
        self.up = nn.ModuleList(
            nn.Sequential(Block(2 * o, o), Block(o, o)) for o in reversed(widths[:-1])
        )
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an image (batch, 2, height, width)."""
        passed = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            passed.append(x)
        passed.pop()
        for larger, block in zip(self.larger, self.up, strict=True):
            x = block(torch.cat([larger(x), passed.pop()], 1))
        return self.last(x)


class Yolo(nn.Module):
    """Halves that are split, changed and concatenated, pooled three times, and three heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Block(3, 16, stride=2), Block(16, 32, stride=2))
        self.first, self.last = nn.ModuleList(), nn.ModuleList()
        self.inner, self.smaller = nn.ModuleList(), nn.ModuleList()
        for width in (32, 64, 128):
            self.first.append(Block(width, width, 1))
            self.inner.append(Block(width // 2, width // 2))
            self.last.append(Block(width * 3 // 2, width, 1))
            self.smaller.append(Block(width, 2 * width, stride=2))
        self.before, self.after = Block(256, 128, 1), Block(512, 256, 1)
        self.heads = nn.ModuleList(nn.Conv2d(width, 24, 1) for width in (64, 128, 256))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the boxes of three sizes, each (batch, 24, height, width)."""
        x, levels = self.stem(x), []
        for first, inner, last, smaller in zip(
            self.first, self.inner, self.last, self.smaller, strict=True
        ):
            one, two = first(x).chunk(2, 1)
            x = smaller(last(torch.cat([one, two, inner(two)], 1)))
            levels.append(x)
        pooled = [self.before(x)]
        for _ in range(3):
            pooled.append(nn.functional.max_pool2d(pooled[-1], 5, 1, 2))
        levels[-1] = self.after(torch.cat(pooled, 1))
        return [head(level) for head, level in zip(self.heads, levels, strict=True)]


def build(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a network in evaluation mode, and an image."""
    torch.manual_seed(0)
    size = LARGE if name.startswith("inception") else SMALL
    own: dict[str, Callable[[], nn.Module]] = {"U-Net": UNet, "YOLO": Yolo}
    if name in own:
        network = own[name]()
    elif name in TIMM:
        import timm

        network = timm.create_model(name)
    else:
        import torchvision

        options: dict[str, Any] = {"weights": None}
        if name in SEGMENTATION:
            options["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            options |= {"init_weights": False, "aux_logits": False}
        network = torchvision.models.get_model(name, **options)
    with torch.no_grad():  # as after training, no norm is the identity
        for tensor in network.state_dict(keep_vars=True).values():
            if tensor.is_floating_point() and tensor.ndim == 1:
                tensor.copy_(torch.rand(tensor.shape) * 0.5 + 0.5)
            elif tensor.is_floating_point() and not tensor.any():
                tensor.copy_(torch.randn(tensor.shape) * 0.02)
    return network.eval(), torch.randn(1, 3, size, size)


def outputs(network: nn.Module, image: torch.Tensor) -> list[torch.Tensor]:
    """Return all tensors that a network computes."""
    with torch.no_grad():
        result = network(image)
    return [one for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]


def size_of(network: nn.Module, image: torch.Tensor) -> dict[str, int]:
    """Return the number of parameters and of multiply-adds of an image."""
    with FlopCounterMode(display=False) as counter:
        outputs(network, image)
    return {
        "parameters": sum(one.numel() for one in network.parameters()),
        "multiply_adds": counter.get_total_flops() // 2,
    }


def difference(small: nn.Module, masked: nn.Module, image: torch.Tensor) -> float:
    """Return the largest difference of two networks, relative to the largest output."""
    pairs = zip(outputs(small, image), outputs(masked, image), strict=True)
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


def ours(name: str, *, checked: bool) -> dict[str, Any]:
    """Return the figures of Prune GUI."""
    from safetensors.torch import load_file, save_file

    import prune_gui
    from prune_gui.tracing.naming import as_yaml

    network, image = build(name)
    result: dict[str, Any] = {"before": size_of(network, image)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        save_file(
            {key: one.clone() for key, one in network.state_dict().items()},
            path / "net.safetensors",
        )
        start, memory = time.process_time(), anonymous_memory()
        with peak_memory() as peak:
            table = prune_gui.trace(network, image)
            (path / "table.yaml").write_text(as_yaml(table))
            small = halved(name, path, list(table.spaces))
            result["seconds"] = time.process_time() - start
        result["memory"] = peak[0] - memory
        exact = [space for space, rule in table.spaces.items() if rule.exact]
        result |= size_of(small, image) | {"inexact": len(exact) < len(table.spaces)}
        result["unknown"] = list(table.unknown)
        if result["inexact"]:
            small = halved(name, path, exact)
        masked = load_file(saved(path, exact, "finalized"))
        with torch.no_grad():
            for key, tensor in network.state_dict(keep_vars=True).items():
                tensor.copy_(masked[key])
    result["difference"] = difference(small, network, image)
    return result


def halved(name: str, folder: Path, spaces: list[str]) -> nn.Module:
    """Return a network without half of the units of some spaces."""
    saved(folder, spaces, "compact")
    script = folder / "load_compact_safetensors.py"
    return runpy.run_path(str(script))["load"](build(name)[0])


def saved(folder: Path, spaces: list[str], form: str) -> Path:
    """Save a network without half of the units of some spaces, and return the file."""
    import prune_gui

    steps = [
        {"method": "coupled", "space": space, "amount": 0.5, "targets": ["*"]} for space in spaces
    ]
    recipe = prune_gui.Recipe.model_validate(
        {"version": 1, "steps": steps, "table": str(folder / "table.yaml")}
    )
    out = folder / f"{form}.safetensors"
    with prune_gui.open_checkpoint(folder / "net.safetensors") as checkpoint:
        prune_gui.export(prune_gui.resolve(recipe, checkpoint), out, form, overwrite=True)
    return out


def theirs(name: str, *, checked: bool) -> dict[str, Any]:
    """Return the figures of Torch-Pruning."""
    import torch_pruning

    network, image = build(name)
    if checked:  # each value tells where it was
        network = numbered(network)
        image = image.double()
    importance = torch_pruning.importance
    last = {"U-Net": 2, "YOLO": 24}.get(name, 21 if name in SEGMENTATION else 1000)
    kept = [
        module
        for module in network.modules()
        if last in (getattr(module, "out_features", 0), getattr(module, "out_channels", 0))
    ]
    attention = [module for module in network.modules() if hasattr(module, "num_heads")]
    fused = {module.qkv: module.num_heads for module in attention if hasattr(module, "qkv")}
    whole = [one.num_heads for one in attention if isinstance(one, nn.MultiheadAttention)]
    start, memory = time.process_time(), anonymous_memory()
    with peak_memory() as peak:
        pruner = torch_pruning.pruner.BasePruner(
            network,
            image,
            importance.RandomImportance() if checked else importance.GroupMagnitudeImportance(p=2),
            pruning_ratio=0.5,
            ignored_layers=kept,
            num_heads=fused,
            round_to=max(whole, default=None),
        )
        pruner.step()
    result: dict[str, Any] = {
        "seconds": time.process_time() - start,
        "memory": peak[0] - memory,
    }
    for module in attention if fused else []:  # as its examples do
        module.attn_dim = module.qkv.out_features // 3
        module.head_dim = module.attn_dim // module.num_heads
    if whole:
        network.hidden_dim = network.conv_proj.out_channels
    if checked:
        result["difference"] = unnumbered_difference(name, network)
    return result | size_of(network, image)


def numbered(network: nn.Module) -> nn.Module:
    """Return a network of float64 whose values are their places in each tensor."""
    network = network.double()
    with torch.no_grad():
        for tensor in network.state_dict(keep_vars=True).values():
            tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape))
    return network


def unnumbered_difference(name: str, small: nn.Module) -> float:
    """Return how much a network whose values are places differs from the one masked there."""
    masked, image = build(name)
    with torch.no_grad():
        tensors = masked.state_dict(keep_vars=True)
        for key, tensor in small.state_dict(keep_vars=True).items():
            values, places = tensors[key].reshape(-1), tensor.long().reshape(-1)
            tensor.copy_(values[places].reshape(tensor.shape))
            gone = torch.ones(values.shape, dtype=torch.bool)
            gone[places] = False
            values[gone] = 0
    return difference(small, masked.double(), image.double())


def row(name: str, here: dict[str, Any], there: dict[str, Any]) -> str:
    """Return a row of the table."""

    def cell(result: dict[str, Any], key: str, scale: float, text: str) -> str:
        return text.format(result[key] / scale) if key in result else "-"

    before = here.get("before", {})
    cells = [name]
    for key, scale, text in (("parameters", 1e6, "{:.2f} M"), ("multiply_adds", 1e9, "{:.3f} G")):
        cells += [cell(one, key, scale, text) for one in (before, there, here)]
    for key, scale, text in (("seconds", 1, "{:.1f} s"), ("memory", 1e6, "{:.0f} MB")):
        cells += [cell(one, key, scale, text) for one in (there, here)]
    cells.append(cell(here, "difference", 1, "{:.0e}") + (" *" if here.get("inexact") else ""))
    return "| " + " | ".join(cells) + " |"


def in_time(*arguments: str) -> dict[str, Any]:
    """Return the figures of one program, or why there are none."""
    try:
        return run_in_new_process(__file__, *arguments, timeout_s=LIMIT_S)
    except subprocess.SubprocessError as error:
        return {"error": str(error)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--side", choices=["ours", "theirs"])
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.side:
        [name] = options.names
        try:
            result = {"ours": ours, "theirs": theirs}[options.side](name, checked=options.checked)
        except Exception as error:  # noqa: BLE001 - of either program
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result))
        return
    rows = [HEADINGS]
    print(HEADINGS)
    for name in options.names or [*TORCHVISION, *SEGMENTATION, *TIMM, "U-Net", "YOLO"]:
        flags = ["--checked"] if options.checked else []
        here, there = (in_time(name, "--side", side, *flags) for side in ("ours", "theirs"))
        rows.append(row(name, here, there))
        print(rows[-1], flush=True)
        for title, result in (("here", here), ("Torch-Pruning", there)):
            for text in [result.get("error"), *result.get("unknown", ())]:
                if text:
                    print(f"    {title}: {text[:200]}", file=sys.stderr, flush=True)
        if options.checked:
            print("    Torch-Pruning's difference:", there.get("difference"), file=sys.stderr)
    if options.table:
        replace_marked(options.table, "\n".join(rows), MARKS)


if __name__ == "__main__":
    main()
