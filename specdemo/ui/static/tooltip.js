/* One tooltip for every token of both panes, and for what a figure means: opened by pointer, focus, arrow keys or tap. */
sd.tooltip = (() => {
  const MOST = 4; // refused drafts that are listed: all of them stand under glass
  let tip = null;
  let shown = null;

  function box() {
    if (tip) return tip;
    tip = sd.make("div", "sd-tip");
    tip.id = "sd-tip";
    tip.setAttribute("role", "tooltip");
    tip.hidden = true;
    document.body.append(tip);
    return tip;
  }

  function row(list, name, value, className = "") {
    if (!name) return;
    list.append(sd.make("dt", "", name), sd.make("dd", className, value));
  }

  /* In running words a space within is seen anyway: only those at the ends are drawn. */
  const visible = (text) => (text === "" ? "∅" : text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ | $/g, "␣"));

  function fill(token, step) {
    const head = sd.make("p", "sd-tip-head");
    head.append(sd.make("b", "", sd.say(`origin.${token.origin}`)),
      " " + sd.say("tip.where", { step: step.number, position: token.position }));
    const list = sd.make("dl");
    for (const one of token.spelled) {
      row(list, sd.say("tip.id"), (one.id < 0 ? "–" : one.id) + "  ", "");
      list.lastChild.append(sd.make("code", "", visible(one.text)));
    }
    if (token.p !== null) row(list, sd.say("tip.p"), sd.probability(token.p));
    if (token.raw !== null && token.raw !== token.p) row(list, sd.say("tip.raw"), sd.probability(token.raw));
    if (token.q !== null) row(list, sd.say("tip.q"), sd.probability(token.q));
    tip.replaceChildren(head, list);
    if (token.last && step.refused.length) refusals(step);
    const note = [sd.say("tip.drafted", { k: step.drafted, gamma: step.gamma }), sd.say(`tip.why.${step.why}`)];
    tip.append(sd.make("p", "sd-tip-note", (step.drafted || step.gamma ? note : note.slice(1)).filter(Boolean).join("; ")));
  }

  function refusals(step) {
    tip.append(sd.make("p", "sd-tip-sub", sd.say("tip.refused")));
    const list = sd.make("ul");
    for (const draft of step.refused.slice(0, MOST)) {
      const item = sd.make("li");
      item.append(sd.make("s", "sd-no", visible(draft.text)));
      item.append(draft.judged ? `  q ${sd.probability(draft.q)}, p ${sd.probability(draft.p)}` : `  ${sd.say("tip.unreached")}`);
      list.append(item);
    }
    if (step.refused.length > MOST) list.append(sd.make("li", "", sd.say("tip.others", { n: step.refused.length - MOST })));
    tip.append(list);
  }

  function place(anchor) {
    const [spot] = anchor.getClientRects();
    if (!spot) return hide();
    const width = tip.offsetWidth, height = tip.offsetHeight;
    const left = Math.min(Math.max(8, spot.left), innerWidth - width - 8);
    const below = spot.bottom + 8 + height < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? spot.bottom + 8 : Math.max(8, spot.top - height - 8)}px`;
  }

  function show(anchor, token, step) {
    hide();
    box();
    fill(token, step);
    stand(anchor);
  }

  /* Words instead of a token. */
  function explain(anchor, words) {
    hide();
    box().replaceChildren(sd.make("p", "", words));
    stand(anchor);
  }

  function stand(anchor) {
    tip.hidden = false;
    shown = anchor;
    anchor.classList.add("sel");
    anchor.setAttribute("aria-describedby", "sd-tip");
    place(anchor);
  }

  function hide() {
    if (!shown) return;
    shown.classList.remove("sel");
    shown.removeAttribute("aria-describedby");
    shown = null;
    tip.hidden = true;
  }

  addEventListener("scroll", () => shown && place(shown), true);
  addEventListener("resize", hide);
  return { show, explain, hide, get anchor() { return shown; } };
})();
