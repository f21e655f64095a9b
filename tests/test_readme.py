"""README and pins: what a Space reads, what a newcomer types, and what the files pin are the same thing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
README, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh.md"))
_, FRONT, BODY = README.split("---\n", 2)
SPACE = yaml.safe_load(FRONT)


def pins(name: str) -> dict[str, str]:
    """The packages that a requirements file pins itself."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith(("#", "-r ")))


RUNTIME, DEV = pins("requirements.txt"), pins("requirements-dev.txt")


def test_the_space_runs_the_gradio_that_is_pinned() -> None:
    assert SPACE["sdk"] == "gradio"
    assert SPACE["sdk_version"] == RUNTIME["gradio"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", SPACE["sdk_version"])


def test_the_space_finds_its_app_and_its_licence() -> None:
    assert (ROOT / SPACE["app_file"]).is_file()
    assert SPACE["license"] == "apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert SPACE["python_version"] == "3.11"


def test_the_short_description_fits() -> None:
    assert len(SPACE["short_description"]) <= 60


def test_the_space_preloads_what_the_hub_source_asks_for() -> None:
    from specdemo.models import fetch

    repository, files, revision = SPACE["preload_from_hub"][0].split()
    assert (repository, revision) == (fetch.HUB_ID, fetch.HUB_REVISION)
    assert set(files.split(",")) == set(fetch.HUB_SHA256)


def test_the_first_part_holds_exactly_two_commands_each_on_one_line() -> None:
    first_part = BODY.split("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", first_part, re.DOTALL)
    assert [block.count("\n") for block in blocks] == [1, 1]
    run, test = blocks
    assert "-r requirements.txt" in run
    assert "python app.py" in run
    assert "-r requirements-dev.txt" in test
    assert "-m pytest" in test


def test_what_stands_before_the_commands_is_three_sentences_and_a_picture() -> None:
    text = BODY.split("![")[0].split("\n", 3)[3]
    assert len(re.findall(r"[.](?=\s|$)", text)) == 3
    picture = re.search(r"!\[.+?\]\((.+?)\)", BODY)
    assert picture
    assert (ROOT / picture[1]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned_and_none_names_where_it_is_from(name: str) -> None:
    for line in (ROOT / name).read_text("utf-8").splitlines():
        assert re.fullmatch(r"#.*|-r requirements\.txt|[a-z_\d-]+==\d[\w.]*|", line), line


def test_what_runs_here_is_what_is_pinned() -> None:
    if not sys.prefix.startswith(str(ROOT)):
        pytest.skip("another environment than the README's")
    for package, pinned in (RUNTIME | DEV).items():
        assert version(package).split("+")[0] == pinned, package


def test_every_option_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"`(--[a-z-]+)", BODY)) - {"--help"}
    done = subprocess.run(
        [sys.executable, "-m", "specdemo", "run", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert named <= set(re.findall(r"--[a-z-]+", done.stdout))
    assert {"--gamma", "--drafter", "--json"} <= named


def commands(text: str) -> list[str]:
    """Whole blocks, in their order."""
    return re.findall(r"```bash\n(.*?)```", text, re.DOTALL)


def explained(text: str) -> list[str]:
    """What the tables explain line by line: options and places in the house, not figures."""
    return re.findall(r"^\| (`[^|]+?) \|", text, re.MULTILINE)


def test_the_chinese_readme_gives_the_same_commands_options_and_places() -> None:
    assert commands(CHINESE) == commands(BODY) and len(commands(BODY)) > 4
    assert explained(CHINESE) == explained(BODY) and len(explained(BODY)) > 20
    assert len(re.findall(r"^## ", CHINESE, re.MULTILINE)) == len(re.findall(r"^## ", BODY, re.MULTILINE))


def test_each_readme_leads_to_the_other_and_both_to_the_same_documents() -> None:
    to, back = (set(re.findall(r"\]\(([^)#]+)", text)) for text in (BODY, CHINESE))
    assert "README.zh.md" in to and "README.md" in back
    assert to - {"README.zh.md"} == back - {"README.md"}
    assert [name for name in to | back if not (ROOT / name).is_file()] == []


def test_figures_stand_in_one_readme_alone() -> None:
    assert not re.search(r"\d×|\d %", CHINESE)
