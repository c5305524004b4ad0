"""Secrets in URLs, also in mistyped ones, are hidden in every message, line and log record."""

from __future__ import annotations

import logging
import time

import pytest

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError, PruneGuiError, one_line
from prune_gui.redaction import redacted, redacted_url
from prune_gui.session.log import LogFormatter

WITH_SECRETS = [
    "https://u:SECRET@host/a",
    "https://SECRET@host/a",
    "http://u:SEC/RET@host",
    "https://u:SEC?RET@host",
    "https://u:SEC#RET@host",
    "https://u:SEC@RET@host/a",
    "https:/u:SECRET@host",
    "https:u:SECRET@host",
    "https//u:SECRET@host",
    "https;//u:SECRET@host",
    "https:////u:SECRET@host",
    "//u:SECRET@host/a",
    "htps://u:SECRET@host",
    r"HTTPS:\\u:SECRET@host\a",
    r"https:\u:SECRET@host",
    " https://u:SECRET@host/a",
    "\thttps://u:SECRET@host",
    "s3:/key:SECRET@bucket/x",
    "s3a://key:SECRET@bucket",
    "gs:/u:SECRET@bucket",
    "hf://u:SECRET@owner/name",
    "wasbs://c:SECRET@account/x",
    "ftp://u:SECRET@host",
    "https://u:SECRET@[::1]/",
    "https://u%3ASECRET%40host/a",
    "https%3A%2F%2Fu%3ASECRET%40host%2Fa",
    "https://host/a?token=SECRET",
    "https://host/a?x=1;SECRET@b",
    "https://host/a?X-Amz-Signature=SECRET&x=1",
    "https://host/a%3Ftoken%3DSECRET",
    "https://host/a#access_token=SECRET",
    "az://account?sv=1&sig=SECRET%3D",
    "host/a?token=SECRET",
    "/tmp/x.pt?X-Amz-Signature=SECRET",
]
WITHOUT = [
    "encoder.layer.0.weight",
    "https://host.org/a/b.safetensors",
    "https://host/a@v1/b.safetensors",
    "hf://Owner/name@main/model.safetensors",
    "s3://bucket/a=b/c.pt",
    "/home/me@work/model.pt",
    r"C:\Users\me@work\model.pt",
    "model@1:2.pt",
    "a@b:c",
    "what is 5 = 3?",
]


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_a_secret_is_hidden_wherever_it_is_shown(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = logging.LogRecord("a", logging.ERROR, "", 0, "Opening %s failed", (url,), None)
    with pytest.raises(CheckpointError) as typed:
        open_checkpoint(url)
    shown = [
        redacted_url(url),
        one_line(f"{url} does not exist. Check its name."),
        str(PruneGuiError(f"{url!r} is a folder.")),
        LogFormatter("%(message)s").format(record),
        str(typed.value),
    ]
    for text in shown:
        assert "SEC" not in text
        assert "RET" not in text
        assert "***" in text
        assert redacted(text) == text


@pytest.mark.parametrize("text", WITHOUT)
def test_what_is_no_secret_is_shown(text):
    assert redacted(text) == redacted_url(text) == text


def test_a_file_whose_name_looks_like_a_secret_is_opened(tmp_path, monkeypatch, demo_checkpoint):
    monkeypatch.chdir(tmp_path)
    name = "a?token=1"
    (tmp_path / name).write_bytes(demo_checkpoint.read_bytes())
    with open_checkpoint(name) as checkpoint:
        assert checkpoint.tensors


@pytest.mark.parametrize(
    "text", ["https:", "a:", "//", "?a", "@", "%", "a.a", " ", "?key", "https://u:"]
)
def test_long_texts_take_little_time(text):
    started = time.monotonic()
    redacted(text * 100_000 + "@=")
    assert time.monotonic() - started < 1
