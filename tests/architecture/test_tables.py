"""Architecture tables: what a file may hold, and the spaces of a whole network that they find."""

import time
from contextlib import suppress

import pytest
from fake_checkpoint import FakeCheckpoint
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.matching import NameMatcher
from prune_gui.architecture.tables import ArchitectureTable, load_table, name_pattern, own_tables
from prune_gui.errors import RecipeError
from prune_gui.plain_yaml import dump_yaml
from prune_gui.recipe.recipe import Step
from prune_gui.recipe.step_targets import step_targets

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
        ({"spaces": member_of(dim="x")}, "spaces.ffn.members.0.dim: a whole number is expected"),
        ({"spaces": member_of(dim=0.5)}, "spaces.ffn.members.0.dim: a whole number is expected"),
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


HIDDEN = 8
CONFIG = {"model_type": "llama", "hidden_size": HIDDEN, "num_attention_heads": 4, "head_dim": 3}
BLOCK = {
    "input_layernorm.weight": (HIDDEN,),
    "self_attn.q_proj.weight": (12, HIDDEN),
    "self_attn.q_proj.bias": (12,),
    "self_attn.k_proj.weight": (12, HIDDEN),
    "self_attn.v_proj.weight": (12, HIDDEN),
    "self_attn.o_proj.weight": (HIDDEN, 12),
    "post_attention_layernorm.weight": (HIDDEN,),
    "mlp.gate_proj.weight": (HIDDEN, HIDDEN),
    "mlp.gate_proj.bias": (HIDDEN,),
    "mlp.up_proj.weight": (HIDDEN, HIDDEN),
    "mlp.down_proj.weight": (HIDDEN, HIDDEN),
}
TOP = {
    "model.embed_tokens.weight": (20, HIDDEN),
    "model.norm.weight": (HIDDEN,),
    "lm_head.weight": (20, HIDDEN),
}


def llama(blocks=2):
    return TOP | {
        f"model.layers.{number}.{name}": shape
        for number in range(blocks)
        for name, shape in BLOCK.items()
    }


@pytest.fixture
def llama_with(checkpoint_of):
    def open_with(others=(), without=(), integers=()):
        shapes = {name: shape for name, shape in llama().items() if name not in without}
        return checkpoint_of(CONFIG, shapes | dict(others), integers=integers)

    return open_with


def test_hidden_channels_are_one_group_of_the_whole_network(llama_with):
    (group,) = coupled_groups(llama_with(), "hidden")
    assert (group.size, group.label) == (HIDDEN, "*")
    dims = {}
    for member in group.members:
        dims.setdefault(member.name, []).append(member.dim)
    for name, shape in llama().items():
        others = {"q_proj.bias", "gate_proj.bias"}  # of the lengths of other units
        if not any(name.endswith(other) for other in others):
            square = {"gate_proj": 1, "up_proj": 1, "down_proj": 0}
            own = [dim for key, dim in square.items() if key in name]
            assert dims.pop(name) == (own or [shape.index(HIDDEN)])
    assert not dims


@pytest.mark.parametrize(
    "shape", [(HIDDEN,), (3, HIDDEN), (HIDDEN, 3), (2, HIDDEN, 5)], ids=lambda shape: str(shape)
)
def test_an_unknown_tensor_of_that_length_is_named_and_other_units_remain(llama_with, shape):
    checkpoint = llama_with({"model.layers.1.adapter.weight": shape})
    assert "hidden" not in spaces(checkpoint)
    assert "ffn" in spaces(checkpoint)
    with pytest.raises(RecipeError, match=r"model\.layers\.1\.adapter\.weight of shape") as raised:
        coupled_groups(checkpoint, "hidden")
    assert "\n" not in str(raised.value)
    step = Step.model_validate({"method": "coupled", "space": "hidden", "targets": ["*"]})
    with pytest.raises(RecipeError, match="adapter"):
        step_targets(step, checkpoint, {}, ())


def test_an_unknown_tensor_of_other_lengths_or_of_integers_does_not_matter(llama_with):
    assert "hidden" in spaces(llama_with({"adapter.weight": (3, HIDDEN - 1)}))
    assert "hidden" in spaces(llama_with({"position_ids": (1, HIDDEN)}, integers=["position_ids"]))


def test_members_of_different_lengths_are_named(llama_with):
    checkpoint = llama_with({"vision.layers.0.self_attn.q_proj.weight": (6, 6)})
    assert "hidden" not in spaces(checkpoint)
    with pytest.raises(RecipeError, match=r"vision\.layers.* has 6 hidden channels, but .* has 8"):
        coupled_groups(checkpoint, "hidden")


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.norm.weight"])
def test_a_network_without_a_required_member_has_no_group(llama_with, name):
    assert "hidden" not in spaces(llama_with(without={name}))


def test_dead_units_leave_hidden_channels_alone(llama_with):
    step = Step.model_validate({"method": "dead_units", "targets": ["*"]})
    groups = step_targets(step, llama_with(), {}, ()).groups
    assert {group.space for group in groups} == {"ffn", "kv_groups"}


names = st.lists(st.sampled_from(["a", "b", "3", "norm", "weight"]), min_size=1, max_size=5)


@given(names)
def test_a_pattern_matches_the_end_of_a_name(components):
    patterns = ["weight", "norm.weight", "a.*.weight", "b*.3.norm.weight"]
    expected = []
    for index, pattern in enumerate(patterns):
        wanted = pattern.split(".")
        end = components[-len(wanted) :]
        if len(end) == len(wanted) and all(
            own == "*" or found == own or (own == "b*" and found.startswith("b"))
            for own, found in zip(wanted, end, strict=True)
        ):
            expected.append(index)
    assert list(NameMatcher(patterns)(".".join(components))) == expected


@pytest.mark.slow
def test_a_hundred_thousand_tensors_take_linear_time():
    checkpoint = FakeCheckpoint("llama", CONFIG, llama(blocks=10_000))
    assert len(checkpoint.tensors) > 100_000
    started = time.process_time()
    (group,) = coupled_groups(checkpoint, "hidden")
    assert time.process_time() - started < 8  # about 1 s; quadratic time takes minutes
    assert len(group.members) == 90_003
