"""The promises of the engine, measured beside torch.nn.utils.prune in the same run.

Usage: ``python benchmarks/engine.py [--large] [PART ...]``. The default is all parts, which takes
some minutes and 5 GB of memory. With ``--large`` the part `growth` goes up to 1,000 million weights
and the part `slider` draws a parameter of 872 million; each needs 2 GB in a temporary folder.
``--table docs/figures.md`` writes the promises there. Memory is measured on Linux only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import torch
from measuring import (
    HEADINGS,
    Figure,
    anonymous_memory,
    compare,
    fastest,
    peak_memory,
    run_in_new_process,
    seconds,
    table_row,
    write_in_chunks,
    write_table,
)
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import prune as reference

import prune_gui
from prune_gui import pruning
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.norms.unit_norms import channel_norms
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.density import density
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe import Recipe, Resolution, Step
from prune_gui.statistics.histogram import Histogram, bin_edges, histogram, value_range

SHAPE = (4096, 11008)
SQUARE = (4096, 4096)
LARGE = (16384, 53248)
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float8": torch.float8_e4m3fn,
}
MILLION = 1_000_000
NOISE = 0.1
"""Relative difference between runs of times of a few milliseconds."""
Part = Callable[[Path], Iterator[Figure]]


def step(method: str = "l1_unstructured", **parameters: object) -> Step:
    """Return a step for every parameter."""
    return Step(method=METHODS[method].model_validate(parameters), targets=("*",))


def random_weights(shape: tuple[int, ...], dtype: str) -> Tensor:
    """Return normally distributed weights, the same in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(DTYPES[dtype])


def saved(folder: Path, **tensors: Tensor) -> Checkpoint:
    """Write tensors to a file and open it."""
    save_file(tensors, folder / "model.safetensors")
    return prune_gui.open_checkpoint(folder / "model.safetensors")


def layer(weights: Tensor) -> nn.Module:
    """Return a module with these weights, without a copy."""
    module = nn.Module()
    module.weight = nn.Parameter(weights)
    return module


def file_masks(folder: Path) -> Iterator[Figure]:
    """L1 mask of one tensor of an open checkpoint."""
    recipe = Recipe(steps=[step(amount=0.5)])
    for dtype, times in (("float32", 40), ("bfloat16", 40), ("float16", None), ("float8", None)):
        weights = random_weights(SHAPE, dtype)
        with saved(folder, w=weights) as checkpoint:

            def here(checkpoint: Checkpoint = checkpoint) -> Callable[[], object]:
                return lambda: prune_gui.resolve(recipe, checkpoint).mask("w")

            work = f"L1 mask, {dtype} of a file, 4096 x 11008"
            if dtype == "float8":  # torch cannot sort float8
                yield Figure(work, seconds(fastest(9, here)[0]))
            else:
                yield compare(work, partial(module_work, reference, weights), here, times)


def file_scores(folder: Path) -> Iterator[Figure]:
    """Masks by balanced scores and RIA of one tensor of an open checkpoint, beside torch's L1."""
    weights = random_weights(SHAPE, "float32")
    with saved(folder, w=weights) as checkpoint:
        for name, times, chosen in (
            ("balanced scores", 40, step(amount=0.5, score="balanced")),
            ("RIA", 40, step(amount=0.5, score="ria")),
            ("balanced over LAMP", None, step("balanced", amount=0.5)),
        ):
            recipe = Recipe(steps=[chosen])

            def here(recipe: Recipe = recipe) -> Callable[[], object]:
                return lambda: prune_gui.resolve(recipe, checkpoint).mask("w")

            work = f"{name} (torch: L1), float32 of a file, 4096 x 11008"
            yield compare(work, partial(module_work, reference, weights), here, times)


def module_work(
    api: object, weights: Tensor, name: str = "l1_unstructured", *arguments: object
) -> Callable[[], object]:
    """Prepare a call of the module API, of torch or of this program."""
    module = layer(weights)
    return lambda: getattr(api, name)(module, "weight", 0.5, *arguments)


def stacked_work(api: object, weights: Tensor, *call: object) -> Callable[[], object]:
    """Prepare a call that prunes a module after an L1 step."""
    module = layer(weights)
    pruning.l1_unstructured(module, "weight", 0.3)
    return lambda: getattr(api, str(call[0]))(module, "weight", 0.5, *call[1:])


def modules(folder: Path) -> Iterator[Figure]:
    """The module API, which also writes a float mask, and torch the product."""
    for dtype in ("float32", "bfloat16"):
        weights = random_weights(SHAPE, dtype)
        for call, times in (
            (("l1_unstructured",), 10),
            (("ln_structured", 2, 0), 1),
            (("random_unstructured",), None),
        ):
            yield compare(
                f"module API, {call[0]}, {dtype} 4096 x 11008",
                partial(module_work, reference, weights, *call),
                partial(module_work, pruning, weights, *call),
                times,
                rounds=2,
            )
        for call in (("l1_unstructured",), ("ln_structured", 2, 0)):
            yield compare(
                f"module API, {call[0]} on top, {dtype} 4096 x 11008",
                partial(stacked_work, reference, weights, *call),
                partial(stacked_work, pruning, weights, *call),
                1,
                rounds=2,
            )


def global_modules(folder: Path) -> Iterator[Figure]:
    """Global L1 of live modules: time, and memory in addition to the weights."""
    weights = [random_weights(SQUARE, "float32") + i for i in range(6)]

    def work(api: object) -> Callable[[], object]:
        return globally(api, weights)

    name = "module API, global_unstructured, six float32 4096 x 4096"
    yield compare(name, partial(work, reference), partial(work, pruning), 8, rounds=1)
    save_file({f"w{i}": tensor for i, tensor in enumerate(weights)}, folder / "model.safetensors")
    weights.clear()
    path = folder / "model.safetensors"
    theirs, ours = (
        peak_of(side, path)["extra"] / 6 / SQUARE[0] / SQUARE[1] for side in ("torch", "modules")
    )
    yield Figure(
        "  memory per weight, with the mask (4 bytes)",
        f"{ours:.2f} bytes",
        f"{theirs:.0f} bytes",
        wanted="<= 10 bytes",
        held=ours <= 10,
    )


def globally(api: object, weights: Sequence[Tensor]) -> Callable[[], object]:
    """Prepare a global step of the module API, of torch or of this program."""
    parameters = [(layer(tensor), "weight") for tensor in weights]
    method = api.L1Unstructured
    return lambda: api.global_unstructured(parameters, pruning_method=method, amount=0.5)


def first_calls(folder: Path) -> Iterator[Figure]:
    """The first call of a process, whose imports are done and whose kernels are in the cache."""
    for call, times in (("l1_unstructured", 10), ("ln_structured", 1)):
        run_in_new_process(__file__, "--first", "here", call)  # fills the cache
        theirs, ours = (
            min(run_in_new_process(__file__, "--first", side, call)["seconds"] for _ in range(3))
            for side in ("torch", "here")
        )
        yield Figure(
            f"first call, kernels in the cache, {call}",
            seconds(ours),
            seconds(theirs),
            f"{theirs / ours:.1f} x",
            f">= {times} x",
            theirs >= times * ours,
        )


def call_first(side: str, call: str) -> None:
    """Prune a module once; print the seconds as JSON."""
    weights = random_weights(SHAPE, "float32")
    arguments = (2, 0) if call == "ln_structured" else ()
    api = reference if side == "torch" else pruning
    getattr(api, call)  # imports what it needs
    work = module_work(api, weights, call, *arguments)
    start = time.perf_counter()
    work()
    print(json.dumps({"seconds": time.perf_counter() - start}))


def global_step(folder: Path) -> Iterator[Figure]:
    """Global L1 over six tensors: time, and memory in addition to the weights."""
    weights = [random_weights(SQUARE, "float32") + i for i in range(6)]
    recipe = Recipe(steps=[step(amount=0.5, scope="global")])

    def torch_globally() -> Callable[[], object]:
        return globally(reference, weights)

    with saved(folder, **{f"w{i}": tensor for i, tensor in enumerate(weights)}) as checkpoint:

        def here() -> Callable[[], object]:
            return lambda: prune_gui.resolve(recipe, checkpoint)

        yield compare("global L1, six float32 4096 x 4096 of a file", torch_globally, here, 60, 2)
        path = checkpoint.path
    weights.clear()
    theirs = peak_of("torch", path)["extra"] / 6 / SQUARE[0] / SQUARE[1]
    ours = peak_of("here", path)["extra"] / SQUARE[0] / SQUARE[1]
    yield Figure(
        "  memory per weight (torch: of all; here: of the largest)",
        f"{ours:.2f} bytes",
        f"{theirs:.0f} bytes",
        wanted="<= 2 bytes",
        held=ours <= 2,
    )


def peak_of(side: str, path: Path) -> dict[str, float]:
    """Prune a checkpoint in one global step, in a process of its own; see `prune_alone`."""
    return run_in_new_process(__file__, "--alone", side, str(path))


def prune_alone(side: str, path: Path) -> None:
    """Prune half of a checkpoint in one global step; print the figures as JSON.

    `side` is "torch" or "modules" for the module API of torch or of this program, or "here" for
    `resolve`. `seconds` is the shorter time of two runs (module API: of one run). `most` is the
    peak of anonymous memory in bytes during the first run, and `extra` is its growth in that run.
    """
    recipe = Recipe(steps=[step(amount=0.5, scope="global")])
    with prune_gui.open_checkpoint(path) as checkpoint:

        def resolve() -> object:
            return prune_gui.resolve(recipe, checkpoint)

        run = resolve
        if side == "here":
            warm_up(next(iter(checkpoint.tensors.values())).dtype)
        else:
            api = reference if side == "torch" else pruning
            globally(api, [torch.ones(4, 4)])()
            run = globally(api, [checkpoint.read(name) for name in checkpoint.tensors])
        before = anonymous_memory()
        with peak_memory() as peak:
            start = time.perf_counter()
            run()
            duration = time.perf_counter() - start
        if side == "here":
            start = time.perf_counter()
            run()
            duration = min(duration, time.perf_counter() - start)
    print(json.dumps({"seconds": duration, "most": peak[0], "extra": peak[0] - before}))


def warm_up(dtype: str) -> None:
    """Compile the kernels of a global step."""
    with tempfile.TemporaryDirectory() as folder:
        weights = torch.ones(1 << 20, dtype=getattr(torch, dtype))  # fewer are not compiled for
        with saved(Path(folder), w=weights) as checkpoint:
            prune_gui.resolve(Recipe(steps=[step(amount=0.5, scope="global")]), checkpoint)


def norms(folder: Path) -> Iterator[Figure]:
    """Norms of channels, beside those of torch and one pass over the same memory."""
    for dtype in ("float32", "bfloat16"):
        weights = random_weights(SHAPE, dtype)
        for n, dim in product((2, 1, "inf", "-inf", 0, 0.5, 3), (0, 1)):
            yield from norms_of_order(
                weights, float(n), dim, f"L{n} norms along dim {dim}, {dtype}"
            )


def norms_of_order(weights: Tensor, n: float, dim: int, work: str) -> Iterator[Figure]:
    """Time one norm beside torch's, and beside the fastest way to read all of the memory.

    Both results are float32. Where torch is as fast as memory, this program calls torch, so the
    ratio differs from 1 only by noise. By default torch returns bfloat16 norms of bfloat16 weights,
    in whose 8 bits most channels of a layer have the same norm; that time is a row of its own.
    """
    words = weights.view(torch.int32)
    there, unasked, one_pass, here = fastest(
        15,
        lambda: partial(torch.linalg.vector_norm, weights, n, dim=1 - dim, dtype=torch.float32),
        lambda: partial(reference._compute_norm, weights, n, dim),
        lambda: words.max,
        lambda: partial(channel_norms, weights, n, dim),
    )
    yield Figure(
        f"{work} {SHAPE[0]} x {SHAPE[1]}",
        seconds(here),
        seconds(there),
        f"{there / here:.1f} x",
        f">= {1 - NOISE:g} x",
        there >= here * (1 - NOISE),
        minor=n != 2,
    )
    if weights.dtype is torch.bfloat16:
        few = reference._compute_norm(weights, n, dim).unique().numel()
        yield Figure(f"  torch unasked: {few:,} different norms", "", seconds(unasked), minor=True)
    yield Figure(
        f"  one pass over the same memory takes {seconds(one_pass)}",
        f"{here / one_pass:.1f} passes",
        wanted="<= 2 passes",
        held=here <= 2 * one_pass,
        minor=n != 2,
    )


def growth(folder: Path, *, large: bool = False) -> Iterator[Figure]:
    """One global step on checkpoints of increasing size."""
    for size in (1, 10, 100, *([1000] if large else [])):
        path = folder / f"{size}.safetensors"
        write_random(path, size * MILLION)
        figures = peak_of("here", path)
        path.unlink()
        yield Figure(
            f"global L1, {size:,} million bfloat16 weights of a file",
            seconds(figures["seconds"]),
            ratio=f"{1000 * figures['seconds'] / size:.2f} ns",
        )
        yield Figure(
            "  memory beyond mapped pages, all of the process",
            f"{figures['most'] / 1e6:.0f} MB",
            wanted="< 600 MB",
            held=figures["most"] < 600e6,
        )


def write_random(path: Path, size: int) -> None:
    """Write a checkpoint of random bfloat16 weights, 4 million per tensor, tensor by tensor."""
    generator = torch.Generator().manual_seed(0)
    per_tensor = min(size, 4 * MILLION)
    count = size // per_tensor
    shape = (per_tensor // 1000, 1000)
    chunks = (
        torch.randn(per_tensor, generator=generator).to(torch.bfloat16).view(torch.int16).numpy()
        for _ in range(count)
    )
    write_in_chunks(path, {f"layer.{i}.weight": ("BF16", shape) for i in range(count)}, chunks)


def slider(folder: Path, *, large: bool = False) -> Iterator[Figure]:
    """Updates after a new amount, and the first picture, as the window draws them."""
    for dtype in ("float32", "bfloat16"):
        with saved(folder, w=random_weights(SHAPE, dtype)) as checkpoint:
            yield slide(checkpoint, dtype)
            yield first_picture(checkpoint, dtype, wanted=0.15)
    if large:
        rows, columns = LARGE
        weights = random_weights((rows // 16, columns), "bfloat16")
        with saved(folder, w=weights.repeat(16, 1)) as checkpoint:
            yield first_picture(checkpoint, "bfloat16", wanted=0.4)


def slide(checkpoint: Checkpoint, dtype: str) -> Figure:
    """Measure how many times per second the only parameter can be pruned and drawn anew."""
    [(name, info)] = checkpoint.tensors.items()
    start = prune_gui.resolve(Recipe(), checkpoint)
    edges = bin_edges(*value_range(start, name, Monitor()), 1024, symmetric=True)
    amounts = iter(i % 997 / 997 for i in range(1, MILLION, 13))
    latest: list[Histogram | None] = [None]

    def update() -> object:
        resolution = start.with_step(step(amount=next(amounts)), Monitor())
        latest[0] = histogram(resolution, name, edges, Monitor(), latest[0])
        return picture(resolution, info), latest[0]

    update()
    count = 20
    duration = fastest(3, lambda: lambda: [update() for _ in range(count)])[0] / count
    return Figure(
        f"new amount, mask and histogram of {dtype} {shape_text(info)}",
        seconds(duration),
        ratio=f"{1 / duration:.1f}/s",
        wanted=">= 15 updates a second",
        held=1 / duration >= 15,
    )


def first_picture(checkpoint: Checkpoint, dtype: str, *, wanted: float) -> Figure:
    """Measure the time to resolve a step on the only parameter and draw its mask."""
    [info] = checkpoint.tensors.values()
    recipe = Recipe(steps=[step(amount=0.5)])
    duration = fastest(3, lambda: lambda: picture(prune_gui.resolve(recipe, checkpoint), info))[0]
    return Figure(
        f"step and first picture of {dtype} {shape_text(info)}",
        seconds(duration),
        wanted=f"<= {1000 * wanted:.0f} ms",
        held=duration <= wanted,
    )


def picture(resolution: Resolution, info: TensorInfo) -> object:
    """Compute the density picture of a whole parameter at the size of the window."""
    layout = SliceLayout.flattened(info.shape)
    return density(resolution, info.name, CellGrid.over(layout, (600, 800)), Monitor())


def shape_text(info: TensorInfo) -> str:
    """Return the shape of a parameter as "4096 x 11008"."""
    return " x ".join(map(str, info.shape))


PARTS: dict[str, Part] = {
    "masks": file_masks,
    "scores": file_scores,
    "modules": modules,
    "global_modules": global_modules,
    "first": first_calls,
    "global": global_step,
    "norms": norms,
    "growth": growth,
    "slider": slider,
}


def main() -> int:
    """Measure and print; return 1 if a promise is broken, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--table", type=Path, help="a Markdown file to write the promises to")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--first", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        prune_alone(options.alone[0], Path(options.alone[1]))
        return 0
    if options.first:
        call_first(*options.first)
        return 0
    larger = {part.__name__: partial(part, large=options.large) for part in (growth, slider)}
    parts = {**PARTS, **larger}
    print(table_row(HEADINGS))
    figures: list[Figure] = []
    for name in options.parts or parts:
        with tempfile.TemporaryDirectory() as folder:
            for figure in parts[name](Path(folder)):
                print(figure, flush=True)
                figures.append(figure)
    if options.table is not None:
        write_table(options.table, figures)
    return 0 if all(figure.held is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
