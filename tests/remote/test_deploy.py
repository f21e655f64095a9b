"""The compose files of deploy/: both servers alike but for speculation, nothing open that need not be, no secret."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdemo.app_options import app_parser
from specdemo.remote.options import servers

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ONE, TWO = "vllm.yaml", "vllm-ray.yaml"
SPECULATION = {"--speculative-config", "--per-request-spec-decode-metrics"}
ITS_OWN = {"--port", "--ray-client-server-port", "--dashboard-agent-listen-port", "--min-worker-port"}
ITS_OWN |= {"--max-worker-port", "--address"}  # of two that share a machine


def read(name: str) -> dict[str, dict[str, Any]]:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))["services"]


def words(service: dict[str, Any]) -> list[str]:
    """Of its command: of a list by itself, of a text, or of the one that a shell is given."""
    command = service["command"]
    command = [command] if isinstance(command, str) else command
    return command if len(command) > 1 else shlex.split(re.sub(r"\$\{(\w+):\?[^}]*\}", r"\1", command[0]))


def options(command: list[str]) -> dict[str, str]:
    """Each option and what follows it."""
    found, name = {}, ""
    for word in command:
        if word.startswith("--"):
            name = word
            assert name not in found, f"{name} stands twice"
        found[name] = "" if word == name else word
    return found


def vllm(service: dict[str, Any]) -> dict[str, str]:
    command = words(service)
    return options(command[command.index("serve") + 1 :] if "serve" in command else command)


def ray(service: dict[str, Any]) -> dict[str, str]:
    command = words(service)
    return options(command[command.index("start") + 1 : command.index("&&") if "&&" in command else None])


def gpus(service: dict[str, Any]) -> set[str]:
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    return set(device["device_ids"])


@pytest.mark.parametrize("name", [ONE, TWO])
def test_both_servers_are_alike_but_for_speculation(name: str) -> None:
    plain, speculative = (vllm(read(name)[lane]) for lane in ("plain", "speculative"))
    assert speculative.keys() - plain.keys() == SPECULATION and plain.keys() <= speculative.keys()
    differ = {one for one in plain if plain[one] != speculative[one]}
    assert differ == ({"--port"} if name == TWO else set())
    assert {"--no-enable-prefix-caching", "--enable-per-request-metrics"} < plain.keys()
    assert speculative["--per-request-spec-decode-metrics"] == "detailed"
    services = read(name)
    assert len(gpus(services["plain"])) == int(plain["--tensor-parallel-size"]) == 4
    assert not gpus(services["plain"]) & gpus(services["speculative"])


@pytest.mark.parametrize("name", [ONE, TWO])
def test_the_page_asks_them_where_they_are(name: str) -> None:
    services = read(name)
    _, program, *given = words(services["page"])
    args = app_parser().parse_args(given)
    asked = servers(args)
    ports = {lane: vllm(services[lane]).get("--port", "8000") for lane in ("plain", "speculative")}
    hosts = {lane: lane if name == ONE else "127.0.0.1" for lane in ports}
    assert [asked.baseline, asked.speculative] == [f"http://{hosts[lane]}:{port}" for lane, port in ports.items()]
    assert program == "app.py" and args.public
    for lane, port in ports.items():
        assert services[lane]["healthcheck"]["test"][-1].endswith(f":{port}/health")
        assert services["page"]["depends_on"][lane] == {"condition": "service_healthy"}


@pytest.mark.parametrize("name", [ONE, TWO])
def test_nothing_listens_to_the_world_and_no_secret_is_kept(name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    assert not re.search(r"token=|TOKEN|API_KEY|password|sk-|hf_", text)
    for service, one in read(name).items():
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
        if one.get("network_mode") == "host":
            assert "0.0.0.0" not in words(one), service
            assert service.endswith("-worker") or service == "page" or vllm(one)["--host"] == "127.0.0.1"


def test_each_server_over_two_machines_has_a_cluster_of_its_own() -> None:
    services = read(TWO)
    for lane in ("plain", "speculative"):
        head, worker = services[lane], services[f"{lane}-worker"]
        assert (head["profiles"], worker["profiles"]) == (["head"], ["worker"])
        assert gpus(head) == gpus(worker) and head["build"] == worker["build"]
        assert ray(worker)["--address"].rpartition(":")[2] == ray(head)["--port"]
        assert ray(worker)["--num-gpus"] == ray(head)["--num-gpus"] == vllm(head)["--tensor-parallel-size"]
        assert vllm(head)["--pipeline-parallel-size"] == "2" and vllm(head)["--distributed-executor-backend"] == "ray"
        assert head["environment"].keys() == worker["environment"].keys() == {"VLLM_HOST_IP"}
        assert all(one["network_mode"] == "host" for one in (head, worker))


def test_clusters_that_share_a_machine_share_no_port() -> None:
    services = read(TWO)
    for suffix in ("", "-worker"):
        plain, speculative = (ray(services[f"{lane}{suffix}"]) for lane in ("plain", "speculative"))
        assert plain.keys() == speculative.keys()
        assert {one for one in plain if plain[one] != speculative[one]} == ITS_OWN & plain.keys()
        assert int(plain["--max-worker-port"]) < int(speculative["--min-worker-port"])
