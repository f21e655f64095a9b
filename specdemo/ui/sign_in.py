"""What does a visitor press to sign in at the model hub, and out again? Two buttons, of which one is shown."""

from __future__ import annotations

from typing import Any

import gradio as gr

from specdemo.ui.login import account_of
from specdemo.ui.text import DEFAULT, say

GO = "() => location.assign('/{path}?_target_url=' + encodeURIComponent('/' + location.search))"


class LoginButton(gr.LoginButton):
    """What makes Gradio serve its sign-in. Gradio's own script tells signed in from out by an English word."""

    is_template = True

    def get_block_name(self) -> str:
        return "button"

    def activate(self) -> None:
        """Nothing of Gradio's."""


class SignIn:
    """The buttons, built inside whatever block is open."""

    def __init__(self) -> None:
        with gr.Row(elem_id="sd-sign", elem_classes=["sd-sign"]):
            self._into = LoginButton(say(DEFAULT, "login"), size="sm", elem_id="sd-login")
            self._out = gr.Button(say(DEFAULT, "logout", name=""), size="sm", elem_id="sd-logout", visible=False)

    def wire(self, blocks: gr.Blocks, header: Any, language: gr.blocks.Block, private: dict[str, Any]) -> None:
        """What happens on them. header: where the language is chosen. language: any part, to bring the browser's."""
        both = [self._into, self._out]
        self._into.click(None, None, None, js=GO.format(path="login/huggingface"), **private)
        self._out.click(None, None, None, js=GO.format(path="logout"), **private)
        blocks.load(self.show, language, both, js="() => [sd.lang]", queue=False, **private)
        header.language(self.relabel, None, both, queue=False, **private)

    def show(self, visitor: gr.Request, language: str) -> list[dict[str, Any]]:
        """The one that this visitor needs, in their language."""
        account = account_of(visitor)
        name = account.name if account else ""
        return [
            gr.update(value=say(language, "login"), visible=account is None),
            gr.update(value=say(language, "logout", name=name), visible=account is not None),
        ]

    def relabel(self, visitor: gr.Request, event: gr.EventData) -> list[dict[str, Any]]:
        """The same in another language."""
        return self.show(visitor, event._data["language"])
