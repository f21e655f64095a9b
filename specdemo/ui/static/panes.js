/* A pane: reads the lane's append-only NDJSON from where it stopped and writes tokens, each marked by its origin.
   The value's first line is a header; another header means another run. */
sd.parts.pane = (element, { props, watch }) => {
  const MARKS = { n: "target", a: "accepted", c: "corrected", b: "bonus", u: "unknown" };
  const VERDICTS = { r: true, n: false }; // refused, never judged
  const pane = element.querySelector(".sd-pane");
  const text = element.querySelector(".sd-text");
  const lane = pane.dataset.lane;
  let header = "", read = 0;
  let tokens = [], steps = [], points = [], unspelled = [];
  let into = text, line = "", written = 0, follow = true, current = -1;

  function begin(run) {
    tokens = []; steps = []; points = []; unspelled = []; line = ""; written = 0; current = -1; follow = true;
    sd.tooltip.hide();
    text.replaceChildren();
    into = text;
    pane.classList.add("sd-begun");
    pane.dataset.run = run.run;
    sd.emit("lane-began", { lane, run });
  }

  function step(entry) {
    const refused = (entry.d ?? []).map(([id, piece, verdict, q, p]) => ({ id, text: piece, judged: VERDICTS[verdict], q, p }));
    const made = { number: steps.length + 1, refused, drafted: entry.n ?? 0, gamma: entry.g ?? 0, why: entry.w ?? (entry.g ? "policy" : "plain") };
    steps.push(made);
    entry.k.forEach(([id, piece, mark, p = null, q = null, raw = null], index) => {
      token({ id, text: piece, origin: MARKS[mark], mark, p, q, raw, step: made, first: index === 0,
        last: index === entry.k.length - 1, end: entry.e === 1 && index === entry.k.length - 1 });
    });
    points.push([entry.t, written]);
  }

  /* A character spelled by several tokens is drawn with its last one. */
  function token(made) {
    unspelled.push(made);
    written += 1;
    if (made.text === "") return;
    made.spelled = unspelled;
    made.position = written;
    made.first = unspelled.some((one) => one.first);
    unspelled = [];
    draw(made);
  }

  function draw(made) {
    if (made.last) for (const draft of made.step.refused) into.append(ghost(draft));
    const cut = made.text.lastIndexOf("\n") + 1;
    fences(made.text.slice(0, cut));
    line += made.text.slice(cut);
    const node = sd.make("span", `t ${made.mark}${made.first ? " s" : ""}${made.end ? " end" : ""}`);
    node.dataset.i = tokens.length;
    node.dataset.id = made.id;
    const lead = made.end ? "" : made.text.match(/^\s*/)[0];
    const ink = made.text.slice(lead.length);
    if (lead) node.append(lead);
    if (ink) node.append(sd.make("i", "", ink));
    made.node = node;
    tokens.push(made);
    into.append(node);
  }

  function ghost(draft) {
    const node = sd.make("s", "sd-no", draft.text.trim() || "␣");
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  /* Lines between code fences are set in the monospaced face; the text itself stays as it is. */
  function fences(piece) {
    const lines = (line + piece).split("\n");
    line = lines.pop();
    for (const finished of lines) {
      if (!finished.trimStart().startsWith("```")) continue;
      if (into !== text) into = text;
      else text.append(into = sd.make("span", "sd-code"));
    }
  }

  function feed() {
    const value = props.value || "";
    const first = value.indexOf("\n");
    if (first < 0) return;
    if (value.slice(0, first) !== header) {
      header = value.slice(0, first);
      read = first + 1;
      begin(JSON.parse(header));
    }
    const end = value.lastIndexOf("\n") + 1;
    if (end <= read) return;
    for (const written of value.slice(read, end).split("\n")) if (written) step(JSON.parse(written));
    read = end;
    sd.emit("lane-wrote", { lane, points, tokens: written });
  }

  function choose(index) {
    current = Math.max(0, Math.min(index, tokens.length - 1));
    if (!tokens[current]) return;
    tokens[current].node.scrollIntoView({ block: "nearest" });
    sd.tooltip.show(tokens[current].node, tokens[current], tokens[current].step);
  }

  const at = (event) => event.target.closest?.(".t[data-i]");
  text.addEventListener("pointerover", (event) => {
    const node = at(event);
    if (node) sd.tooltip.show(node, tokens[node.dataset.i], tokens[node.dataset.i].step);
  });
  text.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") sd.tooltip.hide(); });
  text.addEventListener("click", (event) => { const node = at(event); if (node) choose(+node.dataset.i); else sd.tooltip.hide(); });
  text.addEventListener("blur", sd.tooltip.hide);
  text.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) choose(current + move);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(tokens.length - 1);
    else if (event.key === "Escape") sd.tooltip.hide();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => scroll()).observe(text);
  text.addEventListener("scroll", () => { follow = text.scrollTop + text.clientHeight >= text.scrollHeight - 32; });

  head(pane, lane);
  const scroll = () => { if (follow) text.scrollTop = text.scrollHeight; };
  watch("value", () => sd.frame(feed, scroll));
  feed();

  /* The figures over the text come with the scoreboard's value. */
  function head(pane, lane) {
    const fill = (name, value) => { pane.querySelector(`[data-live=${name}]`).textContent = value; };
    const draw = (board) => {
      const figures = board.lanes?.[lane];
      if (!figures) return;
      fill("rate", figures.rate);
      fill("first", figures.first ? `${figures.first} ${sd.say("pane.ms")}` : "–");
      fill("tokens", figures.tokens);
      fill("clock", `${figures.clock} ${sd.say("pane.s")}`);
      pane.classList.toggle("sd-live-now", board.running && !figures.done);
      const track = pane.querySelector(".sd-track");
      track.querySelector("i").style.width = `${100 * figures.progress}%`;
      track.setAttribute("aria-valuenow", Math.round(100 * figures.progress));
      const notch = track.querySelector("u");
      notch.hidden = figures.notch === null;
      if (!notch.hidden) notch.style.left = `${100 * figures.notch}%`;
      note(pane.querySelector(".sd-mark span"), figures, figures.notch ?? figures.progress);
      fork(board);
      fill("end", figures.end ? sd.say(`pane.end.${figures.end}`) : "");
    };
    let last = {};
    sd.on("board", (board) => draw(last = board));
    sd.on("language", () => draw(last));
  }

  /* Once it is over: a label where the two texts part. */
  function fork(board) {
    text.querySelector(".sd-fork")?.remove();
    if (board.running || !board.parting) return;
    const first = tokens.find((one) => one.position > board.parting.at);
    if (!first) return;
    const label = sd.make("span", "sd-fork", sd.say("parting.here"));
    label.setAttribute("aria-hidden", "true");
    first.node.before(label);
  }

  function note(span, figures, share) {
    span.textContent = figures.note ? sd.sentence(figures.note) : "";
    span.style.left = `${100 * share}%`;
    span.style.transform = `translateX(-${100 * share}%)`;
  }
};
