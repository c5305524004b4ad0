"""Requests to web servers: names, connections that are used again, proxies, certificates."""

import ipaddress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from file_server import running, serving
from safetensors.numpy import save_file

import prune_gui
from prune_gui.checkpoint.remote import stores, web
from prune_gui.checkpoint.remote.fetched_blocks import BLOCK_BYTES
from prune_gui.errors import CheckpointError


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
        web.close_idle()


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
