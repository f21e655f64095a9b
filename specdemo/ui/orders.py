"""What a visitor asks for, as an order for the worker, or why it cannot be had. For the page and for the API alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from specdemo.models.hub import is_gated
from specdemo.models.hub_token import FORM
from specdemo.models.pair_options import split_drafter
from specdemo.race import Request
from specdemo.ui.controls import MODEL, SettingRefused, request
from specdemo.ui.conversation import Conversation
from specdemo.ui.desk import Desk
from specdemo.ui.engine import AS_TARGET
from specdemo.ui.login import Account, account_of
from specdemo.ui.servers import SETTINGS
from specdemo.ui.visitors import address_of
from specdemo.ui.worker import Order, Refused

MOST_CHARACTERS = 400_000  # of a prompt: more than any context here holds
NOTHING_SAID = Conversation()


def order(
    desk: Desk,
    choices: Mapping[str, Collection[str]],
    prompt: str,
    values: dict[str, Any],
    visitor: Any,
    before: Conversation = NOTHING_SAID,
    token: str = "",
    *,
    source: str = "page",
    tag: str = "",
    account: Account | None = None,
) -> Order | Refused:
    """Check everything that needs no model. choices: see `request`. values: settings by name. visitor: a gr.Request.

    token: of the model hub, which the visitor has given. source, tag: for the host's log. account: whose call it is,
    where the visitor's browser does not say.
    """
    prompt = readable(prompt)
    if not prompt.strip():
        return Refused("refused.empty")
    if len(prompt) > MOST_CHARACTERS:
        sizes = {"n": f"{len(prompt):,}", "most": f"{MOST_CHARACTERS:,}"}
        return Refused("refused.toolong", {"name": "@prompt", **sizes})
    chosen = pair_and_request(desk, choices, values, token, account or account_of(visitor))
    if isinstance(chosen, Refused):
        return chosen
    spec, asked = chosen
    turned = desk.rules.refuse_length(asked.max_new_tokens)
    if turned is not None:
        return Refused(*turned)
    thinking = {"on": True, "off": False}.get(values["thinking"])
    return Order(prompt, spec, asked, before, visitor.session_hash or "", address_of(visitor), thinking, source, tag)


def pair_and_request(
    desk: Desk,
    choices: Mapping[str, Collection[str]],
    values: dict[str, Any],
    token: str = "",
    account: Account | None = None,
) -> tuple[Any, Request] | Refused:
    """The pair that the settings ask for and how it should run, the prompt still missing; or why not.

    token: of the model hub, which was typed. account: who has signed in.
    """
    if desk.rules.login and account is None:
        return Refused("refused.login")
    values = {name: readable(value) if isinstance(value, str) else value for name, value in values.items()}
    try:
        asked = request(values, choices)
    except SettingRefused as refused:
        return Refused(refused.key, refused.params)
    drafter, precision, turned = values["drafter"], AS_TARGET, None
    if drafter == MODEL:
        drafter, precision = str(values["draft_model"] or "").strip(), values["draft_precision"]
        if not drafter:
            return Refused("refused.drafter")
        turned = desk.rules.refuse_model(drafter)
    target = str(values["target_model"] or "").strip()
    if target:
        turned = desk.rules.refuse_model(target) or turned
    token = readable(token).strip()
    if token and desk.rules.public:
        turned = turned or ("refused.notoken", {})
    elif token and not FORM.fullmatch(token):
        turned = ("refused.token", {})
    if turned is not None:
        return Refused(*turned)
    if account is not None and account.token and not token:  # models that are open to all stay one load for all
        named = (target, split_drafter(drafter)[1] if values["drafter"] == MODEL else None)
        token = account.token if any(name and is_gated(name) for name in named) else ""
    spec = desk.engine.choose(desk.spec, drafter, precision, values["target_precision"], target, token)
    return desk.engine.at(spec, {name: values[name] for name in SETTINGS if name in values}), asked


def readable(text: Any) -> str:
    """A text as it can be encoded: whatever is none, or half of a character, is not one that a page sends."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else ""
