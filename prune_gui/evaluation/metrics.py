"""The numbers that an evaluator returns: reading them, and choosing the one that counts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from prune_gui.errors import EvaluationError, one_line

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation


MAX_METRICS: Final = 1000
MAX_NAME_LENGTH: Final = 100
MAX_LISTED: Final = 12
MAX_DEPTH: Final = 8
MAX_SEARCHED_CHARS: Final = 1 << 20
"""The end of an output in which JSON objects are searched."""
OBJECT_START: Final = re.compile(r"^[ \t]*(\{)", re.MULTILINE)
TABLES: Final = ("Tasks", "Groups")
"""The first headings of the tables of lm-evaluation-harness."""
SINGLE: Final = "value"
"""The name of a number that has none."""
OBVIOUS: Final = (SINGLE, "score")
LOWER_IS_BETTER: Final = (
    *("loss", "perplexity", "ppl", "error", "err", "wer", "cer", "mse", "mae", "rmse", "nll"),
    *("bpb", "bits_per_byte", "cross_entropy", "fid"),
)
"""Names, or last parts of names, of metrics that are better when they are lower."""

Metrics = Mapping[str, float]


def metrics_of(value: object) -> dict[str, float]:
    """Return the numbers of a JSON value by name; those of nested objects as "outer.inner".

    Of the output of lm-evaluation-harness, only `results` without standard errors are used.
    """
    if isinstance(value, dict) and isinstance(value.get("results"), dict):
        value = value["results"]
    metrics = dict(_numbers(value, "", 0))
    if not metrics:
        raise EvaluationError(
            "The evaluator returned no number. Return a number, or numbers by name."
        )
    if len(metrics) > MAX_METRICS:
        raise EvaluationError(
            "The evaluator returned more than {limit:,} numbers.", limit=MAX_METRICS
        )
    return metrics


def _numbers(value: object, name: str, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool | int | float):
        with suppress(OverflowError):
            yield name or SINGLE, float(value)
    elif isinstance(value, dict) and depth <= MAX_DEPTH:
        for key, each in value.items():
            part = one_line(str(key).removesuffix(",none"), MAX_NAME_LENGTH)
            if "_stderr" not in part:
                yield from _numbers(each, f"{name}.{part}" if name else part, depth + 1)


def metrics_in(text: str) -> dict[str, float]:
    """Return the numbers that a command printed, whatever else it printed.

    These are, in this order: all of the text as JSON, the last JSON object that begins at the start
    of a line, the tables of lm-evaluation-harness, the last line that is a number.
    """
    with suppress(ValueError, RecursionError, EvaluationError):
        return metrics_of(json.loads(text))
    found = None
    for value in _objects(text[-MAX_SEARCHED_CHARS:]):
        with suppress(EvaluationError):
            found = metrics_of(value)
    found = found or dict(_in_tables(text.splitlines()))
    if found:
        return found
    for line in reversed(text.splitlines()):
        with suppress(ValueError):
            return {SINGLE: float(line)}
    raise EvaluationError(
        "The evaluator printed no result. Its last output must be a number or a JSON object, "
        'such as {"accuracy": 0.9}.'
    )


def _objects(text: str) -> Iterator[object]:
    """Yield the JSON objects that begin at the start of a line, without those inside others."""
    decoder = json.JSONDecoder()
    end = 0
    for match in OBJECT_START.finditer(text):
        if match.start(1) >= end:
            with suppress(ValueError, RecursionError):
                value, end = decoder.raw_decode(text, match.start(1))
                yield value


def _in_tables(lines: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the values in the Markdown tables of lm-evaluation-harness, by "task.metric".

    An empty cell repeats the one above it. A filter other than "none" is a part of the name.
    """
    header: list[str] = []
    task = ""
    for line in lines:
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        if {"Metric", "Value"} <= set(cells) and cells[0] in TABLES:
            header = cells
        elif header and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            task = cells[0].removeprefix("-").strip() or task
            filter_ = row.get("Filter", "none")
            name = row["Metric"] if filter_ == "none" else f"{row['Metric']},{filter_}"
            with suppress(ValueError):
                yield one_line(f"{task}.{name}", MAX_NAME_LENGTH), float(row["Value"])
        else:
            header = []


def chosen(metrics: Metrics, wanted: str | None) -> str:
    """Return the metric that counts: the wanted one, the only one, or an obvious one."""
    if wanted is not None:
        if wanted in metrics:
            return wanted
        raise EvaluationError(
            "The evaluator returned no metric {name!r}. It returned: {names}.",
            name=wanted,
            names=_listed(metrics),
        )
    if len(metrics) == 1:
        return next(iter(metrics))
    obvious = [name for name in OBVIOUS if name in metrics]
    if len(obvious) == 1:
        return obvious[0]
    raise EvaluationError(
        "The evaluator returns several metrics. Choose one of them (--metric NAME): {names}.",
        names=_listed(metrics),
    )


def is_higher_better(name: str) -> bool:
    """Return whether higher values of a metric are better, judging by its name."""
    words = name.lower().replace("-", "_").rpartition(".")[2]
    return not any(words == lower or words.endswith("_" + lower) for lower in LOWER_IS_BETTER)


def number_text(value: float) -> str:
    """Return a number as text, with up to 6 significant digits."""
    return f"{value:.6g}"


def json_number(value: float) -> float | None:
    """Return a number for JSON, which has neither NaN nor infinity; these are None."""
    return value if math.isfinite(value) else None


def _listed(metrics: Metrics) -> str:
    names = list(metrics)
    more = f", ... ({len(names)})" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


@dataclass(frozen=True, slots=True)
class Metric:
    """The number of an evaluation that counts."""

    name: str | None = None
    better: Literal["higher", "lower"] | None = None
    shown_name: str | None = None

    def name_in(self, evaluation: Evaluation) -> str:
        """Return the name of the number that counts."""
        try:
            return chosen(evaluation.metrics, self.name)
        except EvaluationError:
            return self.name or next(iter(evaluation.metrics))

    def title(self, evaluation: Evaluation) -> str:
        """Return how the number that counts is called."""
        return self.shown_name or self.name_in(evaluation)

    def value(self, evaluation: Evaluation | None) -> float:
        """Return the number that counts; NaN if there is none."""
        if evaluation is None:
            return math.nan
        return evaluation.metrics.get(self.name_in(evaluation), math.nan)

    def higher_is_better(self, evaluation: Evaluation) -> bool:
        """Return whether higher values are better."""
        if self.better is not None:
            return self.better == "higher"
        return is_higher_better(self.name_in(evaluation))


def share_of(value: float, dense: float) -> float:
    """Return a value as a share of the dense one; NaN if that is zero or not finite."""
    return value / dense if dense and math.isfinite(dense) else math.nan
