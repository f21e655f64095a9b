"""No secret lies in what is committed, as far as the well-known forms of tokens and keys tell."""

from __future__ import annotations

import re

import pytest

from tests.checkout import ROOT, needs_checkout, tracked

SECRET = re.compile(
    rb"\bhf_[A-Za-z0-9]{30,}"  # the model hub
    rb"|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{40,}"
    rb"|\bA(?:KIA|SIA)[A-Z0-9]{16}\b"  # Amazon
    rb"|\bAIza[\w-]{35}"  # Google
    rb"|\bsk-[\w-]{20,}"
    rb"|\bxox[abprs]-[\w-]{10,}"  # Slack
    rb"|\bpypi-[\w-]{50,}"
    rb"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s"
)


@needs_checkout
def test_no_tracked_file_holds_a_secret() -> None:
    paths = [ROOT / name for name in tracked()]
    found = [
        f"{path.relative_to(ROOT)}: {match[0][:8].decode()}..."
        for path in paths
        if path.is_file()  # one that is deleted here and not yet there
        for match in SECRET.finditer(path.read_bytes())
    ]
    assert len(paths) > 100 and not found, found


@pytest.mark.parametrize(
    ("begins", "body"),
    [
        ("hf_", "a1" * 17),
        ("ghp_", "a1" * 18),
        ("github_pat_", "a1" * 40),
        ("AKIA", "A1" * 8),
        ("AIza", "a1" * 17 + "a"),
        ("sk-", "proj-" + "a1" * 20),
        ("xoxb-", "1234567890-abc"),
        ("pypi-", "a1" * 30),
        ("-----BEGIN ", "OPENSSH PRIVATE KEY-----\n"),
        ("-----BEGIN ", "PRIVATE KEY-----\n"),
    ],
)
def test_a_secret_would_be_found(begins: str, body: str) -> None:
    assert SECRET.search(f'token = "{begins}{body}"'.encode())
    assert not SECRET.search(f'token = "{begins}..."'.encode())
