"""Servers that send too much, too slowly, or nonsense: one line, quickly, in little memory."""

import ipaddress
import json
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from file_server import dripping, endless, endless_chunks, running, serving, serving_raw
from object_stores import forget_connections
from polling import wait_until
from safetensors.numpy import save_file

import prune_gui
from prune_gui.checkpoint.remote import buckets, stores, web
from prune_gui.checkpoint.remote.fetched_blocks import BLOCK_BYTES
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.monitor import Monitor

OK = 'HTTP/1.1 200 OK\r\nETag: "x"\r\n'
PART = 'HTTP/1.1 206 Partial Content\r\nETag: "x"\r\nContent-Range: bytes 0-9/10\r\n'
STATE = stores.FileState(10, '"x"')
MAX_SENT_BYTES = 50_000_000
"""What a server may send before it notices, mostly into the buffers of the system."""
REQUESTS = {
    "small": lambda url: stores.read_small(url, 1000),
    "head": stores.file_state,
    "range": lambda url: stores.read_range(url, 0, 10, STATE),
}
ENDLESS = {
    "declares-10": endless(f"{OK}Content-Length: 10\r\n\r\n"),
    "declares-10-in-chunks": endless_chunks(f"{OK}Content-Length: 10\r\n"),
    "chunks": endless_chunks(OK),
    "no-length": endless(f"{OK}\r\n"),
    "too-long": endless(f"{OK}Content-Length: {10**30}\r\n\r\n"),
    "negative": endless(f"{OK}Content-Length: -5\r\n\r\n"),
    "part-in-chunks": endless_chunks(PART),
    "part-of-2**70": endless(PART.replace("0-9/10", f"0-9/{2**70}") + "\r\n"),
    "missing": endless_chunks("HTTP/1.1 404 Not Found\r\n"),
    "denied": endless_chunks("HTTP/1.1 403 Forbidden\r\n"),
    "fault": endless_chunks("HTTP/1.1 503 Slow Down\r\n"),
    "strange-status": endless("HTTP/1.1 999 \x1b[31m\r\n\r\n"),
    "redirect": endless_chunks("HTTP/1.1 302 Found\r\nLocation: /x\r\n"),
    "redirect-elsewhere": endless_chunks("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n"),
    "redirect-nowhere": endless_chunks("HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n"),
    "status-line": endless("HTTP/1.1 200 "),
    "header": endless(f"{OK}X: "),
    "headers": lambda _: iter(lambda: b"X: y\r\n" * 1000, b""),
    "continue": lambda _: iter(lambda: b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, b""),
    "trailers": lambda _: _trailers(),
    "tiny-chunks": lambda _: _tiny_chunks(),
}


def _trailers():
    yield f"{OK}Transfer-Encoding: chunked\r\n\r\n0\r\n".encode()
    while True:
        yield b"X: y\r\n" * 1000


def _tiny_chunks():
    yield f"{OK}Transfer-Encoding: chunked\r\n\r\n".encode()
    while True:
        yield b"1;" + b"x" * 1000 + b"\r\na\r\n"


FEW = ("declares-10", "part-in-chunks", "missing", "redirect", "status-line", "header")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "small") for name in ENDLESS),
        *((name, kind) for name in FEW for kind in ("head", "range")),
        ("part-of-2**70", "range"),
    ],
)
def test_an_answer_without_end_is_read_up_to_a_limit(name, kind):
    started, request_of = time.monotonic(), REQUESTS[kind]
    with serving_raw(ENDLESS[name]) as server:
        try:
            found = request_of(f"{server.url}/config.json")
        except CheckpointError as error:
            found = str(error)
        if isinstance(found, str):
            assert found.isprintable()
            assert server.url in found
        else:
            assert found in (None, STATE, bytes(10))
        assert server.sent < MAX_SENT_BYTES
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("body_of", [dripping, None])
@pytest.mark.parametrize("request_of", [REQUESTS["small"], REQUESTS["range"]])
def test_a_server_that_sends_a_byte_now_and_then_gives_a_message(monkeypatch, body_of, request_of):
    monkeypatch.setattr(web, "STALL_S", 0.5)
    head = OK if request_of is REQUESTS["small"] else PART
    answer = dripping(f"{head}Content-Length: 10\r\n\r\n", bytes(10), 0.2)
    if body_of is None:
        answer = dripping("", f"{head}Content-Length: 10\r\n\r\n".encode(), 0.1)
    with (
        serving_raw(answer) as server,
        pytest.raises(CheckpointError, match="the server sends too slowly"),
    ):
        request_of(f"{server.url}/config.json")


def test_a_slow_link_that_goes_on_is_waited_for(monkeypatch):
    monkeypatch.setattr(web, "STALL_S", 0.5)
    monkeypatch.setattr(web, "STALL_BYTES", 10)
    answer = dripping(f"{OK}Content-Length: 100\r\n\r\n", bytes(100), 0.1, nbytes=10)
    with serving_raw(answer) as server:
        assert stores.read_small(f"{server.url}/config.json", 1000) == bytes(100)


@pytest.mark.parametrize("nbytes", [10, 5 * (1 << 23)], ids=["one-request", "several-requests"])
def test_a_request_is_abandoned_when_the_user_cancels(nbytes):
    size = max(nbytes, 1 << 18)
    state = f'HTTP/1.1 206 OK\r\nETag: "x"\r\nContent-Range: bytes 0-9/{size}\r\n'

    def answer(request):
        if request.startswith("HEAD"):
            return [f"{OK}Content-Length: {size}\r\n\r\n".encode()]
        return dripping(f"{state}Content-Length: 100\r\n\r\n", bytes(100), 0.1)(request)

    cancel = threading.Event()
    with serving_raw(answer) as server:
        timer = threading.Timer(0.5, cancel.set)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Cancelled), Monitor(cancel=cancel).in_charge():
            prune_gui.open_checkpoint(f"{server.url}/model.safetensors")
        assert time.monotonic() - started < 2
        timer.join()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["inspect", "diff", "apply"])
def test_a_signal_ends_the_program_while_a_server_is_slow(tmp_path, command, number, code):
    recipe = tmp_path / "half.yaml"
    recipe.write_text("version: 1\nsteps: []\n")
    with serving_raw(dripping(f"{OK}Content-Length: 1000\r\n\r\n", bytes(1000), 2)) as server:
        url = f"{server.url}/model.safetensors"
        arguments = {
            "inspect": [url],
            "diff": [url, url],
            "apply": [str(recipe), url, "-o", str(tmp_path / "out.safetensors")],
        }[command]
        program = subprocess.Popen(
            [sys.executable, "-m", "prune_gui", command, *arguments], stderr=subprocess.DEVNULL
        )
        wait_until(lambda: server.requests)
        time.sleep(0.5)
        started = time.monotonic()
        program.send_signal(number)
        assert program.wait(20) == code
        assert time.monotonic() - started < 3


def test_a_token_is_not_sent_to_where_a_server_redirects(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "a-token")
    with serving_raw(lambda _: [f"{OK}Content-Length: 2\r\n\r\n{{}}".encode()]) as other:
        found = f"HTTP/1.1 302 Found\r\nLocation: {other.url}/x\r\nContent-Length: 0\r\n\r\n"
        with serving_raw(lambda _: [found.encode()]) as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url)
            assert stores.read_small("hf://owner/net/config.json", 1000) == b"{}"
        assert "Bearer a-token" in hub.requests[0]
        assert "a-token" not in other.requests[0]


FILE = {"type": "file", "path": "m.safetensors", "size": 5}


@pytest.mark.parametrize(
    "listed",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        json.dumps([{**FILE, "size": float("inf")}]),
        json.dumps([{**FILE, "size": float("-inf")}]),
        json.dumps([{**FILE, "size": float("nan")}]),
        json.dumps([{**FILE, "size": -5}]),
        json.dumps([{**FILE, "size": True}]),
        json.dumps([{**FILE, "size": "5"}]),
        json.dumps([{**FILE, "size": 10**400}]),
        b'[{"type": "file", "path": "m.pt", "size": ' + b"9" * 5000 + b"}]",
        json.dumps([{**FILE, "path": 5}]),
        json.dumps([FILE, FILE]),
        json.dumps([1, None]),
        json.dumps({"a": 1}),
        b"null",
        b"",
        b"\xff\xfe\0",
    ],
)
def test_a_listing_of_the_hub_that_is_none_is_refused(server, monkeypatch, listed):
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    server.contents = {
        "api/models/o/n/tree/main": listed.encode() if isinstance(listed, str) else listed
    }
    with pytest.raises(CheckpointError, match="hf://o/n cannot be opened: the list of its files"):
        prune_gui.open_checkpoint("hf://o/n")


@pytest.mark.parametrize(
    "name", ["..", "a\n\x1b[31m.pt", "a\0.pt", "\ud800.pt", "", "/", "a\\b.pt"]
)
def test_a_name_in_a_listing_that_no_file_has_is_left_out(server, monkeypatch, name):
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    listed = json.dumps([{**FILE, "path": name}]).encode()
    server.contents = {"api/models/o/n/tree/main": listed}
    with pytest.raises(CheckpointError, match="hf://o/n is a folder without a checkpoint"):
        prune_gui.open_checkpoint("hf://o/n")


@pytest.mark.parametrize(
    ("stall_s", "error", "words"),
    [(0.5, CheckpointError, "sends too slowly"), (100, Cancelled, "Cancelled")],
)
def test_a_slow_object_store_is_abandoned(monkeypatch, tmp_path, stall_s, error, words):
    monkeypatch.setattr(buckets, "STALL_S", stall_s)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION"):
        monkeypatch.setenv(f"AWS_{name}", "eu-central-1")
    dated = f"{OK}Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: 99\r\n\r\n"
    cancel = threading.Event()
    with serving_raw(dripping(dated, bytes(99), 0.2)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        forget_connections()
        timer = threading.Timer(0.5, cancel.set)
        if error is Cancelled:
            timer.start()
        started = time.monotonic()
        with pytest.raises(error, match=words), Monitor(cancel=cancel).in_charge():
            stores.read_small("s3://bucket/config.json", 1000)
        assert time.monotonic() - started < 5
        timer.cancel()
    forget_connections()


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the same bytes, and keeps the connection."""

    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds without a request, after which it ends the connection

    def setup(self):
        self.server.connections += 1
        super().setup()

    def do_GET(self):
        self.server.seen.append((self.command, self.path, self.headers["proxy-authorization"]))
        self.send_response(200 if self.command == "GET" else 502)
        self.send_header("Content-Length", "5")
        self.send_header("ETag", '"x"')
        self.end_headers()
        self.wfile.write(b"hello")

    do_CONNECT = do_GET  # noqa: N815 - the name of http.server

    def log_message(self, *_):
        pass


@pytest.fixture
def keeping():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # closing waits for the ends of their connections
    server.connections, server.seen = 0, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    with running(server):
        yield server
        web._pools.cache_clear()


def test_a_connection_is_used_again(keeping):
    for _ in range(5):
        assert stores.read_small(f"{keeping.url}/a.json", 100) == b"hello"
    assert keeping.connections == 1
    assert len(keeping.seen) == 5


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_of_the_environment_is_used(keeping, monkeypatch, scheme):
    monkeypatch.setenv(f"{scheme}_proxy", keeping.url.replace("//", "//user:p%40ss@"))
    monkeypatch.delenv("no_proxy", raising=False)
    if scheme == "http":
        assert stores.read_small("http://host.test/a.json", 100) == b"hello"
        assert keeping.seen == [("GET", "http://host.test/a.json", "Basic dXNlcjpwQHNz")]
    else:
        with pytest.raises(CheckpointError, match="no complete answer"):
            stores.read_small("https://host.test/a.json", 100)
        assert keeping.seen[0] == ("CONNECT", "host.test:443", "Basic dXNlcjpwQHNz")


@pytest.mark.parametrize("name", ["a b (1).safetensors", "ä.safetensors", "100%.safetensors"])
def test_a_file_may_have_any_name(server, folder, name):
    save_file({"w": np.ones(3, np.float32)}, folder / name)
    index = folder / "m.safetensors.index.json"
    index.write_text(f'{{"weight_map": {{"w": "{name}"}}}}')
    with prune_gui.open_checkpoint(f"{server.url}/{index.name}") as opened:
        assert opened.read("w").tolist() == [1, 1, 1]


@pytest.fixture
def certificate(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture
def secure_server(folder, certificate):
    with serving(folder, certificate) as server:
        yield server


def test_a_file_is_read_by_https(secure_server, certificate, local, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with (
        prune_gui.open_checkpoint(f"{secure_server.url}/model.safetensors") as opened,
        prune_gui.open_checkpoint(local) as expected,
    ):
        assert opened.url.startswith("https://")
        assert secure_server.fetched() == BLOCK_BYTES
        for name in expected.tensors:
            assert torch.equal(opened.read(name), expected.read(name))


def test_an_unknown_certificate_is_refused(secure_server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(CheckpointError, match=r"certificate is not trusted.* SSL_CERT_FILE"):
        prune_gui.open_checkpoint(f"{secure_server.url}/model.safetensors")
    assert not secure_server.requests
