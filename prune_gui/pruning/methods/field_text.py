"""The texts of a field of a method: its label in the form, and its value in the title of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prune_gui.language import tr

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FieldText:
    """The texts of a field, as metadata of its type: ``Annotated[int, FieldText(...)]``.

    Attributes:
        label: the label in the form, with its mnemonic; a message for `tr`. "": the field's name.
        placeholder: what an empty field of a file means; a message for `tr`.
        choices: by value as text, the text of a choice in the form; a message for `tr`. Other
            values are shown as they are.
        folded: whether the form shows the field below *More*.
        position: the position among the fields that the title of a step always contains; None if
            the title contains the field only where it differs from its default.
        values: by value as text, the text of a value in the title of a step; a message for `tr`.
        show: returns the text of a value that `values` does not have, from the method and the
            value; None for the name of the field and the value.
    """

    label: str = ""
    placeholder: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    folded: bool = False
    position: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    show: Callable[[Any, Any], str] | None = None

    def in_title(self, method: object, name: str, value: object) -> str:
        """Return the text of the value of a field in the title of a step; "" to leave it out."""
        if message := self.values.get(str(value)):
            return tr(message)
        return self.show(method, value) if self.show else f"{name} {value}"


def text_of(field_info: FieldInfo) -> FieldText:
    """Return the texts of a field; those of the outermost annotation if there are several."""
    texts = [item for item in field_info.metadata if isinstance(item, FieldText)]
    return texts[-1] if texts else FieldText()
