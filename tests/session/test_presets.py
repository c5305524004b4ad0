"""What is kept between runs: settings, and presets, which are named lists of steps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import open_checkpoint
from prune_gui.errors import PruneGuiError
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.form_tensors import Form
from prune_gui.recipe.patterns import match_recipe
from prune_gui.session import Presets, Session, Settings
from prune_gui.session import presets as presets_module
from prune_gui.session.presets import MAX_NAME_CHARS, SHIPPED, shipped

NAMES = st.text(
    st.characters(exclude_categories=["C", "Z"], max_codepoint=0x9FFF), min_size=1, max_size=20
)


@pytest.fixture
def presets(tmp_path):
    return Presets(tmp_path / "presets")


def step(method="l1_unstructured", **parameters):
    if method == "l1_unstructured":
        parameters = {"amount": 0.5} | parameters
    return Step(method=METHODS[method].model_validate(parameters), targets=("*.weight",))


def test_a_saved_preset_is_loaded_under_its_name(presets):
    steps = (step(), step("identity"))
    presets.save("2:4, then 50 % / β", Recipe(steps=steps, protect=("*.bias",)))
    [preset] = presets
    assert (preset.name, preset.steps, preset.problem) == ("2:4, then 50 % / β", steps, "")
    assert preset.name in presets
    assert Recipe.load(preset.path).protect == ()


@given(NAMES)
def test_every_name_round_trips_through_one_file(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("presets")
    Presets(folder).save(name, Recipe())
    assert [preset.name for preset in Presets(folder)] == [name]
    assert [path.parent for path in folder.rglob("*")] == [folder]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "n" * (MAX_NAME_CHARS + 1)])
def test_invalid_names_are_refused(presets, name):
    with pytest.raises(PruneGuiError, match="needs a name"):
        presets.save(name, Recipe())
    assert not list(presets)


def test_relative_paths_in_a_preset_are_made_absolute(presets, tmp_path):
    recipe = Recipe.from_yaml(
        "steps: [{method: custom_from_mask, targets: ['*'], mask: masks.pt}]", folder=tmp_path
    )
    presets.save("mask", recipe)
    [preset] = presets
    assert preset.steps[0].method.mask == str(tmp_path / "masks.pt")


def test_copied_files_are_presets_and_invalid_ones_have_a_reason(presets):
    presets.save("good", Recipe(steps=(step(),)))
    (presets.folder / "another 50 %.yaml").write_bytes((presets.folder / "good.yaml").read_bytes())
    (presets.folder / "broken.yaml").write_text("steps: [{")
    found = {preset.name: preset for preset in presets}
    assert list(found) == ["another 50 %", "broken", "good"]
    assert found["another 50 %"].steps == found["good"].steps
    assert "not YAML" in found["broken"].problem
    assert "\n" not in found["broken"].problem
    assert not found["broken"].steps


@pytest.mark.skipif(os.name == "nt", reason="needs FIFOs and devices")
def test_unreadable_presets_have_a_reason_and_do_not_block(presets, caplog):
    presets.save("good", Recipe(steps=(step(),)))
    os.mkfifo(presets.folder / "fifo.yaml")
    (presets.folder / "device.yaml").symlink_to("/dev/zero")
    (presets.folder / "folder.yaml").mkdir()
    (presets.folder / "latin.yaml").write_bytes(b"steps: [] # \xff")
    (presets.folder / "missing.yaml").symlink_to(presets.folder / "nowhere")
    with (presets.folder / "huge.yaml").open("wb") as file:
        file.truncate(5 << 30)
    found = {preset.name: preset.problem for preset in presets}
    assert found.pop("good") == ""
    assert sorted(found) == ["device", "fifo", "folder", "huge", "latin", "missing"]
    for name, problem in found.items():
        assert f"{name}.yaml cannot be read" in problem
        assert "\n" not in problem


def test_a_preset_too_large_to_read_is_not_written(presets, monkeypatch):
    monkeypatch.setattr(presets_module, "MAX_PRESET_BYTES", 100)
    presets.save("small", Recipe())
    with pytest.raises(PruneGuiError, match="at most 100 bytes"):
        presets.save("large", Recipe(steps=(step(), step())))
    assert [preset.name for preset in presets] == ["small"]


def test_presets_are_renamed_and_removed(presets):
    presets.save("old", Recipe(steps=(step(),)))
    [preset] = presets
    presets.rename(preset, "new")
    assert [preset.name for preset in presets] == ["new"]
    [preset] = presets
    presets.remove(preset)
    assert not list(presets)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    presets = Presets(tmp_path / "file" / "presets")
    assert not list(presets)
    with pytest.raises(PruneGuiError, match="cannot be created"):
        presets.save("a", Recipe())


def test_a_preset_is_appended_as_one_undo_entry(demo_checkpoint):
    with open_checkpoint(demo_checkpoint) as checkpoint:
        session = Session(checkpoint, Recipe(steps=(step(),)))
        session.append("three", *shipped()[SHIPPED.index("three_rounds")].steps)
        assert len(session.steps) == 4
        assert session.history.undo_label == "three"
        session.undo()
        assert session.steps == (step(),)


@pytest.mark.parametrize("number", range(len(SHIPPED)), ids=SHIPPED)
def test_each_shipped_preset_matches_parameters_of_the_demo(demo_checkpoint, number):
    preset = shipped()[number]
    assert not preset.problem
    with open_checkpoint(demo_checkpoint) as checkpoint:
        for found in match_recipe(Recipe(steps=preset.steps), checkpoint):
            assert found.targets
            assert not found.unmatched


def test_settings_round_trip_through_their_file(tmp_path):
    settings = Settings(theme="dark", window=("a", "b")).with_recent(tmp_path / "model.pt")
    settings.save(tmp_path / "deep" / "settings.json")
    assert Settings.load(tmp_path / "deep" / "settings.json") == settings


@pytest.mark.parametrize(
    ("field", "value"),
    [("theme", "pink"), ("threads", 0), ("picture_memory", "much"), ("form", 3), ("recent", [1])],
)
def test_an_invalid_setting_does_not_affect_the_others(tmp_path, caplog, field, value):
    settings = Settings(
        theme="dark", threads=3, picture_memory=7, form="masks", recent=("a",), window=("a", "b")
    )
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings.model_dump() | {field: value, "of_a_later_version": 1}))
    default = {field: Settings.model_fields[field].default}
    assert Settings.load(path) == settings.model_copy(update=default)
    assert field in caplog.text


@pytest.mark.parametrize("place", [0, 1])
def test_a_layout_with_a_wrong_checksum_is_dropped(tmp_path, caplog, place):
    path = tmp_path / "settings.json"
    Settings(theme="dark", window=("AAAA", "BBBB")).save(path)
    assert Settings.load(path).window == ("AAAA", "BBBB")
    written = json.loads(path.read_text())
    written["window"][place] = "AABA"
    path.write_text(json.dumps(written))
    assert Settings.load(path) == Settings(theme="dark")
    assert "checksum" in caplog.text


def test_a_layout_without_a_checksum_is_dropped(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{"window": ["AAAA", "BBBB"], "theme": "dark"}')
    assert Settings.load(path) == Settings(theme="dark")


def test_a_relative_path_in_a_deleted_working_folder_is_not_recent(delete_working_folder):
    delete_working_folder()
    assert Settings().with_recent(Path("model.pt")) == Settings()
    assert Settings().with_recent(Path("/model.pt")).recent == (str(Path("/model.pt")),)


def test_recent_files_are_unique_limited_and_latest_first():
    settings = Settings()
    for number in [*range(14), 7]:
        settings = settings.with_recent(Path(f"/models/{number}.pt"))
    assert [Path(name).stem for name in settings.recent] == [
        "7",
        "13",
        "12",
        "11",
        "10",
        "9",
        "8",
        "6",
        "5",
        "4",
    ]


def test_every_export_form_can_be_the_default():
    assert get_args(Settings.model_fields["form"].annotation) == get_args(Form)
