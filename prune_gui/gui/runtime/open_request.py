"""What a start of the program was given to open; another start can send it as one line of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from prune_gui.session.state_file import StatePath

MAX_REQUEST_BYTES: Final = 1 << 20
MAX_TOKEN_CHARS: Final = 1_000
TOKEN_VARIABLES: Final = ("XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID")


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("the path is relative")
    return path


AbsolutePath = Annotated[StatePath, AfterValidator(_check_absolute)]


class OpenRequest(BaseModel):
    """Files to open. All paths are absolute: the receiver has another working folder.

    Attributes:
        checkpoint: a file or folder; None to show the window only.
        recipe: a recipe for the checkpoint.
        methods: Python files with pruning methods, which the user named on the command line.
        token: by which the desktop lets the receiver raise its window; "" if there is none.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    checkpoint: AbsolutePath | None = None
    recipe: AbsolutePath | None = None
    methods: Annotated[tuple[AbsolutePath, ...], Field(max_length=100)] = ()
    token: Annotated[str, Field(max_length=MAX_TOKEN_CHARS)] = ""

    def to_line(self) -> bytes:
        """Return the request as a line."""
        # pydantic's own JSON cannot hold surrogates, which occur in paths that are not UTF-8.
        return json.dumps(self.model_dump(), default=os.fspath).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> OpenRequest:
        """Return the request of a line."""
        try:
            return cls.model_validate(json.loads(line))
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"]) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def activation_token(environment: Mapping[str, str]) -> str:
    """Return the token that the desktop gave this start of the program, or ""."""
    tokens = (environment.get(name, "") for name in TOKEN_VARIABLES)
    return next((token for token in tokens if token), "")[:MAX_TOKEN_CHARS]
