"""How does a piece of our own HTML stand on a Gradio page? As a gr.HTML with a constant template and one script.

The template is static/<name>.html, the script static/<name>.js; the value reaches the script alone and never a
template, where Gradio would run what it holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from specdemo.ui.text import STRINGS

STATIC = Path(__file__).parent / "static"
STYLES = ("style", "gradio", "tour", "presenter", "how", "glass", "lab")
SCRIPTS = (
    "sd",
    "tooltip",
    "toasts",
    "settings",
    "presenter",
    "tour",
    "chat",
    "how",
    "header",
    "cost",
    "examples",
    "board",
    "markdown",
    "ghosts",
    "slow",
    "live",
    "panes",
    "glass",
    "legend",
    "theory",
    "below",
    "charts",
    "whatif",
    "money",
    "runs",
    "labform",
    "labcharts",
    "labvote",
    "lablog",
    "lab",
    "labreply",
)


class Part(gr.HTML):
    """One of the page's own parts. events: names that its script triggers; fills: words put into the template."""

    def __init__(
        self,
        name: str,
        value: str = "",
        *,
        events: tuple[str, ...] = (),
        fills: dict[str, str] | None = None,
        template: str | None = None,
        **props: Any,
    ) -> None:
        html = (STATIC / f"{template or name}.html").read_text(encoding="utf-8")
        for placeholder, word in (fills or {}).items():
            html = html.replace(f"%{placeholder}%", word)
        named = " ".join(f"'{event}'" for event in events)  # Gradio looks for an event's name in quotes here
        script = f"sd.mount('{name}', element, props, watch, trigger); // {named}"
        super().__init__(
            value,
            html_template=html,
            js_on_load=script,
            apply_default_css=False,
            container=False,
            padding=False,
            **props,
        )

    def postprocess(self, value: str | None) -> str | None:
        """The value as it is: it is data for the script, so Gradio's warnings about markup do not apply."""
        return value


def encode(value: Any) -> str:
    """JSON on one line for a part's script, in which no markup and none of Gradio's translation marks can be found.

    Text of models and visitors may be in it.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("__i18n__{", "__i18n__\\u007b")


def head() -> str:
    """Styles, strings and scripts that all parts share, for the page's <head>.

    The styles stand here because what comes by `css_paths` is rewritten by Gradio, which loses @container and :is().
    """
    styles = "\n".join((STATIC / f"{name}.css").read_text(encoding="utf-8") for name in STYLES)
    strings = json.dumps(STRINGS, ensure_ascii=False).replace("<", "\\u003c")
    scripts = "\n".join((STATIC / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return f"<style>{styles}</style><script>window.SD_TEXT = {strings};\n{scripts}</script>"
