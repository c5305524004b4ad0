"""Masks in a `Trainer` of Lightning."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from prune_gui.training.kept import Kept, Source, keep


class KeepMasks(Callback):
    """Keeps masks while a model is fitted; its checkpoints contain them.

    Args:
        source, options: see `keep`; the optimizer is the first one of the model.
    """

    kept: Kept | None = None

    def __init__(self, source: Source = None, **options: Any) -> None:  # noqa: ANN401
        self._source, self._options = source, options
        self._restored: dict[str, Any] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        options = {"schedulers": schedulers, "resume": self._restored, **self._options}
        self.kept = keep(pl_module, trainer.optimizers[0], self._source, **options)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.kept is not None:
            self.kept.close()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.kept is None else self.kept.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored = state_dict or None
