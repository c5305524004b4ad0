"""The engine threads: jobs, progress, cancel, latest-wins. No Qt."""

from prune_gui.worker.engine import (
    Dropped,
    Engine,
    Event,
    Failed,
    Finished,
    Job,
    Progressed,
    Reported,
    Started,
)

__all__ = [
    "Dropped",
    "Engine",
    "Event",
    "Failed",
    "Finished",
    "Job",
    "Progressed",
    "Reported",
    "Started",
]
