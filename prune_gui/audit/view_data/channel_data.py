"""The channels of a parameter, and texts about them. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.rendering.axis_limits import span
from prune_gui.audit.table import Table
from prune_gui.audit.view_data.subject import Subject, by
from prune_gui.language import join_clauses, tr
from prune_gui.number_formats import sparsity
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.audit.statistics.norms import ChannelStatistics
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import ChannelCut


@dataclass(frozen=True, slots=True, eq=False)
class ChannelData:
    """The channels of a parameter along one dimension.

    Attributes:
        subject: the parameter and its resolution.
        dim: dimension of the channels.
        n: order of the norm; None for the scores by which the draft ranks channels.
        norms: float64 (channels,), the norms in the file, or the draft's scores.
        channels: what is pruned of each channel.
        cut: score up to which the draft prunes, 0.0 if it prunes nothing; None unless the norms
            are the draft's scores.
    """

    subject: Subject
    dim: int
    n: float | None
    norms: NDArray[np.float64]
    channels: ChannelStatistics
    cut: float | None = None

    @property
    def highest(self) -> float:
        """Upper end of the axis: the largest finite norm; 1.0 if none is above zero."""
        highest = float(np.max(self.norms, where=np.isfinite(self.norms), initial=0.0))
        return span(0.0, highest or 1.0)[1]

    def is_about(self, subject: Subject, dim: int) -> bool:
        """Return whether it is about these channels, regardless of what is pruned of them."""
        return self.dim == dim and self.subject.same_parameter(subject)


def drafted_cut(subject: Subject) -> ChannelCut | None:
    """Return the draft's cut through the channels; None if the draft ranks no channels."""
    if subject.draft is None:
        return None
    outcome = subject.resolution.outcomes[subject.draft - 1]
    method = subject.resolution.recipe.steps[subject.draft - 1].method
    predicate = outcome.predicates.get(subject.name)
    if method.unit != "channel" or method.score_kind is None:
        return None
    return cast("ChannelCut | None", predicate)


def measure(
    subject: Subject, dim: int, n: float | None, before: ChannelData | None, monitor: Monitor
) -> ChannelData:
    """Compute the norms and the pruned counts of the channels; results in `before` are reused.

    Args:
        subject: the parameter and its resolution.
        dim: dimension of the channels.
        n: order of the norm; None for the scores by which the draft ranks along `dim`.
        before: a result for the same channels, or None.
        monitor: receives the progress.

    Raises:
        Cancelled: if the monitor is cancelled.
    """
    from prune_gui.audit.statistics.norms import channels, norms, ranks  # torch: slow to import

    resolution, name = subject.resolution, subject.name
    cut = None
    if n is None:
        drafted = drafted_cut(subject)
        assert drafted is not None
        norms_or_ranks, cut = ranks(drafted.chosen())
    elif before is not None and before.n == n:
        norms_or_ranks = before.norms
    else:
        norms_or_ranks = norms(resolution.checkpoint, name, dim, n, monitor)
    if before is not None and before.subject.resolution is resolution:
        pruned = before.channels
    else:
        pruned = channels(resolution, name, dim, monitor)
    return ChannelData(subject, dim, n, norms_or_ranks, pruned, cut)


def describe_channel(measured: ChannelData, channel: int) -> str:
    """Describe a channel in one line."""
    channels, subject = measured.channels, measured.subject
    counts = dict(zip(channels.codes, channels.counts[:, channel].tolist(), strict=True))
    pruned = channels.size - counts[KEPT]
    value, share = float(measured.norms[channel]), sparsity(pruned, channels.size)
    parts = [
        tr("channel {channel:,}: rank {value:.5g}", channel=channel, value=value)
        if measured.n is None
        else tr("channel {channel:,}: norm {value:.5g}", channel=channel, value=value),
        tr(
            "{pruned:,} of {total:,} pruned ({share})",
            pruned=pruned,
            total=channels.size,
            share=share,
        ),
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
    counts = {
        subject.title(code): row[order]
        for code, row in zip(channels.codes, channels.counts, strict=True)
    }
    return Table(
        tr("{name} norms along dim {dim}", name=subject.name, dim=measured.dim),
        {
            tr("channel"): order,
            _heading(measured): measured.norms[order],
            **counts,
            tr("dead"): channels.dead[order],
        },
    )


def _heading(measured: ChannelData) -> str:
    return tr("rank") if measured.n is None else tr("{order:g}-norm", order=measured.n)
