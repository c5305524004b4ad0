"""The cluster of a command with ``--cluster``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from prune_gui.cli.printing import job
from prune_gui.cluster import open_cluster, use_cluster
from prune_gui.session.end_signals import end_signals

if TYPE_CHECKING:
    from prune_gui.cluster import Client


@contextmanager
def on_cluster(where: str | None) -> Iterator[Client | None]:
    """Run large tasks on the workers of a cluster within a block."""
    if where is None:
        yield None
        return
    opened = ExitStack()
    try:
        with job("Connecting to the cluster", with_bar=False) as (_, stop):
            client = opened.enter_context(open_cluster(where, stop))
        with use_cluster(client):
            yield client
    finally:
        with end_signals(lambda _: None):  # else processes of the cluster could be left
            opened.close()
