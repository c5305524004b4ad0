"""Every error that input can cause, as a person should read it."""


class PruneGuiError(Exception):
    """Base of every error that input can cause.

    The message is one sentence or two for a person: what happened, to which file or parameter,
    and what to do about it. The window and the command line show it as it stands.
    """


class CheckpointError(PruneGuiError):
    """A checkpoint cannot be opened, read or written."""


class RecipeError(PruneGuiError):
    """A recipe cannot be read, or cannot be carried out on this checkpoint."""


class StepError(RecipeError):
    """One step of a recipe cannot be carried out.

    Attributes:
        step: its number, from 1.
        reason: why, without the number.
    """

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(f"Step {step}: {reason}")
        self.step = step
        self.reason = reason


class Cancelled(PruneGuiError):  # noqa: N818 - what happened, and no mistake
    """The user stopped the work; everything is as it was before it began."""

    def __init__(self) -> None:
        super().__init__("Cancelled; nothing was changed.")
