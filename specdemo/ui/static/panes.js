/* A pane: reads the lane's append-only NDJSON from where it stopped and writes tokens, each marked by its origin.
   The value's first line is a header; another header means another run. */
sd.lanes = {}; // by lane: run and number of steps on the page, and which of them is marked
sd.parts.pane = (element, { props, watch }) => {
  const VERDICTS = { r: true, n: false }; // refused, never judged
  const RENDER_EVERY = 250; // milliseconds between two settings of the whole text while it grows
  const pane = element.querySelector(".sd-pane");
  const text = element.querySelector(".sd-text");
  const find = (name) => pane.querySelector(`[data-pane=${name}]`);
  const lane = pane.dataset.lane, fast = lane === "speculative";
  let header = "", read = 0;
  let entries = [], points = [], arrived = 0; // of the stream; what is drawn may be behind it in slow motion
  let tokens = [], steps = [], unspelled = [];
  let into = text, line = "", written = 0, follow = true, current = -1, marked = null;
  let pending = null, rendered = false, set = 0, tall = 0, stood = 0;
  const ghosts = sd.ghosts(text);
  const player = sd.slow.player(lane, { pend, judge, drawn: () => sd.frame(settle, scroll) });
  const refusedShown = () => fast && document.body.classList.contains("sd-show-refused");

  function begin(run) {
    entries = []; points = []; arrived = 0;
    sd.lanes[lane].run = run.run;
    pane.classList.add("sd-begun");
    restart();
    sd.emit("lane-began", { lane, run });
  }

  /* An empty pane, before the first step. */
  function restart() {
    tokens = []; steps = []; unspelled = []; line = ""; written = 0; current = -1; marked = null; pending = null;
    follow = true; tall = stood = 0;
    sd.tooltip.hide();
    player.begin();
    ghosts.clear();
    text.replaceChildren();
    into = text;
  }

  /* ----- A step, drafted and then judged ----- */

  /* Slow motion: what was drafted, before anybody has judged it. */
  function pend(entry) {
    const drafts = [...entry.k.filter(([, , mark]) => mark === "a"), ...(entry.d ?? [])];
    stand((entry.n ? drafts : []).map(([, piece]) => inked(sd.make("span", "t p"), piece)));
  }

  function judge(entry) {
    stand([]);
    step(entry);
    const fallen = sd.slow.on ? steps.at(-1).refused : []; // struck out, until the next draft
    stand(fallen.flatMap((draft) => [" ", sd.make("s", "sd-no", draft.text.trim() || "␣")]));
  }

  /* Behind the text, and no part of it. */
  function stand(nodes) {
    pending?.remove();
    pending = null;
    if (!nodes.length) return;
    pending = sd.make("span", "sd-pending");
    pending.setAttribute("aria-hidden", "true");
    pending.append(...nodes);
    into.append(pending);
  }

  function step(entry) {
    const refused = (entry.d ?? []).map(([id, piece, verdict, q, p]) => ({ id, text: piece, judged: VERDICTS[verdict], q, p }));
    const made = { number: steps.length + 1, refused, tokens: [], drafted: entry.n ?? 0, gamma: entry.g ?? 0, why: entry.w ?? (entry.g ? "policy" : "plain") };
    steps.push(made);
    entry.k.forEach(([id, piece, mark, p = null, q = null, raw = null], index) => {
      token({ id, text: piece, origin: sd.origin(mark), mark, p, q, raw, step: made, first: index === 0,
        last: index === entry.k.length - 1, end: entry.e === 1 && index === entry.k.length - 1 });
    });
  }

  /* A character spelled by several tokens is drawn with its last one. */
  function token(made) {
    unspelled.push(made);
    made.step.tokens.push(made);
    written += 1;
    if (made.text === "") return;
    made.spelled = unspelled;
    made.position = written;
    made.first = unspelled.some((one) => one.first);
    unspelled = [];
    made.index = tokens.length;
    tokens.push(made);
    if (!rendered) draw(made);
  }

  /* ----- The text as it was written ----- */

  function draw(made) {
    const cut = made.text.lastIndexOf("\n") + 1;
    fences(made.text.slice(0, cut));
    line += made.text.slice(cut);
    made.node = inked(span(made), made.text, made.end ? "" : undefined);
    into.append(made.node);
  }

  /* The ink of a piece, its leading white space before it and outside. */
  function inked(node, piece, lead = piece.match(/^\s*/)[0]) {
    if (lead) node.append(lead);
    if (piece.length > lead.length) node.append(sd.make("i", "", piece.slice(lead.length)));
    return node;
  }

  function span(made) {
    const node = sd.make("span", `t ${made.mark}${made.first ? " s" : ""}${made.end ? " end" : ""}${made.step.number === marked ? " on" : ""}`);
    node.dataset.i = made.index;
    node.dataset.id = made.id;
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

  /* ----- The text with its Markdown set ----- */

  /* Every visible character keeps its token and mark; tokens that are signs alone are not drawn, and counted. */
  function render() {
    const whole = plain();
    const { lines, styles } = sd.markdown.read(whole);
    text.replaceChildren();
    into = text;
    for (const one of tokens) one.node = null;
    let at = 0, from = 0; // the token under way, and where it begins in the whole text
    for (const row of lines) {
      const block = sd.make("div", `md-${row.kind}`);
      while (at < tokens.length && from < row.to) {
        const made = tokens[at], size = made.end ? 0 : made.text.length;
        if (from + size > row.from) fragment(block, made, from, Math.max(from, row.from), Math.min(from + size, row.to), whole, styles);
        if (from + size > row.to) break;
        from += size;
        at += 1;
      }
      text.append(block);
    }
    const last = tokens.at(-1);
    if (last?.end) {
      last.node = inked(span(last), last.text, "");
      text.append(last.node);
    }
    const unseen = tokens.filter((one) => !one.node && one.text.trim()).length;
    find("unseen").textContent = unseen ? sd.say("render.unseen", { n: unseen }) : "";
    if (pending) text.append(pending);
    ghosts.clear();
    fork();
  }

  function fragment(block, made, start, from, to, whole, styles) {
    const lead = start + made.text.match(/^\s*/)[0].length;
    const node = span(made);
    for (let a = from, b; a < to; a = b) {
      b = a + 1;
      while (b < to && styles[b] === styles[a] && b !== lead) b += 1;
      if (styles[a] & sd.markdown.HIDDEN) continue;
      const piece = whole.slice(a, b);
      if (a < lead) node.append(piece);
      else node.append(sd.make("i", sd.markdown.classes(styles[a]), piece));
    }
    if (!node.childNodes.length) return;
    made.node ??= node;
    block.append(node);
  }

  function setRendered(wanted) {
    rendered = wanted;
    pane.classList.toggle("sd-rendered", rendered);
    find("unseen").textContent = "";
    if (rendered) return render();
    text.replaceChildren();
    into = text;
    line = "";
    for (const one of tokens) draw(one);
    if (pending) into.append(pending);
    ghosts.clear();
  }

  /* ----- The stream ----- */

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
    for (const one of value.slice(read, end).split("\n")) {
      if (!one) continue;
      const entry = JSON.parse(one);
      entries.push(entry);
      arrived += entry.k.filter(([id]) => id >= 0).length; // text without ids is of nobody knows how many tokens
      points.push([entry.t, arrived]);
      player.push(entry);
    }
    read = end;
    settle();
    sd.emit("lane-wrote", { lane, points });
  }

  /* What needs the whole of what is drawn: the Markdown, a few times a second while it grows. */
  let later = null;
  function settle() {
    fork();
    if (!rendered || set === tokens.length) return;
    const now = performance.now();
    if (later || now - settle.at < RENDER_EVERY) {
      later ??= setTimeout(() => { later = null; settle.at = 0; sd.frame(settle, scroll); }, RENDER_EVERY);
      return;
    }
    settle.at = now;
    set = tokens.length;
    render();
  }
  settle.at = 0;

  /* The reader has scrolled up since the text was last drawn, and the event that says so is still to come. */
  const left = () => text.scrollTop < stood && text.scrollTop + text.clientHeight < Math.min(tall, text.scrollHeight) - 32;

  const scroll = () => {
    if (refusedShown()) ghosts.lay(steps);
    if (left()) follow = false;
    if (follow) text.scrollTop = text.scrollHeight;
    tall = text.scrollHeight;
    stood = text.scrollTop;
    text.classList.toggle("sd-cut", stood > 2);
    find("follow").hidden = follow || text.scrollHeight <= text.clientHeight + 32;
  };

  /* ----- The reader ----- */

  function choose(index, way = 1) {
    let at = Math.max(0, Math.min(index, tokens.length - 1));
    while (tokens[at] && !tokens[at].node) at += way; // a sign that is not drawn
    if (!tokens[at]) return;
    current = at;
    tokens[current].node.scrollIntoView({ block: "nearest" });
    sd.tooltip.show(tokens[current].node, tokens[current], tokens[current].step);
  }

  /* A step, with the token that must stay in sight; null marks none. */
  function mark(number, seen = null) {
    marked = number;
    for (const node of text.querySelectorAll(".t.on")) node.classList.remove("on");
    const made = steps[number - 1];
    if (!made) return;
    for (const node of text.querySelectorAll(".t[data-i]")) node.classList.toggle("on", tokens[node.dataset.i].step === made);
    const shown = seen ?? made.tokens.find((one) => one.node);
    if (!shown) return;
    current = shown.index;
    follow = false; // somebody reads here
    const over = shown.node.offsetTop - text.scrollTop, under = over + shown.node.offsetHeight - text.clientHeight;
    if (over < 0) text.scrollTop += over - 8;
    else if (under > 0) text.scrollTop += under + 8;
  }

  /* As it was written, without the name of the end of text. */
  const plain = () => tokens.map((one) => (one.end ? "" : one.text)).join("");

  async function copy() {
    const done = await sd.copy(plain());
    const button = find("copy");
    button.textContent = sd.say(done ? "copy.done" : "copy.failed");
    setTimeout(() => { button.textContent = sd.say("copy"); }, 2000);
  }

  const at = (event) => event.target.closest?.(".t[data-i]");
  text.addEventListener("pointerover", (event) => {
    const node = at(event);
    if (node) sd.tooltip.show(node, tokens[node.dataset.i], tokens[node.dataset.i].step);
  });
  text.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") sd.tooltip.hide(); });
  let pressed = null; // the token under the pointer when it went down: a live text may scroll away before it comes up
  text.addEventListener("pointerdown", (event) => { pressed = at(event); });
  text.addEventListener("click", (event) => {
    const node = pressed ?? at(event);
    pressed = null;
    if (!node) return sd.tooltip.hide();
    if (!getSelection().isCollapsed) return; // a selection that ends here
    current = +node.dataset.i;
    sd.glass.open(lane, tokens[current].step.number, { token: tokens[current] });
    if (event.pointerType === "touch") sd.tooltip.show(node, tokens[current], tokens[current].step);
    else sd.tooltip.hide(); // a pointer has read it; it would cover what opens, which says more
  });
  text.addEventListener("blur", sd.tooltip.hide);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && sd.tooltip.anchor) sd.tooltip.hide();
    else if (sd.glass.shown?.lane === lane && sd.glass.key(event)) return;
    else if (event.key === "ArrowRight") choose(current + 1, 1);
    else if (event.key === "ArrowLeft") choose(current - 1, -1);
    else if (event.key === "Home") choose(0, 1);
    else if (event.key === "End") choose(tokens.length - 1, -1);
    else if (event.key === "Enter" && tokens[current]) sd.glass.open(lane, tokens[current].step.number, { focus: true, token: tokens[current] });
    else if (event.key === " " && sd.slow.byKey) sd.emit("slow-turn");
    else return;
    event.preventDefault();
  });
  text.addEventListener("scroll", () => {
    if (text.scrollHeight !== tall) return scroll(); // the text grew or shrank, nobody scrolled
    follow = text.scrollTop + text.clientHeight >= text.scrollHeight - 32;
    text.classList.toggle("sd-cut", text.scrollTop > 2);
    find("follow").hidden = follow;
  });
  find("follow").addEventListener("click", () => { follow = true; stood = 0; scroll(); });
  find("copy").addEventListener("click", copy);
  new ResizeObserver(() => { ghosts.clear(); scroll(); }).observe(text);

  sd.lanes[lane] = { run: null, get count() { return steps.length; }, mark };
  sd.on("view", ({ name, on }) => {
    if (name === "markdown") setRendered(on);
    else if (name === "refused") ghosts.clear();
    sd.frame(settle, scroll);
  });
  sd.on("slow", (on) => {
    if (!on) {
      stand([]);
      return player.flush();
    }
    if (last.running || !entries.length) return; // what is still to come is slow; what is over is played again
    restart();
    for (const entry of entries) player.push(entry);
  });
  sd.on("language", () => rendered && render());

  let last = {}; // of the scoreboard's values
  sd.live(pane, lane);
  sd.on("board", (board) => {
    last = board;
    if (!board.running) sd.frame(fork, scroll);
  });
  sd.on("language", fork);
  watch("value", () => sd.frame(feed, scroll));
  feed();

  /* Once it is over: a label where the two texts part. The last tokens may come after the last figures. */
  function fork() {
    if (last.running || !last.lanes || last.run !== sd.lanes[lane].run) return;
    text.querySelector(".sd-fork")?.remove();
    if (!last.parting) return;
    const first = tokens.find((one) => one.position > last.parting.at);
    if (!first?.node) return;
    const label = sd.make("span", "sd-fork", sd.say("parting.here"));
    label.setAttribute("aria-hidden", "true");
    first.node.before(label);
  }
};
