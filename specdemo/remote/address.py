"""What is a server's address, and how is a stranger's text said in a sentence? Speaks to nobody."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from specdemo.remote.faults import RemoteFault


def address(url: str) -> str:
    """The server's address without a path, of a URL with or without /v1; raises RemoteFault."""
    try:
        parts = urlsplit(url.strip())
        port, host = parts.port, parts.hostname
        (host or "").encode("idna")  # as whoever looks the name up will do it
        httpx.URL(url.strip())
        parts = None if port == 0 else parts
    except (ValueError, httpx.InvalidURL):
        parts = port = host = None
    if parts is None or parts.scheme not in ("http", "https") or not host:
        raise RemoteFault(f"{short(url)} is no address of a server: write http://HOST:PORT or https://HOST.")
    if parts.username is not None or parts.query or parts.fragment:
        raise RemoteFault("A server's address takes no name, password, query or fragment: a key goes to --api-key-env.")
    if parts.path.rstrip("/") not in ("", "/v1"):
        raise RemoteFault(f"A server's address ends at its port or with /v1, not with {short(parts.path)}.")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def short(text: str) -> str:
    """A stranger's text, on one line, without control characters, short enough for a sentence."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split()).rstrip(".")
    return line if len(line) <= 160 else f"{line[:157]}..."
