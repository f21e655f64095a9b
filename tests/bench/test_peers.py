"""FlashSpec beside us: what is asked of it, what it answers, and what is said where it is not there or fails.

The package itself is in no test environment: a stand-in with its names writes what the model would.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from specdemo.bench import peers
from specdemo.bench.contest import Contest, Settings
from specdemo.bench.peers import PEER_ROWS, FlashSpec, PeerFailed
from specdemo.bench.sides import Prompt, Sample, run_lane
from specdemo.race import Lane
from tests.bench.conftest import ScriptedWatch
from tests.bench.test_bench import parsed, quiet_machine  # noqa: F401
from tests.threads import one_thread  # noqa: F401

PROMPT = Prompt("abc", (5, 6, 7, 5, 6))


class Engine:
    """Writes greedily, two tokens a round, and names how it was set up."""

    def __init__(self, config: SimpleNamespace, drafters: list, target: SimpleNamespace) -> None:
        self.drafter_strategy, self.compiled = getattr(config, "drafter_strategy", "auto"), False
        self._model, self._config = target.model, config

    @torch.inference_mode()
    def generate(self, ids: torch.Tensor, max_new_tokens: int) -> SimpleNamespace:
        assert (self._config.sampling.temperature, self._config.sampling.gamma) == (0.0, 3)
        new: list[int] = []
        for _ in range(max_new_tokens):
            new.append(
                int(self._model(torch.cat([ids, torch.tensor([new], dtype=torch.long)], 1)).logits[0, -1].argmax())
            )
        steps = tuple(SimpleNamespace(emitted=2, seconds=0.5) for _ in range(max_new_tokens // 2))
        return SimpleNamespace(output_ids=torch.tensor([new]), n_tokens_generated=len(new), arm_steps=steps)


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The other process's module, over the stand-in."""
    package, engine = ModuleType("flashspec"), ModuleType("flashspec.engine")
    for name in ("BanditConfig", "FlashSpecConfig", "SamplingConfig"):
        setattr(package, name, SimpleNamespace)
    package.SpeculativeEngine = Engine
    for name in ("HuggingFaceDrafter", "TargetModel"):
        setattr(engine, name, lambda *args, model, **named: SimpleNamespace(model=model))
    engine.NgramDrafter = SimpleNamespace
    monkeypatch.setitem(sys.modules, "flashspec", package)
    monkeypatch.setitem(sys.modules, "flashspec.engine", engine)
    module = importlib.import_module("specdemo.bench.flashspec_side")
    monkeypatch.setattr(module, "version", lambda name: "9")
    yield module
    del sys.modules["specdemo.bench.flashspec_side"]


def contest(tiny_target: Path, tiny_prompts: Path, scratch: Path) -> Contest:
    settings = Settings(
        str(tiny_target), "fp32", "cpu", gamma=3, new_tokens=6, repeats=1, draft_layers=1, prompts=tiny_prompts
    )
    return Contest(settings, scratch, ScriptedWatch())


def test_it_writes_what_the_model_writes_by_each_way_and_times_the_first_round_apart(
    side: ModuleType, tiny_target: Path, tiny_prompts: Path, tmp_path: Path
) -> None:
    ours = contest(tiny_target, tiny_prompts, tmp_path)
    order = {
        "target": str(tiny_target),
        "draft": str(ours.draft_folder),
        "load_dtype": "float32",
        "run_dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "gamma": 3,
    }
    asked = [{"way": way, "ids": PROMPT.ids, "new_tokens": 6} for way in ("lookup", "model", "default")]
    said: list[str] = []
    side.serve(map(json.dumps, (order, *asked)), said.append)
    versions, *answers = map(json.loads, said)
    assert versions == {"flashspec": "9", "torch": "9", "transformers": "9"}
    wrote = run_lane(ours.lane(ours.ngram, Lane.BASELINE, PROMPT), torch.device("cpu"))
    for answer, strategy in zip(answers, ("bandit", "bandit", "auto"), strict=True):
        assert answer["ids"] == list(wrote.ids)
        assert (answer["first"], answer["passes"], answer["seconds"]) == (2, 2, 1.0)
        assert answer["whole_seconds"] > 0 and answer["strategy"] == strategy


ECHO = """import json, sys
order = json.loads(sys.stdin.readline())
print(json.dumps({"flashspec": order["run_dtype"]}), flush=True)
for line in sys.stdin:
    if json.loads(line)["way"] == "model":
        sys.exit("no such\\nmodel here")
    told = {"ids": [1, 2], "first": 1, "seconds": 0.5, "whole_seconds": 0.7, "passes": 1}
    print(json.dumps(told | {"strategy": "bandit", "compiled": False}), flush=True)
"""


def test_the_process_answers_or_fails_with_its_own_last_line(
    tiny_target: Path, tiny_prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = contest(tiny_target, tiny_prompts, tmp_path)
    script = tmp_path / "echo.py"
    script.write_text(ECHO)
    monkeypatch.setattr(peers, "SIDE", script)
    with FlashSpec(Path(sys.executable)) as peer:
        assert peer.write(ours, "lookup", PROMPT) == Sample((1, 2), 1, 0.5, 0.7, 1)
        assert peer.versions == {"flashspec": "float32", "FlashSpec, lookup": "bandit, eager"}
        with pytest.raises(PeerFailed, match=r"FlashSpec failed in .*: model here"):
            peer.write(ours, "model", PROMPT)
        with pytest.raises(PeerFailed):
            peer.write(ours, "lookup", PROMPT)


def test_every_row_stands_beside_each_peer_and_texts_are_compared(
    tiny_target: Path, tiny_prompts: Path, tmp_path: Path
) -> None:
    class Ours:
        """A peer that writes what our baseline writes, or other words where it is told to."""

        other = False

        def write(self, contest: Contest, way: str, prompt: Prompt) -> Sample:
            sample = run_lane(contest.lane(contest.ngram, Lane.BASELINE, prompt), torch.device("cpu"))
            ids = tuple(i ^ 1 for i in sample.ids) if self.other else sample.ids
            return Sample(ids, sample.first, sample.seconds, sample.whole_seconds, sample.passes)

    ours, peer = contest(tiny_target, tiny_prompts, tmp_path), Ours()
    results = {name: row(peer, ours) for name, row in PEER_ROWS.items()}
    assert {name: len(some) for name, some in results.items()} == {"k": 2, "l": 2, "n": 1}
    assert not any(result.faults for some in results.values() for result in some)
    assert all(len(result.values) == 1 and result.value > 0 for some in results.values() for result in some)
    assert "over FlashSpec as it comes" in results["n"][0].what
    peer.other = True
    assert "the texts part at token" in PEER_ROWS["n"](peer, ours)[0].faults[0]


def test_without_its_environment_it_says_how_to_make_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from specdemo.bench import main

    assert main(parsed("--peers", "--flashspec", str(tmp_path / "python"))) == 2
    said = capsys.readouterr().err
    assert "there is no Python" in said and "pip install -r requirements-peers.txt`" in said


@pytest.mark.skipif("SPECDEMO_FLASHSPEC_PYTHON" not in os.environ, reason="no environment with FlashSpec is named")
def test_the_package_itself_writes_the_same_text(tiny_target: Path, tiny_prompts: Path, tmp_path: Path) -> None:
    ours = contest(tiny_target, tiny_prompts, tmp_path)
    wrote = run_lane(ours.lane(ours.ngram, Lane.BASELINE, PROMPT), torch.device("cpu"))
    with FlashSpec(Path(os.environ["SPECDEMO_FLASHSPEC_PYTHON"])) as peer:
        for way in ("lookup", "model", "default"):
            assert peer.write(ours, way, PROMPT).ids == wrote.ids
