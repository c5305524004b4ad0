"""Architecture tables: what a file may hold, and what a message says about one that may not."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.tables import ArchitectureTable, load_table, name_pattern, own_tables
from prune_gui.errors import RecipeError
from prune_gui.plain_yaml import dump_yaml

TABLE = {
    "family": "Own",
    "stacks": ["layers"],
    "signature": ["up.weight"],
    "counts": {"heads": ["n_head"]},
    "spaces": {"ffn": {"title": "neurons", "members": [{"name": "up.weight"}]}},
}


@pytest.fixture
def table_file(tmp_path):
    def write(**changes):
        path = tmp_path / "own.yaml"
        path.write_text(dump_yaml(TABLE | changes))
        return path

    return write


def member_of(**changes):
    return {"ffn": {"title": "neurons", "members": [{"name": "up.weight"} | changes]}}


def test_own_tables_are_for_different_models():
    tables = own_tables()
    model_types = [model_type for table in tables for model_type in table.model_types]
    assert len(tables) > 10
    assert len(set(model_types)) == len(model_types)
    assert {"llama", "bert", "gpt2", "t5", "whisper", "mixtral", "gpt_oss"} <= set(model_types)


def test_own_tables_are_read_once():
    assert own_tables() is own_tables()


def test_a_table_of_the_user_is_read(table_file):
    table = load_table(table_file())
    assert table.spaces["ffn"].members[0].parts == (1,)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"family": ""}, "family"),
        ({"stacks": []}, "stacks"),
        ({"stacks": ["layers.*"]}, "stacks.0"),
        ({"signature": []}, "signature"),
        ({"spaces": {}}, "spaces"),
        ({"colour": "red"}, "colour"),
        ({"spaces": member_of(name="../up")}, "spaces.ffn.members.0.name"),
        ({"spaces": member_of(name="a**.b")}, "spaces.ffn.members.0.name"),
        ({"spaces": member_of(dim=None)}, "'up.weight' needs either a dim or one {unit}"),
        ({"spaces": member_of(name="e.{unit}.w")}, "'e.{unit}.w' needs either a dim"),
        ({"spaces": member_of(dim=-1)}, "spaces.ffn.members.0.dim"),
        ({"spaces": member_of(parts=[0])}, "spaces.ffn.members.0.parts.0"),
        ({"spaces": member_of(parts=["kv_heads"])}, "ffn: there is no count 'kv_heads'"),
        ({"spaces": member_of(shared_length="width")}, "ffn: there is no count 'width'"),
        ({"spaces": {"ffn": {"title": "n", "size": "size"}}}, "ffn: there is no count 'size'"),
        ({"spaces": {"ffn": {"title": "n", "stacks": ["h"]}}}, "ffn: there is no stack 'h'"),
        (
            {"spaces": {"ffn": {"title": "n", "loadable_with": ["heads"]}}},
            "ffn: there is no space 'heads'",
        ),
        (
            {"spaces": {"ffn": {"title": "n", "config": [{"field": "a", "multiple_of": "size"}]}}},
            "ffn: there is no count 'size'",
        ),
        ({"counts": {"heads": ["n_head **2"]}}, "counts.heads.0"),
        (
            {"spaces": {"ffn": {"title": "n", "config": [{"field": "a", "value": "pin"}]}}},
            "a: pin, proportional and extra need a count",
        ),
    ],
)
def test_a_message_names_the_file_and_the_field(table_file, changes, named):
    path = table_file(**changes)
    with pytest.raises(RecipeError) as raised:
        load_table(path)
    assert str(path) in str(raised.value)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a table of an architecture"),
        (b"[1, 2]", "not a table of an architecture"),
        (b"family: [", "not YAML in line 1"),
        (b"family: &a x", "anchors and aliases"),
        (b"%YAML 1.1", "directives"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_other_files_are_no_tables(tmp_path, content, message):
    path = tmp_path / "own.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=message) as raised:
        load_table(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_and_a_folder_are_no_tables(tmp_path):
    for path in (tmp_path, tmp_path / "missing.yaml"):
        with pytest.raises(RecipeError, match="cannot be read"):
            load_table(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=4), some),
    max_leaves=5,
)
keys = st.sampled_from([*ArchitectureTable.model_fields, "title", "members", "name", "dim"])


@given(st.dictionaries(keys, values | st.dictionaries(keys, values)))
def test_any_yaml_is_a_table_or_an_error_in_one_line(tmp_path_factory, fields):
    path = tmp_path_factory.mktemp("tables") / "own.yaml"
    path.write_text(dump_yaml(TABLE | fields), encoding="utf-8")
    with suppress(RecipeError):
        load_table(path)


@pytest.mark.parametrize(
    ("pattern", "name", "groups"),
    [
        ("mlp.up.weight", "mlp.up.weight", {}),
        ("experts.{unit}.w1", "experts.12.w1", {"unit": "12"}),
        ("layer.*.wi", "layer.1.wi", {}),
        ("*_attn.q", "self_attn.q", {}),
        ("mlp.up.weight", "mlp_up.weight", None),
        ("layer.*.wi", "layer.1.2.wi", None),
        ("experts.{unit}.w1", "experts.a.w1", None),
        ("experts.{unit}.w1", "experts.².w1", None),
    ],
)
def test_a_pattern_matches_a_name_or_does_not(pattern, name, groups):
    match = name_pattern(pattern).fullmatch(name)
    assert (match.groupdict() if match else None) == groups
