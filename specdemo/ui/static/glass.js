/* The step under glass: one step of a lane, everything its trace knows of it. The server sends it when it is asked for;
   what has come is kept until the next run. */
sd.parts.glass = (element, { props, watch, trigger }) => {
  const panel = element.querySelector(".sd-looking");
  const find = (name) => element.querySelector(`[data-glass="${name}"]`);
  const kept = new Map();
  let shown = null; // lane and step that are open

  const { token, visible } = sd;
  /* In columns: every figure with the same number of decimals. */
  const number = (value, digits = 3) => (value === null || value === undefined ? "–" : value > 0 && value < 0.5 * 10 ** -digits ? `< ${(10 ** -digits).toFixed(digits)}` : value.toFixed(digits).replace("-", "−"));
  const name = ({ run, lane, step }) => `${run} ${lane} ${step}`;

  /* What each view shows of a draft: [heading, left-aligned, cell]. */
  const verdict = ["verdict", true, (row) => sd.make(row.verdict === "refused" ? "b" : "span", "", sd.say(`glass.${row.verdict}`))];
  const passes = ["verdict", true, (row) => sd.make("span", "", [sd.say(row.draw < row.chance ? "glass.passes" : "glass.fails"), row.verdict === "unreached" ? "" : sd.say(`glass.${row.verdict}`)].filter(Boolean).join(sd.say("comma")))];
  const draft = ["draft", true, (row) => token(row.text, { accepted: "a", refused: "no", unreached: "p" }[row.verdict])];
  const plain = (heading, read) => [heading, false, read];
  const reached = (read) => (row) => (row.verdict === "unreached" ? "–" : read(row));
  const own = (heading) => [heading, true, (row) => (row.own ? token(row.own.text, row.verdict === "refused" ? "c" : "a") : "–")];
  const q = plain("q", (row) => number(row.q)), p = plain("p", reached((row) => number(row.p)));
  const VIEWS = {
    rejection: [draft, q, p, ["bar", true, reached(chance)], plain("ratio", reached((row) => number(row.chance))), plain("draw", reached((row) => number(row.draw))), verdict],
    block: [draft, q, plain("p", (row) => number(row.p)), ["bar", true, chance], plain("chance", (row) => number(row.chance)), plain("draw", (row) => number(row.draw)), passes],
    shared: [draft, q, p, plain("score", reached((row) => number(row.score, 2))), own("own"), plain("p", (row) => number(row.own?.p)), plain("score", (row) => number(row.own?.score, 2)), verdict],
    greedy: [draft, q, own("likeliest"), plain("raw", (row) => number(row.own?.raw)), verdict],
  };

  function chance(row) {
    const node = sd.make("span", "sd-chance");
    node.append(sd.make("i"), sd.make("b", row.draw < row.chance ? "" : "over"));
    node.firstChild.style.width = `${100 * Math.min(1, row.chance ?? 0)}%`;
    node.lastChild.style.left = `${100 * (row.draw ?? 0)}%`;
    return node;
  }

  function table(step) {
    const columns = VIEWS[step.kind], table = element.querySelector("table");
    table.replaceChildren();
    if (!columns) return;
    const head = table.createTHead().insertRow(), body = table.createTBody();
    head.append(sd.heading("i"), ...columns.map(([name, left]) => sd.heading(sd.say(`glass.col.${name}`), `sd-col-${name}${left ? " l" : ""}`)));
    step.rows.forEach((row, i) => {
      const line = body.insertRow();
      if (row.verdict === "unreached") line.className = "off";
      line.insertCell().textContent = i + 1;
      for (const [name, left, read] of columns) {
        const cell = line.insertCell();
        cell.className = `sd-col-${name}${left ? " l" : ""}`;
        cell.append(read(row));
      }
    });
  }

  /* What the last token was drawn from, or else every token that the step wrote. */
  function after(step) {
    const list = element.querySelector(".sd-res"), nodes = [], last = step.wrote.at(-1);
    const bonus = last?.origin === "bonus", raw = step.temperature === 0;
    for (const [text, share, mine] of step.residual) {
      const code = sd.make("code");
      code.append(mine ? token(text, bonus ? "b" : "c") : visible(text));
      const bar = sd.make("span", `sd-share${mine ? " own" : ""}${bonus ? " b" : ""}`);
      bar.append(sd.make("i"));
      bar.firstChild.style.width = `${100 * share}%`;
      nodes.push(code, bar, sd.make("span", "num", number(share)));
    }
    if (step.residual.length && !step.residual.some(([, , mine]) => mine)) {
      const code = sd.make("code");
      code.append(token(last.text, bonus ? "b" : "c"));
      nodes.push(code, sd.make("span"), sd.make("span", "num", bonus ? number(last.p) : "…"));
    }
    if (!step.residual.length) {
      for (const one of step.wrote) {
        const code = sd.make("code");
        code.append(token(one.text, sd.mark(one.origin)));
        nodes.push(code, sd.make("span", "what", sd.say(`origin.${one.origin}`)), sd.make("span", "num", number(raw ? one.raw : one.p)));
      }
    }
    list.replaceChildren(...nodes);
    const block = step.kind === "block" ? ".block" : "";
    const refused = step.residual.length && step.mass !== null;
    find("after").textContent = sd.say(refused ? `glass.residual${block}` : step.residual.length ? "glass.bonus" : "glass.wrote");
    if (!step.residual.length) find("after").append(sd.make("span", "", sd.say(raw ? "glass.col.raw" : "glass.col.p")));
    find("source").textContent = refused ? sd.say(`glass.mass${block}`, { mass: number(step.mass, 2) }) : step.kind === "shared" ? sd.say("glass.noise") : "";
  }

  const untold = (step) => step.wrote.some((one) => one.id < 0); // text without ids
  const ms = (value) => (value < 99.95 ? value.toFixed(1) : value.toFixed(0));
  function times(step) {
    const split = element.querySelector(".sd-lsplit"), parts = element.querySelector(".sd-lparts");
    split.replaceChildren();
    parts.replaceChildren();
    find("each").textContent = "";
    if (!step.times) return void (find("time").textContent = sd.say("glass.time.none"));
    const whole = step.times.whole ?? step.times.draft + step.times.verify + step.times.other, n = step.wrote.length;
    find("time").textContent = sd.say(untold(step) ? "remote.glass.time" : n === 1 ? "glass.time.one" : "glass.time", { ms: ms(whole), n });
    for (const part of "whole" in step.times ? [] : ["draft", "verify", "other"]) {
      const piece = sd.make("i", part[0]);
      piece.style.flex = `${step.times[part]} 0 0`;
      if (step.times[part]) split.append(piece);
      parts.append(sd.make("span", part[0], sd.say(`chart.costs.${part}`, { ms: step.times[part].toFixed(1) })));
    }
    if (n && step.plain) find("each").textContent = sd.say("glass.each", { each: ms(whole / n), plain: ms(step.plain) });
  }

  function draw() {
    if (!shown) return;
    const pane = sd.lanes[shown.lane];
    element.querySelector("[data-go='-1']").disabled = shown.step <= 1;
    element.querySelector("[data-go='1']").disabled = shown.step >= pane.count;
    const step = kept.get(name(shown));
    find("body").hidden = !step || Boolean(step.missing);
    find("missing").hidden = !step?.missing;
    if (!step) return;
    if (step.missing) return void (find("missing").textContent = sd.say(step.missing));
    const where = { step: step.step, steps: pane.count, from: step.from, to: step.to };
    sd.rich(find("where"), sd.say(untold(step) ? "remote.glass.of" : step.from >= step.to ? "glass.of.one" : "glass.of", where));
    find("judged").textContent = sd.say(step.judged ?? (step.rows.length ? "glass.judged" : "glass.judged.plain"));
    table(step);
    after(step);
    times(step);
    find("notes").textContent = sd.sentences(step.notes);
  }

  function open(lane, step, { focus = false, token = null } = {}) {
    const pane = sd.lanes[lane];
    if (!pane.count || document.body.classList.contains("sd-present")) return;
    if (shown && shown.lane !== lane) sd.lanes[shown.lane].mark(null);
    shown = { run: pane.run, lane, step: Math.max(1, Math.min(step, pane.count)) };
    panel.hidden = false;
    document.body.classList.add("sd-glass-open");
    pane.mark(shown.step, token);
    if (!kept.has(name(shown))) trigger("look", { ...shown });
    draw();
    if (!focus) return;
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
  }

  function close({ focus = false } = {}) {
    if (!shown) return;
    const { lane } = shown;
    sd.lanes[lane].mark(null);
    shown = null;
    panel.hidden = true;
    document.body.classList.remove("sd-glass-open");
    if (focus) document.querySelector(`#sd-${lane} .sd-text`).focus({ preventScroll: true });
  }

  /* Arrow keys, Home, End and Escape, wherever the focus is: in the panel or in the pane. Whether the key was used. */
  function key(event) {
    if (!shown || event.ctrlKey || event.metaKey || event.altKey) return false;
    const to = { ArrowLeft: shown.step - 1, ArrowRight: shown.step + 1, Home: 1, End: Infinity }[event.key];
    if (event.key === "Escape") close({ focus: panel.contains(document.activeElement) });
    else if (to !== undefined) open(shown.lane, to);
    else return false;
    event.preventDefault();
    return true;
  }

  sd.glass = { open, key, get shown() { return shown; } };
  panel.addEventListener("keydown", key);
  for (const button of element.querySelectorAll("[data-go]")) {
    button.addEventListener("click", () => (+button.dataset.go ? open(shown.lane, shown.step + +button.dataset.go) : close({ focus: true })));
  }
  watch("value", () => {
    if (!props.value) return;
    const step = JSON.parse(props.value);
    kept.set(name(step), step);
    draw();
  });
  sd.on("lane-began", () => {
    kept.clear();
    close();
  });
  sd.on("lane-wrote", () => shown && draw()); // a run under way has more steps by now
  sd.on("language", draw);
};
