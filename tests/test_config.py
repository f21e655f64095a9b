"""Options from a file: what every wrong one is told, and that nothing but plain data is made of it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from specdemo.app_options import RUN_ALONE, app_parser
from specdemo.config import LARGEST, ConfigRefused, configure, options_of, write


def asked(folder: Path, text: str, *argv: str) -> argparse.Namespace:
    """What app.py is asked for by this file and these words."""
    path = folder / "demo.yaml"
    path.write_text(text, "utf-8")
    argv = ("--config", str(path), *argv)
    parser = app_parser()
    configure(parser, argv, others=lambda: RUN_ALONE)
    return parser.parse_args(argv)


def test_every_kind_of_option_can_be_set(tmp_path: Path) -> None:
    text = "\ufefftemperature: 1\ngamma: 3\npublic: yes\nlog: runs.jsonl\nstop: [a, 'b']\nwaiting_each: 2\n"
    args = asked(tmp_path, text + "allow-model: one\nthinking: 'off'\njson: passed-over.json\nlab-rows: 0\n")
    assert (args.temperature, args.gamma, args.public, args.log) == (1.0, 3, True, Path("runs.jsonl"))
    assert (args.stop, args.waiting_each, args.allow_model, args.thinking) == (["a", "b"], 2, ["one"], "off")
    assert args.lab_rows == 0 and isinstance(args.temperature, float)


def test_the_file_may_be_named_by_a_shortened_option_as_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo.yaml").write_text("gamma: 3\n", "utf-8")
    argv = ["--conf", str(tmp_path / "demo.yaml")]
    configure(parser := app_parser(), argv)
    assert parser.parse_args(argv).gamma == 3
    configure(app_parser(), ["--config"])
    assert capsys.readouterr().err == "", "that no file is named, the parser says once"


def test_no_file_and_an_empty_one_change_nothing(tmp_path: Path) -> None:
    usual = vars(app_parser().parse_args([]))
    assert vars(asked(tmp_path, "# nothing\n")) | {"config": None} == usual
    configure(parser := app_parser(), [])
    assert vars(parser.parse_args([])) == usual


def test_the_command_line_wins(tmp_path: Path) -> None:
    text = "gamma: 3\nstop: [a]\ndraft-length: fixed\ntarget: T\ndrafter: D\ntarget-precision: bf16\n"
    args = asked(tmp_path, text, "--gamma=4", "--stop", "b", "--draft-len", "entropy")
    assert (args.gamma, args.stop, args.draft_length, args.drafter) == (4, ["b"], "entropy", "D")
    other = asked(tmp_path, text, "--target", "U")
    assert (other.target, other.drafter, other.target_precision) == ("U", None, "bf16"), "D drafts for T"
    preset = asked(tmp_path, "preset: qwen3-8b\n", "--target", "U")
    assert (preset.target, preset.preset) == ("U", None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gama: 3", ", line 1: gama: there is no such option. Did you mean gamma?"),
        ("xyzzy: 3", ", line 1: xyzzy: there is no such option. `--help` lists them."),
        ("config: a.yaml", ", line 1: config: there is no such option"),
        ("\ngamma: three", ", line 2: gamma: take a whole number, not 'three'."),
        ("gamma: 3.5", ", line 1: gamma: take a whole number, not 3.5."),
        ("gamma: true", ", line 1: gamma: take a whole number, not True."),
        ("gamma:", ", line 1: gamma: take a whole number, not None."),
        ("gamma: [1, 2]", ", line 1: gamma: one value is wanted, and this is a list."),
        ("gamma: {a: 1}", ", line 1: gamma: take a value, JSON in quotes, or a list"),
        ("temperature: hot", ", line 1: temperature: take a number, not 'hot'."),
        ("public: maybe", ", line 1: public: take true or false, not 'maybe'."),
        ("rule: metropolis", ", line 1: rule: take one of shared-noise, rejection, block, not 'metropolis'."),
        ("waiting: 0", ", line 1: waiting: it must be at least 1, not '0'."),
        ("waiting: some", ", line 1: waiting: take a whole number, not 'some'."),
        ("tag: 2024-05-14", ", line 1: tag: take a text, in quotes"),
        ("thinking: off", ", line 1: thinking: take a text, in quotes, not False."),
        ("gamma: 1\ngamma: 2", ", line 2: gamma: it stands in line 1, too. Keep one of them."),
        ("target: a\npreset: qwen3-8b", ": target and preset exclude each other. Keep one of them."),
        ("gamma: 'x", ", line 1: this is not YAML"),
        ("a: b: c", ", line 1: this is not YAML"),
        ("just words", " should be a mapping: write `name: value` on each line."),
        ("? [a]\n: b", ", line 1: a key is the name of an option."),
        ("tag: !!python/object/apply:os.system ['x']", ", line 1: tag: "),
        ("tag: !!python/name:os.system x", "could not determine a constructor"),
        ("gamma: " + "9" * 5000, "gamma: "),
        ("[" * 5000, " is not YAML"),
        ("tag: \x00", "not YAML"),
        ("#" * (LARGEST + 1), "is larger than 64 KiB, which no file of options is."),
    ],
)
def test_a_wrong_file_is_a_sentence_with_the_line_and_the_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        asked(tmp_path, text)
    said = str(refused.value)
    assert told in said and said.startswith(str(tmp_path)) and said[-1] in ".?" and len(said) < 400


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "gone.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigRefused, match=why):
            configure(app_parser(), ["--config", str(path)])
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigRefused, match="not text in UTF-8"):
        configure(app_parser(), ["--config", str(tmp_path / "bytes.yaml")])


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    text = write({"gamma": 3, "thinking": "off", "stop": ["a: b", "ä\n"], "tag": None})
    args = asked(tmp_path, text)
    assert (args.gamma, args.thinking, args.stop, args.tag) == (3, "off", ["a: b", "ä\n"], "")
    assert set(RUN_ALONE).isdisjoint(options_of(app_parser()))
