"""Masks in a `Trainer` of transformers, and in what is built on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from prune_gui.training.kept import Kept, Source, keep


class KeepMasks(TrainerCallback):
    """Keeps masks while a model is trained; the checkpoints contain them.

    Args:
        source, options: see `keep`.
    """

    kept: Kept

    def __init__(self, source: Source = None, **options: Any) -> None:  # noqa: ANN401
        self._source, self._options = source, options

    def on_train_begin(self, args: Any, state: Any, control: object, **own: Any) -> None:  # noqa: ANN401
        saved = _folder(args, state)
        options = {"schedulers": [own["lr_scheduler"]], "resume": saved if saved.exists() else None}
        self.kept = keep(own["model"], own["optimizer"], self._source, **options | self._options)

    def on_save(self, args: Any, state: Any, control: object, **_: object) -> None:  # noqa: ANN401
        self.kept.save(_folder(args, state))

    def on_train_end(self, *_: object, **__: object) -> None:
        self.kept.close()


def _folder(args: Any, state: Any) -> Path:  # noqa: ANN401
    return Path(args.output_dir, f"checkpoint-{state.global_step}", "prune_gui")
