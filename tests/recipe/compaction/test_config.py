"""The config.json of the compact form."""

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.tables import SpaceRule
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.compaction.config import AdaptedConfig, differences, held_spaces

MEMBERS = [{"name": "w"}]


def rule(*fields):
    return SpaceRule.model_validate({"title": "units", "members": MEMBERS, "config": fields})


def group(size, gone, label="g"):
    return CoupledGroup("s", label, size, ()), np.isin(np.arange(size), list(gone))


def adapted(config, fields, groups, counts=None):
    result = AdaptedConfig(copy.deepcopy(config))
    result.apply("s", rule(*fields), groups, counts or {})
    return result


def test_units_are_written_under_the_key_that_the_file_has_and_where_it_has_it():
    field = {"field": "n", "aliases": ["old_n"]}
    found = [group(8, {1, 2})]
    assert adapted({"n": 8}, [field], found).content == {"n": 6}
    assert adapted({"old_n": 8}, [field], found).content == {"old_n": 6}
    assert adapted({"text_config": {"n": 8}}, [field], found).content == {"text_config": {"n": 6}}
    assert adapted({}, [field], found).changes == {"n": 6}
    assert adapted(None, [field], found).changes == {"n": 6}


def test_the_content_of_the_input_is_not_changed():
    config = {"text_config": {"n": 8}}
    adapted(config, [{"field": "n"}], [group(8, {1})])
    assert config == {"text_config": {"n": 8}}


def test_proportional_fields_and_pinned_ones():
    fields = [
        {"field": "heads", "value": "proportional", "count": "heads"},
        {"field": "kv"},
        {"field": "head_dim", "value": "pin", "count": "head_dim"},
    ]
    counts = {"heads": 8, "head_dim": 16}
    result = adapted({"heads": 8, "kv": 2, "hidden_size": 128}, fields, [group(2, {0})], counts)
    assert result.content == {"heads": 4, "kv": 1, "hidden_size": 128, "head_dim": 16}
    odd = adapted({"heads": 9, "kv": 2}, fields, [group(2, {0})], {**counts, "heads": 9})
    assert "heads 9 cannot be reduced to 1 of 2" in odd.problems[0]


@given(st.integers(1, 9), st.data())
def test_lists_indices_and_leading_counts_follow_the_units(size, data):
    gone = data.draw(st.sets(st.integers(0, size - 1), max_size=size - 1))
    old = data.draw(st.lists(st.sampled_from(["full", "sliding"]), min_size=size, max_size=size))
    indices = sorted(data.draw(st.sets(st.integers(0, size - 1))))
    leading = data.draw(st.integers(0, size))
    config = {"types": old, "indices": indices, "leading": leading}
    fields = [
        {"field": "types", "value": "list"},
        {"field": "indices", "value": "indices"},
        {"field": "leading", "value": "leading"},
    ]
    content = adapted(config, fields, [group(size, gone)]).content
    kept = [i for i in range(size) if i not in gone]
    assert content["types"] == [old[i] for i in kept]
    assert content["indices"] == [new for new, i in enumerate(kept) if i in indices]
    assert content["leading"] == sum(i < leading for i in kept)


def test_a_missing_list_is_written_from_its_cycle_and_a_wrong_length_is_a_problem():
    field = {"field": "types", "value": "list", "cycle": ["a", "b"]}
    assert adapted({}, [field], [group(4, {0})]).content == {"types": ["b", "a", "b"]}
    wrong = adapted({"types": ["a"]}, [field], [group(4, {0})])
    assert "has 1 values for 4 units" in wrong.problems[0]


def test_the_file_may_say_the_length_of_the_cycle():
    field = {"field": "types", "value": "list", "cycle": ["a", "a", "b"], "period": "p"}
    gone = [group(4, {0})]
    assert adapted({"p": 2}, [field], gone).content == {"p": 2, "types": ["b", "a", "b"]}
    for value in ("aab", 0, True, 1 << 60):
        assert "Add a list types" in adapted({"p": value}, [field], gone).problems[0]
        listed = {"p": value, "types": [1, 2, 3, 4]}
        assert adapted(listed, [field], gone).content["types"] == [2, 3, 4]


def test_the_first_rule_for_the_type_of_the_model_is_applied():
    fields = [
        {"field": "types", "value": "list", "cycle": ["a"], "model_types": ["one"]},
        {"field": "types", "value": "list"},
    ]
    gone = [group(3, {0})]
    assert adapted({"model_type": "one"}, fields, gone).changes == {"types": ["a", "a"]}
    assert adapted({"model_type": "other"}, fields, gone).changes == {}
    for model_type in ("one", "other"):
        config = {"model_type": model_type, "types": [1, 2, 3]}
        assert adapted(config, fields, gone).changes == {"types": [2, 3]}


@given(st.integers(2, 9), st.one_of(st.just(True), st.integers(0, 4)), st.data())
def test_kept_units_have_the_same_place_in_a_pattern(size, period, data):
    gone = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1))
    result = adapted({"p": period}, [{"field": "p", "value": "pattern"}], [group(size, gone)])
    kinds = list(range(size)) if period is True else [i % max(1, period) for i in range(size)]
    kept = [kinds[i] for i in range(size) if i not in gone]
    assert bool(result.problems) == (kept != kinds[: len(kept)])
    assert result.content == {"p": period}


def test_a_field_may_forbid_the_removal():
    field = {"field": "sum", "value": "forbids"}
    (problem,) = adapted({"sum": True}, [field], [group(3, {2})]).problems
    assert "sum true needs all layers" in problem
    assert not adapted({"sum": False}, [field], [group(3, {2})]).problems
    assert not adapted({}, [field], [group(3, {2})]).problems


def test_a_pattern_may_be_a_list_and_another_field_may_replace_it():
    field = {"field": "p", "value": "pattern", "unless": "types"}
    assert adapted({"p": [0, 1, 1]}, [field], [group(3, {0})]).content == {"p": [1, 1]}
    config = {"p": 2, "types": ["a", "b", "a"]}
    assert not adapted(config, [field], [group(3, {0})]).problems
    assert adapted({"p": 2}, [field], [group(3, {0})]).problems


@given(st.integers(1, 6), st.integers(0, 3), st.data())
def test_extra_blocks_are_counted_by_themselves(layers, extra, data):
    gone = data.draw(st.sets(st.integers(0, layers + extra - 1), min_size=1))
    fields = [{"field": "n"}, {"field": "more", "value": "extra", "count": "n"}]
    blocks = SpaceRule.model_validate({"title": "layers", "config": fields})
    result = AdaptedConfig({"n": layers, "more": extra})
    result.apply("s", blocks, [group(layers + extra, gone)], {"n": layers})
    kept = sum(i not in gone for i in range(layers))
    if kept:
        more = sum(i not in gone for i in range(layers, layers + extra))
        assert result.content == {"n": kept, "more": more}
    else:
        assert "All layers would be removed" in result.problems[0]


def test_a_number_that_does_not_divide_is_a_problem():
    heads = {"field": "heads", "divides": "hidden"}
    hidden = {"field": "hidden", "multiple_of": "heads"}
    for kept_heads in range(1, 5):
        for kept_hidden in range(1, 9):
            result = adapted({"heads": 4, "hidden": 8}, [heads], [group(4, range(kept_heads, 4))])
            result.apply("t", rule(hidden), [group(8, range(kept_hidden, 8))], {})
            assert not result.problems  # each may still change
            result.check_ratios(result.content)
            assert bool(result.problems) == (kept_hidden % kept_heads != 0)
    result = adapted({"heads": 4, "hidden": 8}, [heads], [group(4, {0})])
    result.check_ratios(result.content)
    assert "heads would be 3, which does not divide 8" in result.problems[0]
    result = adapted({"heads": 4, "hidden": 8}, [hidden], [group(8, {0})])
    result.check_ratios(result.content)
    assert "hidden would be 7, which is not a multiple of 4" in result.problems[0]


def test_groups_that_keep_different_numbers_change_nothing_and_are_told():
    result = adapted({"n": 4}, [{"field": "n"}], [group(4, {0}), group(4, {})])
    assert (result.content, result.changes, result.differing) == ({"n": 4}, {}, {"s"})


def test_lists_for_all_layers_need_the_same_units_in_each():
    field = {"field": "types", "value": "list"}
    result = adapted({"types": [1, 2, 3]}, [field], [group(3, {0}), group(3, {1})])
    assert "Remove the same units in each" in result.problems[0]


def test_a_field_that_does_not_count_the_units_is_a_problem():
    result = adapted({"n": 5}, [{"field": "n"}], [group(4, {0})])
    assert "n is 5, but" in result.problems[0]
    assert result.changes == {}


def test_a_field_is_that_of_its_model_in_a_file_of_several():
    field = {"field": "n", "section": "vision_config"}
    config = {"text_config": {"n": 8}, "vision_config": {"n": 4}}
    result = adapted(config, [field], [group(4, {0})])
    assert result.content == {"text_config": {"n": 8}, "vision_config": {"n": 3}}
    assert adapted({"n": 4}, [field], [group(4, {0})]).content == {"n": 3}


def test_two_spaces_that_want_different_values_of_a_field_are_a_problem():
    result = adapted({"n": 4}, [{"field": "n"}], [group(4, {0})])
    result.apply("t", rule({"field": "n"}), [group(4, {0, 1})], {})
    assert "both 3 and 2" in result.problems[0]


RULES = {
    "heads": SpaceRule(title="heads", loadable_with=("hidden",)),
    "hidden": SpaceRule(title="hidden channels", loadable_with=("heads",)),
    "ffn": SpaceRule(title="neurons"),
}


def units(space, size, gone):
    return CoupledGroup(space, "g", size, ()), np.arange(size) < gone


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(0, 11), st.integers(0, 4))
def test_shares_that_differ_hold_the_spaces_that_lose_units(heads, hidden, neurons):
    groups = [units("heads", 4, gone) for gone in heads]
    groups += [units("hidden", 12, hidden), units("ffn", 5, neurons)]
    expected = set()
    if any(gone * 3 != hidden for gone in heads):
        expected |= {"heads"} if any(heads) else set()
        expected |= {"hidden"} if hidden else set()
    assert held_spaces(RULES, groups).keys() == expected


def test_a_space_that_is_missing_or_masked_keeps_its_units():
    problems = held_spaces(RULES, [units("heads", 4, 1)])
    assert "heads: programs load fewer only with the same share of the hidden" in problems["heads"]


def test_groups_of_removed_layers_do_not_count():
    groups = [units("heads", 4, 4), units("heads", 4, 1), units("hidden", 12, 3)]
    assert not held_spaces(RULES, groups)


def test_units_that_depend_on_an_unknown_space_can_only_be_masked():
    problems = held_spaces({"heads": RULES["heads"]}, [units("heads", 4, 1)])
    assert problems["heads"].startswith("heads: no known program loads fewer.")


def test_models_in_a_file_may_keep_different_numbers():
    config = {"text_config": {"n": 8}, "vision_config": {"n": 6}}
    result = AdaptedConfig(copy.deepcopy(config))
    sections = (("text_config", group(8, {0})), ("vision_config", group(6, {0, 1})))
    for section, found in sections:
        result.apply(section, rule({"field": "n", "section": section}), [found], {})
    assert not result.problems
    assert result.changes == {"text_config.n": 7, "vision_config.n": 4}
    assert differences(config, {**result.content, "added": 0}) == {
        "text_config": {"n": 7},
        "vision_config": {"n": 4},
        "added": 0,
    }
    assert differences(config, config) == {}
