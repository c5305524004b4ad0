"""The channels of a parameter: their norms or ranks, and texts about them. No Qt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.views.bars.data import ChannelData, NormOrScore, ScoreOf
from prune_gui.language import deferred, format_number, join_clauses, tr
from prune_gui.number_formats import sparsity
from prune_gui.recipe.recipe import IN_FILE, KEPT
from prune_gui.session.subjects import Subject, by
from prune_gui.table import Table

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import ChannelCut


def channel_cuts(subject: Subject) -> dict[ScoreOf, ChannelCut]:
    """Return the cuts through the channels of steps that rank them, the draft's and later first."""
    cuts = {}
    steps = zip(subject.resolution.recipe.steps, subject.resolution.outcomes, strict=True)
    for number, (step, outcome) in enumerate(steps, start=1):
        predicate = outcome.predicates.get(subject.name)
        if predicate is not None and step.method.unit == "channel" and step.method.score_kind:
            cuts[ScoreOf(number)] = cast("ChannelCut", predicate)
    numbers = sorted(cuts, key=lambda one: (one.step == subject.draft, one.step), reverse=True)
    return {one: cuts[one] for one in numbers}


def measure(
    subject: Subject, dim: int, by: NormOrScore, before: ChannelData | None, monitor: Monitor
) -> ChannelData:
    """Compute the norms and the pruned counts of the channels; results in `before` are reused.

    If `by` is one of `channel_cuts`, it ranks along `dim`.
    """
    # torch: slow to import
    from prune_gui.statistics.channel_statistics import channels, norms, norms_by_step, ranks

    resolution, name = subject.resolution, subject.name
    cut = shared_cut = None
    is_same = before is not None and before.subject.resolution is resolution
    if isinstance(by, ScoreOf):
        predicate = channel_cuts(subject)[by]
        chosen = predicate.chosen()
        norms_or_ranks, cut = ranks(chosen)
        shared_cut = _shared_cut(subject, by.step, predicate)
    elif before is not None and before.by == by:
        norms_or_ranks = before.norms
    else:
        norms_or_ranks = norms(resolution.checkpoint, name, dim, by, monitor)
    pruned = before.channels if before and is_same else channels(resolution, name, dim, monitor)
    if before is not None and is_same and before.by == by:
        parts = before.parts
    elif isinstance(by, ScoreOf):
        parts = np.tile(norms_or_ranks, (len(pruned.codes), 1))
        if by.step in pruned.codes:
            parts[: pruned.codes.index(by.step), chosen.pruned] = 0.0
    else:
        parts = norms_by_step(resolution, name, dim, by, norms_or_ranks, monitor)
    return ChannelData(subject, dim, by, norms_or_ranks, pruned, parts, cut, shared_cut)


def _shared_cut(subject: Subject, step: int, own: ChannelCut) -> float | None:
    from prune_gui.pruning.predicates import ChannelCut  # torch: slow to import
    from prune_gui.statistics.channel_statistics import shared_rank  # torch: slow to import

    method = subject.resolution.recipe.steps[step - 1].method
    if method.ranking_scope != "global" or getattr(method, "max_sparsity", 1.0) == 1.0:
        return None
    predicates = subject.resolution.outcomes[step - 1].predicates.values()
    return shared_rank(
        own.chosen(), [one.chosen() for one in predicates if isinstance(one, ChannelCut)]
    )


def norm_rule(n: float) -> str:
    """Return how the norm of a channel follows from those of its kept and its pruned weights."""
    if n == math.inf:
        return tr("norm = max(kept, pruned)")
    if n < 0:
        return tr("kept = 0 as soon as a weight is pruned")
    if n in (0.0, 1.0):
        return tr("norm = kept + pruned")
    power = {2.0: "²", 3.0: "³"}.get(n, f"^{format_number(n, 'g')}")
    return tr("norm{power} = kept{power} + pruned{power}", power=power)


def describe_channel(measured: ChannelData, channel: int) -> str:
    """Describe a channel in one line."""
    channels, subject = measured.channels, measured.subject
    counts = dict(zip(channels.codes, channels.counts[:, channel].tolist(), strict=True))
    pruned = channels.size - counts[KEPT]
    value, kept = float(measured.norms[channel]), float(measured.parts[0, channel])
    message = deferred("channel {channel:,}: norm {value:.4g}, kept {kept:.4g}")
    if isinstance(measured.by, ScoreOf):
        message = deferred("channel {channel:,}: rank {value:.5g}")
    size, share = channels.size, sparsity(pruned, channels.size)
    parts = [tr(message, channel=channel, value=value, kept=kept)]
    parts += [
        tr("{pruned:,} of {total:,} pruned ({share})", pruned=pruned, total=size, share=share)
    ]
    parts += [
        by(subject.title(code), count, pruned)
        for code, count in counts.items()
        if count and code not in (KEPT, IN_FILE)
    ]
    if channels.dead[channel]:
        parts.append(tr("dead"))
    return join_clauses(parts)


def table_of(measured: ChannelData, order: NDArray[np.intp]) -> Table:
    """Return the channels in a given order, for export."""
    channels, subject = measured.channels, measured.subject
    heading = tr("rank")
    if not isinstance(measured.by, ScoreOf):
        heading = tr("{order:g}-norm", order=measured.by)
    counts = {
        subject.title(code): row[order]
        for code, row in zip(channels.codes, channels.counts, strict=True)
    }
    return Table(
        tr("{name} norms along dim {dim}", name=subject.name, dim=measured.dim),
        {
            tr("channel"): order,
            heading: measured.norms[order],
            tr("kept"): measured.parts[0, order],
            **counts,
            tr("dead"): channels.dead[order],
        },
    )
