"""What is remembered between runs."""

from pathlib import Path

from prune_gui.session import Settings


def test_settings_survive_their_file(tmp_path):
    settings = Settings(theme="dark", window=("a", "b")).with_recent(tmp_path / "model.pt")
    settings.save(tmp_path / "deep" / "settings.json")
    assert Settings.load(tmp_path / "deep" / "settings.json") == settings


def test_broken_settings_never_block_the_start(tmp_path, caplog):
    for text in ("", "{", '{"theme": "pink"}', "[]", "\x00"):
        (tmp_path / "settings.json").write_text(text)
        assert Settings.load(tmp_path / "settings.json") == Settings()
    assert "settings.json" in caplog.text


def test_settings_that_cannot_be_written_are_logged(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    Settings().save(tmp_path / "file" / "settings.json")
    assert "cannot be written" in caplog.text


def test_recent_files_are_latest_first_once_each_and_few():
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
