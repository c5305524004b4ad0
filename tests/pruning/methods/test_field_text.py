"""The texts of fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

from prune_gui.pruning.methods.fields import FieldText, text_of

Inner = Annotated[int, FieldText(label="inner", values={"1": "one"})]


class Model(BaseModel):
    inner: Inner = 0
    outer: Annotated[Inner, FieldText(label="outer", show=lambda _, value: f"<{value}>")] = 0
    plain: int = 0


def text(name: str) -> FieldText:
    return text_of(Model.model_fields[name])


def test_the_outermost_texts_count():
    assert [text(name).label for name in Model.model_fields] == ["inner", "outer", ""]


def test_a_value_is_shown_by_its_text_or_with_the_name_of_the_field():
    assert text("inner").in_title(None, "inner", 1) == "one"
    assert text("inner").in_title(None, "inner", 2) == "inner 2"
    assert text("outer").in_title(None, "outer", 2) == "<2>"
    assert text("plain").in_title(None, "plain", 2) == "plain 2"
