"""What is found out about the channels of a parameter, and how to say it. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.panels.wording import sparsity
from prune_gui.gui.views.subject import Subject
from prune_gui.recipe.codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.audit.norms import Channels
    from prune_gui.monitor import Monitor


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The channels of a parameter along one dimension.

    Attributes:
        subject: the parameter, and what is pruned of it.
        dim: the channels lie along it.
        n: the order of the norm.
        norms: of each channel, as it is in the file.
        channels: what is pruned of each.
    """

    subject: Subject
    dim: int
    n: float
    norms: NDArray[np.float64]
    channels: Channels

    @property
    def highest(self) -> float:
        """The largest finite norm; 1.0 if there is none above zero."""
        return float(np.max(self.norms, where=np.isfinite(self.norms), initial=0.0)) or 1.0

    def is_about(self, subject: Subject, dim: int) -> bool:
        """Tell whether it is about these channels, whatever is pruned of them."""
        return self.dim == dim and self.subject.same_parameter(subject)


def measure(
    subject: Subject, dim: int, n: float, before: Measured | None, monitor: Monitor
) -> Measured:
    """Measure the channels of a parameter; what is known from `before` is not measured again.

    Args:
        subject: the parameter, and what is pruned of it.
        dim: the channels lie along it.
        n: the order of the norm.
        before: about the same channels, or None.
        monitor: told of the work.

    Raises:
        Cancelled: the monitor said so.
    """
    from prune_gui.audit.norms import channels, norms

    resolution, name = subject.resolution, subject.name
    if before is not None and before.n == n:
        found = before.norms
    else:
        found = norms(resolution.checkpoint, name, dim, n, monitor)
    if before is not None and before.subject.resolution is resolution:
        pruned = before.channels
    else:
        pruned = channels(resolution, name, dim, monitor)
    return Measured(subject, dim, n, found, pruned)


def describe_channel(measured: Measured, channel: int) -> str:
    """Say what there is to know of a channel."""
    channels, subject = measured.channels, measured.subject
    counts = dict(zip(channels.codes, channels.counts[:, channel].tolist(), strict=True))
    pruned = channels.size - counts[KEPT]
    parts = [
        f"channel {channel:,}: norm {measured.norms[channel]:.5g}",
        f"{pruned:,} of {channels.size:,} pruned ({sparsity(pruned, channels.size)})",
    ]
    parts += [
        f"{'all' if count == pruned else f'{count:,}'} by {subject.title(code)}"
        for code, count in counts.items()
        if count and code not in (KEPT, IN_FILE)
    ]
    if not channels.alive[channel]:
        parts.append("dead")
    return ", ".join(parts)
