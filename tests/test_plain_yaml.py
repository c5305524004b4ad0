"""Untrusted YAML: plain values only, in bounded time, or an error in one line."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import MAX_MESSAGE_CHARS, RecipeError
from prune_gui.plain_yaml import MAX_BYTES, MAX_NODES, dump_yaml, load_yaml
from prune_gui.recipe import Recipe

PATIENCE_S = 20
"""Limit for a text that takes at most 2 s on an idle machine, and minutes if parsed fully."""
STEP = "- {method: identity, targets: [a]}\n"

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text()
plain = st.recursive(
    scalars, lambda some: st.lists(some) | st.dictionaries(st.text(), some), max_leaves=20
)


@given(plain)
def test_plain_values_survive_and_equal_those_of_safe_load(value):
    text = dump_yaml(value)
    assert repr(load_yaml(text)) == repr(value) == repr(yaml.safe_load(text))


WORDS = "1e-3 .5 1. 1.5e+3 .inf -.inf .nan 0x1F 0o7 017 0b11 1_000 1:30 yes No off ~ null +1 1e5"


@pytest.mark.parametrize("word", WORDS.split())
def test_plain_scalars_equal_those_of_safe_load(word):
    text = f"a: {word}"
    assert repr(load_yaml(text)) == repr(yaml.safe_load(text))


@pytest.mark.parametrize("word", ["2024-01-01", "2024-13-45", "<<", "=", "9" * 5000])
def test_dates_merge_keys_and_too_long_numbers_are_strings(word):
    assert load_yaml(f"[{word}]") == [word]


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12)
)
HOSTILE = {
    "alias bomb": BOMB,
    "merge bomb": MERGES,
    "anchor": "start: &a dense",
    "cycle": "&a [*a]",
    "python tag": "!!python/object/apply:os.system ['true']",
    "float tag": "start: !!float x",
    "binary tag": "start: !!binary x",
    "own tag": "start: !x dense",
    "date": "version: 2024-13-45",
    "long number": "version: " + "9" * 5000,
    "underscores": "version: 0x_",
    "control characters": "start: \0dense",
    "half a character": "start: \ud800",
    "escaped half": 'start: "\\ud800"',
    "key twice": "start: dense\nstart: zeros",
    "field is a number": "1: 2",
    "field is a list": "? [a]\n: 1",
    "two documents": "start: dense\n--- \nstart: zeros",
    "documents": "---\n" * 300_000,
    "directives": "".join(f"%TAG !a{i}! b\n" for i in range(60_000)) + "---\nstart: dense",
    "brackets": "[" * 1_000_000,
    "braces": "{" * 1_000_000,
    "question marks": "? " * 500_000,
    "dashes": "- " * 500_000,
    "pairs": "[{" * 500_000,
    "deep indent": "".join(f"{' ' * i}a:\n" for i in range(3000)),
    "long key": "a" * 1_000_000 + ": 1",
    "long text": "start: " + "a" * 4_000_000,
    "blank": " " * 4_000_000 + "a",
    "lines": "\n" * 4_000_000 + "a",
    "comments": "#\n" * 2_000_000,
    "items": "protect:\n" + "- 1\n" * 500_000,
    "steps": "steps:\n" + STEP * 100_000,
    "wrong steps": "steps:\n" + "- {method: a}\n" * 250,
    "wrong targets": "steps: [{method: identity, targets: [" + "1, " * 20_000 + "]}]",
    "long target": f"protect: ['*{'a' * 1_000_000}']",
    "long method": f"steps: [{{method: {'a' * 1_000_000}, targets: [a]}}]",
    "long field": f"{'a' * 1000}: 1",
    "too long": "#" * (MAX_BYTES + 1),
    "too long in bytes": "#" + "é" * (MAX_BYTES // 2),
    "channels": "steps: [{method: channels, targets: [a], channels: 0-99999999999999999999999}]",
    "digits": f"steps: [{{method: channels, targets: [a], channels: '{'9' * 5000}'}}]",
    "commas": f"steps: [{{method: channels, targets: [a], channels: '{',' * 1_000_000}'}}]",
    "height": "steps: [{method: block, targets: [a], height: 1000000000000}]",
    "amount": "steps: [{method: lamp, targets: [a], amount: .inf}]",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_quickly_with_one_short_line(text):
    began = time.monotonic()
    with pytest.raises(RecipeError) as caught:
        Recipe.from_yaml(text, source="recipe.yaml")
    assert time.monotonic() - began < PATIENCE_S
    assert str(caught.value).startswith("recipe.yaml: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= MAX_MESSAGE_CHARS


yamlish = st.text(
    st.sampled_from(list("[]{}&*!|>%@`#,:?-'\"<=~ \t\n\r\\0123456789eEx._+a\0\x85\ufeff\ud800")),
    max_size=60,
)
words = st.sampled_from(
    [
        *("steps:", "- ", "method: ", "lamp", "targets: ", "[", "]", "{", "}", "'*'", ", ", "\n"),
        *("  ", "amount: ", "channels: ", "0-9", "&a ", "*a", "<<: ", "!!int ", "1e999", ".nan"),
        *("version: ", "protect: ", "size>_1", "9" * 400, "2024-13-45", "---\n", "%TAG ! x\n"),
    ]
)


@given(yamlish | st.lists(words | yamlish, max_size=25).map("".join))
def test_any_text_is_a_recipe_or_a_recipe_error(text):
    with suppress(RecipeError):
        recipe = Recipe.from_yaml(text)
        assert Recipe.from_yaml(recipe.to_yaml()) == recipe


def test_large_recipes_survive_a_round_trip():
    steps = [
        {"method": "channels", "targets": ["*"], "channels": "0-999999"},
        {"method": "channels", "targets": ["*"], "channels": list(range(0, 100_000, 2))},
    ]
    names = [f"model.layers.{i}.self_attn.q_proj.weight" for i in range(10_000)]
    recipe = Recipe.model_validate({"protect": names, "steps": steps})
    text = recipe.to_yaml()
    assert "channels: 0-999999" in text
    assert Recipe.from_yaml(text) == recipe


def test_no_number_is_omitted_from_the_file():
    recipe = Recipe.from_yaml("steps: [{method: ln_structured, targets: [a], n: .nan}]")
    assert "n: .nan" in recipe.to_yaml()
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe


def test_a_recipe_that_could_not_be_read_is_not_written():
    with pytest.raises(RecipeError, match="too long"):
        dump_yaml(["a"] * MAX_NODES)
    with pytest.raises(RecipeError, match="too long"):
        dump_yaml("a" * (MAX_BYTES + 1))
    with pytest.raises(RecipeError, match="not Unicode"):
        dump_yaml("\ud800")
