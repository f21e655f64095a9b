"""The command line: what it prints, keeps, refuses and survives; over scripted lanes, and once over the real model."""

from __future__ import annotations

import argparse
import errno
import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specdemo import cli, terminal, trace_files
from specdemo.decoding.steps import Drafted, DraftLength, Origin, Parting, Rule, Step, Stop, Token, Verdict, Why
from specdemo.examples import load_examples
from specdemo.metrics import LaneMetrics, compare
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.pair_options import PairSpec
from specdemo.models.text import Detokenizer, spelling
from specdemo.race import Lane, LaneStep, Mode, Request
from specdemo.race_options import DRAFT_LENGTH, race_request
from specdemo.recording import Recording, Scribe

ROOT = Path(__file__).resolve().parent.parent


# --- Scripted lanes --------------------------------------------------------------------------------------------------


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each byte, its id the byte's place in the byte-level alphabet; no special tokens, no template."""
    alphabet = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


TOKENIZER = byte_tokenizer()


@dataclass
class FakePair:
    """What the command line reads of a pair."""

    tokenizer: PreTrainedTokenizerFast = TOKENIZER
    context: int = 512
    eos_ids: frozenset[int] = frozenset()
    bits_promised: bool = False
    padding: float = 1.0
    calibration: None = None
    facts: dict[str, str] = field(default_factory=lambda: {"target": "scripted"})
    target: object = field(default_factory=lambda: SimpleNamespace(device=torch.device("cpu")))


def lane_steps(text: str, drafts: bool) -> list[Step]:
    """A lane that writes this text: byte by byte, or four at a time, of which the first three were drafted."""
    ids = TOKENIZER.encode(text)
    steps = [Step((Token(ids[0], Origin.TARGET),), (), 0, Why.PREFILL, 1, 0.0, 0.1, 0.0)]
    width = 4 if drafts else 1
    for i in range(1, len(ids), width):
        chunk = ids[i : i + width]
        origins = [Origin.ACCEPTED] * (len(chunk) - 1) + [Origin.BONUS if drafts else Origin.TARGET]
        tokens = tuple(Token(i, origin) for i, origin in zip(chunk, origins, strict=True))
        drafted = tuple(Drafted(i, Verdict.ACCEPTED) for i in chunk[:-1])
        steps.append(Step(tokens, drafted, width - 1, Why.POLICY, i, 0.01 * drafts, 0.1, 0.0))
    last = steps[-1]
    steps[-1] = Step(last.tokens, last.drafted, last.gamma, last.why, 9, last.draft_seconds, 0.1, 0.0, stop=Stop.EOS)
    return steps


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The command line over a pair that is not loaded and lanes that are written here; what it asked for is kept."""
    script = SimpleNamespace(baseline="Hello, world. Good day.", speculative="Hello, world. Good day.", interrupt=None)

    def load_pair(spec: object, progress: object) -> FakePair:
        script.spec = spec
        return FakePair()

    def race(pair: object, request: Request) -> Iterator[LaneStep]:
        script.request = request
        lanes = {Lane.BASELINE: script.baseline, Lane.SPECULATIVE: script.speculative}
        for lane, text in lanes.items():
            for i, step in enumerate(lane_steps(text, lane is Lane.SPECULATIVE)):
                if script.interrupt == (lane, i):
                    raise KeyboardInterrupt
                yield LaneStep(lane, step)

    monkeypatch.setattr("specdemo.models.pair.load_pair", load_pair)
    monkeypatch.setattr("specdemo.race.race", race)
    return script


def test_the_summary_holds_the_figures_and_the_verdicts(
    scripted: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "hello"]) == 0
    out, err = capsys.readouterr()
    assert out.count("Hello, world. Good day.") == 2
    assert "3.3× faster: each verification (100 ms) produced 3.67 tokens; drafting took 9% of the time." in out
    assert "Identical, 23 of 23 tokens." in out
    figures = {line.split("  ")[0]: line.split()[-2:] for line in out.splitlines()}
    assert figures["target passes"] == ["22", "6"]
    assert figures["draft acceptance rate"] == ["–", "100%"]
    assert figures["mean acceptance length"] == ["–", "3.67"]
    assert figures["tokens/s, decoding"] == ["33.3", "3.3×"]
    assert err == ""


def test_every_option_reaches_the_pair_and_the_request(scripted: SimpleNamespace) -> None:
    options = "--target T --target-precision bf16 --equal-shapes --drafter D --draft-precision int8 --device cpu"
    options += " --temperature 0.7 --top-k 40 --top-p 0.9 --min-p 0.05 --repetition-penalty 1.1"
    options += " --draft-temperature 0.5 --seed 3 --gamma 2 --draft-length cost-optimal --rule block"
    options += " --mode one-after-another --max-new-tokens 9 --stop a --stop b"
    assert cli.main(["run", "hi", *options.split()]) == 0
    spec, request = scripted.spec, scripted.request
    assert spec == PairSpec("T", "D", draft_precision="int8", target_precision="bf16", device="cpu", equal_shapes=True)
    params = request.params
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.7, 40, 0.9, 0.05)
    assert (params.repetition_penalty, params.draft_temperature, params.seed) == (1.1, 0.5, 3)
    assert (request.gamma, request.rule, request.mode) == (2, Rule.BLOCK, Mode.ONE_AFTER_ANOTHER)
    assert request.draft_length is DraftLength.COST_OPTIMAL
    assert (request.max_new_tokens, request.stop_strings) == (9, ("a", "b"))
    assert request.prompt_ids == tuple(TOKENIZER.encode("hi"))


def test_a_file_of_options_does_what_the_options_do_and_the_command_line_wins(
    scripted: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text("target: T\ndrafter: D\ngamma: 2\nrule: block\nstop: [a, b]\nport: 7860\npublic: true\n", "utf-8")
    assert cli.main(["run", "hi", "--config", str(path), "--rule=rejection"]) == 0
    assert (scripted.spec.target, scripted.spec.drafter, scripted.request.gamma) == ("T", "D", 2)
    assert (scripted.request.rule, scripted.request.stop_strings) == (Rule.REJECTION, ("a", "b"))
    path.write_text("gama: 2\n", "utf-8")
    capsys.readouterr()
    assert cli.main(["run", "hi", "--config", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}, line 1: gama: there is no such option. Did you mean gamma?\n"


def test_a_run_is_logged_and_a_log_that_cannot_be_is_a_notice(
    scripted: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    assert cli.main(["run", "secret", "--log", str(path), "--tag", "nightly"]) == 0
    line = path.read_text("utf-8")
    assert '"tag": "nightly"' in line and '"source": "run"' in line and "secret" not in line
    assert cli.main(["run", "secret", "--log", str(path), "--log-prompts"]) == 0
    assert '"prompt": "secret"' in path.read_text("utf-8")

    def full(handler: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("logging.handlers.RotatingFileHandler.flush", full)
    capsys.readouterr()
    assert cli.main(["run", "hi", "--log", str(path)]) == 0
    assert "could not be logged" in capsys.readouterr().err
    assert cli.main(["run", "hi", "--log", str(tmp_path)]) == 2


def test_the_names_on_the_command_line_are_those_of_the_engine() -> None:
    parser = argparse.ArgumentParser()
    cli._add_run(parser)
    for name, kind in (("rule", Rule), ("mode", Mode), ("draft_length", DraftLength)):
        option = f"--{name.replace('_', '-')}"
        for member in kind:
            asked = race_request(parser.parse_args(["hi", option, member.replace(" ", "-")]))
            assert getattr(asked, name) is member
        usual = DRAFT_LENGTH if kind is DraftLength else next(iter(kind))
        assert getattr(race_request(parser.parse_args(["hi"])), name) is usual


def test_both_traces_are_kept(scripted: SimpleNamespace, tmp_path: Path) -> None:
    assert cli.main(["run", "hello", "--json", str(tmp_path / "race.json")]) == 0
    race = trace_files.load(tmp_path / "race.json")
    assert "".join(race.speculative.texts) == "Hello, world. Good day."
    assert race.baseline.token_ids == race.speculative.token_ids == tuple(TOKENIZER.encode(scripted.baseline))
    assert race.speculative.steps == tuple(lane_steps(scripted.speculative, drafts=True))
    assert race.baseline.pair == {"target": "scripted"}
    assert race.baseline.environment["torch"].startswith("2.")
    assert race.baseline.environment["date"].endswith("UTC")
    assert race.baseline.environment["busy meanwhile"].endswith("cores, by others")
    assert (race.prompt, race.gamma, race.mode, race.request) == ("hello", 5, Mode.RACED, scripted.request)
    assert race.speculative.spellings[TOKENIZER.encode("e")[0]] == "e"


def test_a_pipe_is_given_whole_lines(scripted: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    scripted.baseline = scripted.speculative = "word " * 100 + "end"
    assert cli.main(["run", "hello"]) == 0
    assert capsys.readouterr().out.count("word " * 100 + "end\n") == 2


def test_what_stands_behind_a_stop_string_is_not_shown(
    scripted: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "hello", "--stop", ". G"]) == 0
    out = capsys.readouterr().out
    assert "Hello, world\n" in out
    assert "Good" not in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["  "], "The prompt is empty"),
        (["\udcff"], "UTF-8"),
        (["hi", "--gamma", "17"], "γ must be a whole number between 0 and 16, not 17."),
        (["hi", "--temperature", "nan"], "The temperature must lie between"),
        (["hi", "--max-new-tokens", "0"], "Max new tokens must be"),
        (["hi" * 400], "this pair's context holds 512"),
        (["hi", "--json", "/no/such/folder/race.json"], "There is no folder /no/such/folder"),
    ],
)
def test_a_bad_request_is_a_sentence_and_exit_code_two(
    arguments: list[str], sentence: str, scripted: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert err.strip().endswith(".")
    assert out == ""


@pytest.mark.parametrize("error", [ModelUnavailable("There is no such model."), PairRefused("They differ.")])
def test_a_refused_pair_is_a_sentence_and_exit_code_two(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_pair(*_: object) -> None:
        raise error

    monkeypatch.setattr("specdemo.models.pair.load_pair", load_pair)
    assert cli.main(["run", "hi"]) == 2
    assert capsys.readouterr().err == f"{error}\n"


def test_an_example_of_the_page_can_be_asked(scripted: SimpleNamespace) -> None:
    prompt = next(one["prompt"] for one in load_examples() if one["task"] == "code")
    assert cli.main(["run", "--example", "code"]) == 0
    assert scripted.request.prompt_ids == tuple(TOKENIZER.encode(prompt))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run"], "Give a prompt, or an example's task"),
        (["run", "hello", "--example", "code"], "Give a prompt, or an example's task"),
        (["run", "--example", "nothing"], "No example has the task 'nothing': take one of code,"),
    ],
)
def test_one_prompt_is_wanted(capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    assert cli.main(argv) == 2
    assert said in capsys.readouterr().err


def test_what_can_be_refused_without_a_model_is_refused_before_one_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda *_: pytest.fail("a model was loaded"))
    for options in (["--gamma", "99"], ["--temperature", "-1"], ["--json", str(tmp_path)]):
        assert cli.main(["run", "hi", *options]) == 2
    assert f"{tmp_path} is a folder" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_said_and_the_race_is_shown(
    scripted: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specdemo.trace_files.save", full)
    assert cli.main(["run", "hi", "--json", str(tmp_path / "race.json")]) == 2
    out, err = capsys.readouterr()
    assert "3.3× faster" in out
    assert "could not be written" in err and "No space left" in err


def test_a_race_that_cannot_be_shown_is_kept_all_the_same(
    scripted: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specdemo.terminal.panes", full)
    assert cli.main(["run", "hi", "--json", str(tmp_path / "race.json")]) == 2
    assert trace_files.load(tmp_path / "race.json").baseline.steps
    assert "could not be shown: No space left" in capsys.readouterr().err


@pytest.mark.parametrize("place", [(Lane.BASELINE, 0), (Lane.BASELINE, 5), (Lane.SPECULATIVE, 3)])
def test_ctrl_c_shows_and_keeps_what_was_written(
    place: tuple[Lane, int], scripted: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted.interrupt = place
    assert cli.main(["run", "hi", "--json", str(tmp_path / "race.json")]) == 130
    race = trace_files.load(tmp_path / "race.json")
    lane = getattr(race, place[0].value)
    assert len(lane.steps) == place[1]
    assert lane.stop_reason == (Stop.STOPPED if place[1] else None)
    assert "Traceback" not in capsys.readouterr().err


def test_two_texts_that_part_are_measured_and_named(
    scripted: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted.speculative = "Hello, worms. Good day."
    monkeypatch.setattr("specdemo.decoding.parting.find_parting", lambda *_: Parting(10, 1, 2, 1.9, tie=False))
    assert cli.main(["run", "hi"]) == 0
    out = capsys.readouterr().out
    assert (
        "Fault: the texts part at token 11 with a logit gap of 1.9, too wide for rounding.\nThe speedup does not count."
        in out
    )
    assert "×" not in out
    monkeypatch.setattr("specdemo.decoding.parting.find_parting", lambda *_: Parting(10, 1, 2, 6e-5, tie=True))
    assert cli.main(["run", "hi"]) == 0
    out = capsys.readouterr().out
    assert "First 10 tokens equal, then a rounding tie: the two best logits lie 6e-05 apart." in out
    assert "3.3× faster" in out


def test_where_bits_are_promised_it_says_so_and_a_tie_is_a_fault(
    scripted: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = {"target": "scripted", "promise": "bit-identical (9 rows compared)"}
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda *_: FakePair(bits_promised=True, facts=script))
    assert cli.main(["run", "hi"]) == 0
    out = capsys.readouterr().out
    assert "Bit-identical, 23 of 23 tokens." in out and "Promised: bit-identical (9 rows compared)." in out
    scripted.speculative = "Hello, worms. Good day."
    monkeypatch.setattr("specdemo.decoding.parting.find_parting", lambda *_: Parting(10, 1, 2, 6e-5, tie=True))
    assert cli.main(["run", "hi"]) == 0
    out = capsys.readouterr().out
    assert "Fault: the texts part at token 11, where the same bits were promised (logit gap 6e-05)." in out
    assert "×" not in out


# --- What reaches the terminal ---------------------------------------------------------------------------------------

HOSTILE = "a\x1b[2Jb\x1b]0;title\x07c\rd\x08e\x9b31mf\u202eg\x00h\x7fi"


def recorded(text: str) -> dict[Lane, Recording]:
    """Both lanes having written this text."""
    recordings = {lane: Recording(lane) for lane in Lane}
    for lane, recording in recordings.items():
        scribe = Scribe(lane, Detokenizer(TOKENIZER), lambda token_id: spelling(TOKENIZER, token_id))
        for step in lane_steps(text, lane is Lane.SPECULATIVE):
            recording.add(scribe.spell(step))
    return recordings


def shown(text: str, **settings: object) -> str:
    """What a terminal is sent for a speculative lane that wrote this text."""
    recordings = recorded(text)
    console = Console(file=io.StringIO(), highlight=False, markup=False, height=20, **settings)
    console.print(terminal.panes(console, recordings, ()))
    console.print(terminal.legend(recordings[Lane.SPECULATIVE]))
    return console.file.getvalue()


TERMINAL = {"force_terminal": True, "color_system": "standard", "width": 100}


def test_hostile_text_cannot_move_the_cursor() -> None:
    plain = shown(HOSTILE, force_terminal=False, width=200)
    assert not set(plain) & set("\x1b\x07\r\x08\x9b\u202e\x00\x7f")
    assert "a␛[2Jb␛]0;title␇c␍d␈e\\x9b31mf\\x202egu"[:20] in plain
    with_colours = shown(HOSTILE, **TERMINAL)
    assert "\x1b[2J" not in with_colours
    assert not set(with_colours) & set("\x07\r\x08\x9b\u202e\x00\x7f")


@given(st.text(st.characters()))
def test_whatever_is_written_is_shown_without_control_characters(text: str) -> None:
    assert all(
        character.isprintable() or character in "\n\t" or character.isspace() or ord(character) > 0xA0
        for character in terminal.harmless(text)
    )
    assert not set(terminal.harmless(text)) & set(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))


def test_ordinary_text_is_left_as_it_is() -> None:
    for text in ("def f(x):\n\treturn x", "速度为基线的 2.3 倍", "👩‍💻 naïve — “quoted” [bold]not markup[/bold]"):
        assert terminal.harmless(text) == text
    assert "[bold]not markup[/bold]" in shown("x [bold]not markup[/bold]", force_terminal=False, width=200)


def test_each_origin_has_a_mark_beside_its_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = shown("Hello, world", **TERMINAL)
    assert "\x1b[4;36m" in coloured  # accepted: underlined, cyan
    assert "\x1b[3;4;32m" in coloured  # bonus: slanted, underlined, green
    monkeypatch.setenv("NO_COLOR", "1")
    without = shown("Hello, world", **TERMINAL)
    assert "\x1b[4m" in without
    assert "\x1b[3;4m" in without
    assert not any(f"{code}m" in without for code in (";32", ";36", "[32", "[36"))


def test_a_running_race_keeps_within_the_screen() -> None:
    recordings = recorded("line\n" * 100 + "the end")
    for width in (100, 50):
        console = Console(file=io.StringIO(), force_terminal=True, width=width, height=20)
        with terminal.RaceView(console, recordings, ()) as view:
            view.update()
        assert "the end" in console.file.getvalue()
        with console.capture() as capture:
            console.print(terminal.panes(console, recordings, (), 16))
        assert capture.get().count("\n") <= 20


@pytest.mark.parametrize(("ratio", "shown_as"), [(2.34, "2.3×"), (1.1, "1.1×"), (1.07, "1.07×"), (0.916, "0.92×")])
def test_a_speedup_has_one_decimal_and_two_below_eleven_tenths(ratio: float, shown_as: str) -> None:
    assert terminal.times(ratio) == shown_as


def test_a_slower_lane_is_told_what_it_needs() -> None:
    plain = LaneMetrics.of(lane_steps("abcdefghi", drafts=False))
    slow = LaneMetrics.of(
        [
            Step((token,), (), 0, Why.POLICY, 1, 0.0, 0.126, 0.0)
            for step in lane_steps("abcdefghi", True)
            for token in step.tokens
        ]
    )
    slow.drafted = 1
    assert terminal.verdict(compare(plain, slow)) == (
        "Slower, 0.79×: each verification (126 ms) produced 1.00 tokens, and 1.26 are needed to pay for it."
    )


# --- The program -----------------------------------------------------------------------------------------------------


def specdemo(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specdemo", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        **settings,
    )


def test_a_mistyped_option_is_refused_before_anything_heavy_is_imported() -> None:
    done = specdemo("run", "hi", "--gama", "3")
    assert done.returncode == 2
    assert "--gama" in done.stderr
    loaded = "import sys, specdemo.cli; sys.exit(bool({'torch', 'transformers', 'gradio'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", loaded], cwd=ROOT).returncode == 0


def test_a_model_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    done = specdemo("run", "hi", "--target", str(tmp_path / "no-such-model"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "no-such-model" in done.stderr
    assert done.stdout == ""


@pytest.mark.embedded
def test_the_embedded_model_races_and_leaves_its_traces(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    prompt = "Repeat after me, word for word: the quick brown fox jumps over the lazy dog."
    done = specdemo("run", prompt, "--max-new-tokens", "24", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    race = trace_files.load(path)
    assert 0 < len(race.baseline.tokens) <= 24
    assert race.baseline.token_ids == race.speculative.token_ids or "rounding tie" in done.stdout
    assert "tokens/s, decoding" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no colours
    first_words = "".join(race.baseline.texts).split()[:3]
    assert all(word in done.stdout for word in first_words)


@pytest.mark.embedded
def test_ctrl_c_ends_the_real_program_cleanly() -> None:
    arguments = ["run", "Tell a long story about the sea.", "--max-new-tokens", "4000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "specdemo", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # who starts the tests in the background leaves SIGINT ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        first = process.stderr.readline()  # "Loading ..." or so: from here on, it is the program that is interrupted
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert first.endswith("...\n")
    assert process.returncode == 130
    assert "Traceback" not in err
