"""Checkpoints on a web server that encrypts, with a certificate of its own."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from file_server import serving

import prune_gui
from prune_gui.checkpoint.remote import stores
from prune_gui.checkpoint.remote.blocks import BLOCK_BYTES
from prune_gui.errors import CheckpointError


@pytest.fixture
def certificate(tmp_path):
    """Return a file with a certificate for this machine, signed by itself, and its key."""
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
    """Return a server of `folder` by https."""
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
    monkeypatch.setattr(stores, "FIRST_PAUSE_S", 0.001)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(CheckpointError, match=r"certificate is not trusted.* SSL_CERT_FILE"):
        prune_gui.open_checkpoint(f"{secure_server.url}/model.safetensors")
    assert not secure_server.requests
