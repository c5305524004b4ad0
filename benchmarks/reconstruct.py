"""What reconstruction keeps of a language model, beside Wanda and SparseGPT, on the same tokens.

Usage: ``python benchmarks/reconstruct.py FOLDER TOKENS [--patterns 2:4 0.7 ...] [--methods NAME...]
[--targets NAME...] [--samples N] [--held-out N] [--tune STEPS] [--spread SHARE] [--seeds N]
[--device DEVICE] [--write FILE.md]``.
FOLDER holds a causal model of transformers; TOKENS is a safetensors file with the integer tensors
`calibration` and `held_out`, (samples, length). Prints, as Markdown, the perplexity on `held_out`
of each method at each pattern, with the seconds of pruning on this machine and the peak of the
memory of a new process, which holds the whole model in float32. A pattern is N:M or a share of
pruned weights, per row for Wanda, of each matrix for the others. With several seeds, each draws the
samples anew, and there are the mean and the standard deviation; the first takes the first samples.

Wanda and SparseGPT are short references of what the papers say: Sun et al., "A Simple and Effective
Pruning Approach for Large Language Models", 2024; Frantar and Alistarh, "SparseGPT: Massive
Language Models Can Be Accurately Pruned in One-Shot", 2023, with blocks of 128 columns and damping
0.01. Both take the inputs of all layers of a block before one of them is pruned, as in the papers.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from measuring import peak_memory, replace_marked, run_in_new_process
from rankings import table
from safetensors.torch import load_file
from torch import Tensor, nn

from prune_gui import Recipe, reconstruct
from prune_gui.pruning.devices import find_device
from prune_gui.reconstruction.block import run_through
from prune_gui.reconstruction.networks import Network, find_blocks

PATTERNS = ("2:4", "0.5", "0.6", "0.7", "0.8")
BLOCK = 128
"""Columns that SparseGPT prunes before the others are updated."""
DAMPING = 0.01
BATCH = 2
"""Samples that run at once; of 512 tokens, as many as a step of tuning takes in the program."""
MARKS = ("<!-- reconstruct -->", "<!-- end of reconstruct -->")
Prune = Callable[[Tensor, Tensor, str], None]
"""Prunes a weight (rows, columns) in place, given X^T X of its inputs and a pattern."""


def wanda(weight: Tensor, moments: Tensor, pattern: str) -> None:
    """Prune the weights of each row with the smallest |w| * |x|."""
    scores = weight.abs() * moments.diagonal().sqrt()
    n, _, m = pattern.partition(":")
    width = int(m) if m else weight.shape[1]
    pruned = width - int(n) if m else round(float(pattern) * width)
    least = scores.view(-1, width).topk(pruned, dim=1, largest=False).indices
    weight.view(-1, width).scatter_(1, least, 0.0)


def sparsegpt(weight: Tensor, moments: Tensor, pattern: str) -> None:
    """Prune column after column; those that follow make up for what is lost."""
    n, _, m = pattern.partition(":")
    moments = moments.clone()
    unused = moments.diagonal() == 0
    moments.diagonal()[unused] = 1.0
    weight[:, unused] = 0.0
    moments.diagonal().add_(DAMPING * moments.diagonal().mean())
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(moments))
    factor = torch.linalg.cholesky(inverse, upper=True)
    for start in range(0, weight.shape[1], BLOCK):
        stop = min(start + BLOCK, weight.shape[1])
        part, local = weight[:, start:stop].clone(), factor[start:stop, start:stop]
        losses, scale = torch.zeros_like(part), local.diagonal()
        pruned = torch.zeros_like(part, dtype=torch.bool)
        if not m:
            scores = (part / scale).square()
            count = round(float(pattern) * scores.numel())
            pruned = scores <= scores.flatten().kthvalue(count).values
        for column in range(stop - start):
            if m and column % int(m) == 0:
                group = slice(column, column + int(m))
                scores = (part[:, group] / scale[group]).square()
                least = scores.topk(int(m) - int(n), dim=1, largest=False).indices
                pruned[:, group] = torch.zeros_like(scores, dtype=torch.bool).scatter(
                    1, least, True
                )
            lost = part[:, column] * pruned[:, column] / scale[column]
            part[:, column:] -= lost[:, None] * local[column, column:]
            losses[:, column] = lost
        weight[:, start:stop] = part.masked_fill(pruned, 0.0)
        weight[:, stop:] -= losses @ factor[start:stop, stop:]


REFERENCES: dict[str, Prune] = {"Wanda": wanda, "SparseGPT": sparsegpt}
OURS = "reconstruct"


@torch.no_grad()
def pruned_by(
    prune: Prune, model: nn.Module, batches: list[Tensor], targets: Sequence[str], pattern: str
) -> None:
    """Prune the linear layers of a model block by block with a reference."""
    [blocks] = find_blocks(model)
    network = Network(model, [blocks], batches, forward, load=lambda _: nullcontext())
    calls = network.calls(blocks, known={})
    for name, block, of_block in zip(blocks.names, blocks, calls.of_block, strict=True):
        layers: dict[nn.Module, Tensor] = {
            layer: torch.zeros(layer.in_features, layer.in_features, device=layer.weight.device)
            for own, layer in block.named_modules()
            if isinstance(layer, nn.Linear) and matches(f"{name}.{own}.weight", targets)
        }

        def add(layer: nn.Module, args: tuple[Any, ...]) -> None:
            rows = args[0].flatten(0, -2)
            layers[layer].addmm_(rows.T, rows)  # noqa: B023 - used within this iteration

        hooks = [layer.register_forward_pre_hook(add) for layer in layers]
        run_through(block, list(calls.inputs), of_block)
        for hook in hooks:
            hook.remove()
        for layer, moments in layers.items():
            prune(layer.get_parameter("weight"), moments, pattern)
        run_through(block, calls.inputs, of_block)


def forward(model: nn.Module, batch: Tensor) -> object:
    """Run a causal model of transformers."""
    return model(batch, use_cache=False)


def matches(name: str, targets: Sequence[str]) -> bool:
    """Return whether a name of a parameter is one of the targets."""
    return any(fnmatch(name, target) for target in targets)


def step(pattern: str, targets: Sequence[str]) -> dict[str, Any]:
    """Return the step of a recipe with a pattern."""
    n, _, m = pattern.partition(":")
    if m:
        return {"method": "n_m", "n": int(n), "m": int(m), "targets": list(targets)}
    return {"method": "l1_unstructured", "amount": float(pattern), "targets": list(targets)}


@torch.no_grad()
def perplexity(model: nn.Module, tokens: Tensor) -> float:
    """Return the perplexity on token ids (samples, length)."""
    total = 0.0
    for batch in torch.split(tokens, BATCH):
        logits = model(batch, use_cache=False).logits[:, :-1].float()
        total += float(
            nn.functional.cross_entropy(
                logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"
            )
        )
    return math.exp(total / tokens[:, 1:].numel())


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Return the perplexity, seconds and peak memory of one method, pattern and seed."""
    from transformers import AutoModelForCausalLM

    method, pattern, seed = arguments.one[0], arguments.one[1], int(arguments.one[2])
    tokens = load_file(arguments.tokens)
    calibration = tokens["calibration"].long()
    order = torch.arange(len(calibration))
    if seed:
        order = torch.randperm(len(order), generator=torch.Generator().manual_seed(seed))
    device = find_device(arguments.device)
    batches = list(torch.split(calibration[order[: arguments.samples]].to(device), BATCH))
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=torch.float32).to(device)
    model.requires_grad_(False)
    start = time.perf_counter()
    with peak_memory() as peak:
        if method.startswith(OURS):
            recipe = Recipe.model_validate({"steps": [step(pattern, arguments.targets)]})
            steps = arguments.tune if method != OURS else 0
            reconstruct(
                model,
                recipe,
                batches,
                forward=forward,
                tuning_steps=steps,
                seed=seed,
                spread=arguments.spread if ":" not in pattern else 0.0,
            )
        elif method in REFERENCES:
            pruned_by(REFERENCES[method], model, batches, arguments.targets, pattern)
        seconds = time.perf_counter() - start
    held_out = tokens["held_out"][: arguments.held_out].long().to(device)
    found = perplexity(model.bfloat16().float(), held_out)
    return {"perplexity": found, "seconds": seconds, "bytes": peak[0]}


def cells(results: Sequence[dict[str, float]]) -> Iterator[str]:
    """Yield the cells of a method and a pattern, over all seeds."""
    values = [found["perplexity"] for found in results]
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    yield f"{fmean(values):.2f}{spread}"
    yield f"{fmean(found['seconds'] for found in results):.0f}"
    yield f"{max(found['bytes'] for found in results) / 1e9:.2f}"


def main() -> None:
    """Measure all methods at all patterns, each in a new process, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("tokens")
    parser.add_argument("--patterns", nargs="+", default=PATTERNS)
    parser.add_argument("--methods", nargs="+", default=[*REFERENCES, OURS])
    parser.add_argument("--targets", nargs="+", default=["*_proj.weight"])
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--held-out", type=int, metavar="N", help="samples to evaluate")
    parser.add_argument("--tune", type=int, default=0, metavar="STEPS")
    parser.add_argument("--spread", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "PATTERN", "SEED"), help="print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments)))
        return
    methods = [*arguments.methods, *([f"{OURS}, tuned"] if arguments.tune else [])]
    options = [arguments.folder, arguments.tokens, "--samples", str(arguments.samples)]
    if arguments.held_out:
        options += ["--held-out", str(arguments.held_out)]
    options += ["--tune", str(arguments.tune), "--spread", str(arguments.spread)]
    options += ["--device", arguments.device, "--targets", *arguments.targets]
    rows = []
    for pattern in arguments.patterns:
        for method in methods:
            results = [
                run_in_new_process(__file__, *options, "--one", method, pattern, str(seed))
                for seed in range(arguments.seeds)
            ]
            rows.append([pattern, method, *cells(results)])
            print("\t".join(rows[-1]), flush=True)
    text = table(["pattern", "method", "perplexity", "seconds", "GB"], rows)
    if arguments.write:
        replace_marked(arguments.write, text, MARKS)
    print(text)


if __name__ == "__main__":
    main()
