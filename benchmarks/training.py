"""What keeping masks costs a step of training, and what schedules reach on the demo.

Usage: ``python benchmarks/training.py [cost|digits]``. The cost is that of a step of AdamW on a
transformer of 19 M weights with 2048 tokens, half pruned: alone, with masks, and with a loop that
multiplies by masks of float32. On the demo, 95 % of the weights are pruned: at once, after training
or half way; by the cubic schedule; while elements are moved; and by tickets of a lottery beside
tickets of the same sparsities whose elements are chosen at random. 99 % are pruned at once half
way, and by the cubic schedule. All train for the same number of steps after their last rewinding.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev

import torch
from measuring import Figure
from torch import nn

from prune_gui import Recipe, training

sys.path.insert(0, str(Path(__file__).parents[1] / "resources" / "demo"))
from model import DigitsCNN, accuracy, digits

WIDTH, LAYERS, TOKENS = 512, 6, (16, 128)
COST_LIMIT = 0.02
REPEATS = 7
SPARSITY, HIGHER_SPARSITY = 0.95, 0.99
STEPS, BATCH, SEEDS = 600, 64, 5
ROUNDS, REWIND_TO = 13, 60


def recipe(method: str, **fields: object) -> Recipe:
    """Return a recipe of one step on the matrices and kernels of a model."""
    step = {"method": method, "targets": ["dims>1"], **fields}
    return Recipe.model_validate({"steps": [step]})


def measure_cost() -> None:
    """Print the seconds of a step with and without masks, the best of each."""
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
    plain = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    batch = torch.randn(*TOKENS, WIDTH)
    steps: dict[str, Callable[[], object]] = {}
    for name in ("alone", "with masks", "with a loop"):
        model = copy.deepcopy(plain)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
        after: Callable[[], object] = lambda: None  # noqa: E731
        if name != "alone":
            kept = training.keep(model, optimizer, recipe("l1_unstructured", amount=0.5))
            masks = {model.get_parameter(n): (~m.pruned()).float() for n, m in kept.masks.items()}
            if name == "with a loop":
                kept.close()
                after = lambda masks=masks: [p.data.mul_(m) for p, m in masks.items()]  # noqa: E731
        steps[name] = lambda m=model, o=optimizer, a=after: step(m, o, a, batch)
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(REPEATS):
        for name, run in steps.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    alone = best["alone"]
    for name, limit in (("with masks", COST_LIMIT), ("with a loop", None)):
        cost = best[name] / alone - 1
        times = f"{1000 * best[name]:.0f} ms", f"{1000 * alone:.0f} ms", f"{cost:+.1%}"
        wanted = ("", None) if limit is None else (f"< {limit:.0%} more", cost < limit)
        print(Figure(f"step of AdamW {name}", *times, *wanted))


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    after: Callable[[], object],
    batch: torch.Tensor,
) -> None:
    """Train a step."""
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    after()


def train(seed: int, steps: int, source: object = None, **options: object) -> tuple[float, float]:
    """Return the accuracy of the demo's network after training, and its sparsity."""
    torch.manual_seed(seed)
    images, test = digits()
    network = DigitsCNN()
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=0.05)
    with training.keep(network, optimizer, source, **options) as kept:  # type: ignore[arg-type]
        for _ in range(steps):
            batch = torch.randint(len(images.labels), (BATCH,))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images.images[batch]), images.labels[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        report = kept.report()
    total = sum(one.total for one in report) or 1
    return accuracy(network, test), sum(one.pruned for one in report) / total


def gradually_and_at_once(
    source: Recipe, sparsity: float
) -> list[tuple[str, int, Recipe, training.Schedule]]:
    """Return two ways to a sparsity that leave the same number of steps after half of them."""
    at_once = training.one_shot(sparsity, at=STEPS // 2)
    cubic = training.cubic(0.0, sparsity, steps=STEPS // 2, every=10, begin=STEPS // 10)
    return [("at once, half way", STEPS, source, at_once), ("cubic", STEPS, source, cubic)]


def measure_digits() -> None:
    """Print the accuracy of each way to a sparsity, mean and deviation over seeds."""
    torch.set_num_threads(1)  # a sum split over threads rounds differently
    magnitude = recipe("l1_unstructured", scope="global")
    at_random = recipe("random_unstructured", scope="global")
    rounds = training.lottery_ticket(
        rounds=ROUNDS, steps=STEPS, pruned=1 - (1 - SPARSITY) ** (1 / ROUNDS), rewind_to=REWIND_TO
    )
    regrowing = training.regrowing(every=20, until=3 * STEPS // 4, sparsity=SPARSITY)
    all_steps = STEPS + ROUNDS * (STEPS - REWIND_TO)
    ways: list[tuple[str, int, Recipe | None, training.Schedule | None]] = [
        ("dense", STEPS, None, None),
        ("at once, at the end", STEPS, magnitude, training.one_shot(SPARSITY, at=STEPS)),
        *gradually_and_at_once(magnitude, SPARSITY),
        ("RigL from a random mask", STEPS, at_random, regrowing),
        ("lottery ticket", all_steps, magnitude, rounds),
        ("random ticket", all_steps, at_random, rounds),
        *gradually_and_at_once(magnitude, HIGHER_SPARSITY),
    ]
    for name, steps, source, schedule in ways:
        results = [train(seed, steps, source, schedule=schedule) for seed in range(SEEDS)]
        values = [value for value, _ in results]
        print(f"{name:<26} {results[0][1]:.1%} pruned   {mean(values):.4f} +- {stdev(values):.4f}")


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["cost", "digits"], default="cost")
    measure_digits() if parser.parse_args().what == "digits" else measure_cost()


if __name__ == "__main__":
    main()
