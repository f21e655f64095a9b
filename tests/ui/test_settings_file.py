"""A file of options becomes what Settings begin with, and Settings the same file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import app
from specdemo.app_options import app_parser
from specdemo.config import configure, options_of
from specdemo.models.pair_options import PairSpec, pair_spec
from specdemo.ui.controls import SettingRefused
from specdemo.ui.desk import Desk
from specdemo.ui.engine import AS_TARGET
from specdemo.ui.page import Page
from specdemo.ui.settings_file import begin_with, file_of
from specdemo.ui.visitors import OWN, PUBLIC, Rules
from tests.ui.synthetic import Synthetic

WHOLE = """target: ./models/target
drafter: ngram+./models/draft
target-precision: bf16
draft-precision: int8
device: cuda
double-quantisation: true
equal-shapes: true
no-graphs: true
max-new-tokens: 96
gamma: 7
temperature: 0.7
top-p: 0.9
top-k: 40
min-p: 0.05
repetition-penalty: 1.1
seed: 3
draft-length: cost-optimal
mode: one-after-another
rule: rejection
draft-temperature: 0.5
stop:
- END
- 'two

  lines'
thinking: 'off'
"""


def page_of(path: Path, rules: Rules = OWN) -> Page:
    """The page of app.py --config."""
    parser, argv = app_parser(), ["--config", str(path)]
    configure(parser, argv)
    args = parser.parse_args(argv)
    spec = pair_spec(args)
    begin = (spec.drafter, spec.draft_precision or AS_TARGET, spec.target_precision, spec.target)
    return Page(Desk(Synthetic().engine(), spec, rules), *begin, begin_with(args))


def kept(page: Page) -> str:
    return json.loads(page.settings.value)["file"]


@pytest.mark.parametrize("text", ["", "gamma: 3\n", WHOLE], ids=["usual", "one", "whole"])
def test_file_page_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(text, "utf-8")
    first = kept(page_of(path))
    path.write_text(first, "utf-8")
    again = page_of(path)
    assert kept(again) == first
    assert "draft_model" not in first and "hub" not in first
    if text is WHOLE:
        assert first == WHOLE
        sent = [1.0 if value == 1 else value for value in again.fresh.values()]  # as sliders send whole numbers
        assert json.loads(again.sum_up(*sent)[1])["file"] == first


def test_every_setting_of_the_page_is_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(WHOLE, "utf-8")
    page = page_of(tmp_path / "demo.yaml")
    changed = page.fresh | {"target_model": "other", "drafter": "ngram", "gamma": 2.0, "thinking": "template"}
    file = file_of(changed, page.desk.spec)
    assert "target: other\ndrafter: ngram\n" in file and "gamma: 2\n" in file
    assert "draft-precision" not in file and "thinking" not in file
    names = {line.partition(":")[0] for line in WHOLE.splitlines() if line[:1].isalpha()}
    assert names <= set(options_of(app_parser()))


def test_a_public_page_gives_nothing_away_that_only_its_host_named(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(WHOLE, "utf-8")
    page = page_of(tmp_path / "demo.yaml", PUBLIC)
    assert "./models/target" not in kept(page) and "device" not in kept(page)


def test_what_no_slider_can_hold_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text("temperature: 3\n", "utf-8")
    with pytest.raises(SettingRefused) as refused:
        page_of(tmp_path / "demo.yaml")
    assert refused.value.params["name"] == "@temperature"


@pytest.mark.parametrize(("text", "told"), [("gama: 1", "Did you mean gamma"), ("gamma: 99", "draft length γ must")])
def test_app_says_what_is_wrong_and_ends(text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo.yaml").write_text(text, "utf-8")
    monkeypatch.setattr(sys, "argv", ["app.py", "--config", str(tmp_path / "demo.yaml")])
    monkeypatch.setattr("specdemo.ui.page.build_page", Mock(side_effect=AssertionError))
    with pytest.raises(SystemExit, match=told):
        app.main()


def test_a_page_without_a_pair_of_its_own_leaves_the_pair_out() -> None:
    page = Page(Desk(Synthetic().engine(), ("ngram", "same")))
    assert "target" not in kept(page) and "gamma: 5\n" in kept(page)
    assert "target: embedded\n" in file_of(page.fresh, PairSpec())
