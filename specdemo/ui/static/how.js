/* "How it works": a page over the race, opened by the header or by ?view=how, left by its button or by Escape. */
sd.parts.how = (element, { props, watch, trigger }) => {
  const article = element.querySelector(".sd-how");
  const find = (name) => element.querySelector(`[data-how="${name}"]`);
  let run = null, worked = null;
  sd.on("board", (board) => { run = board.running ? run : board.run ?? run; });

  function open(wanted) {
    article.hidden = !wanted;
    document.body.classList.toggle("sd-reading", wanted);
    sd.openAs("how", wanted);
    scrollTo(0, 0);
    if (wanted) {
      trigger("work", { run });
      article.focus();
    } else {
      document.querySelector("[data-head=how]")?.focus();
    }
  }

  const { probability, token } = sd;

  /* Columns by rule: what the judgement hung on. */
  function columns(kind) {
    const judged = (read) => (row) => (row.verdict === "unreached" && kind !== "block" ? "–" : read(row));
    const drafted = [["how.token", (row) => token(row.text, { accepted: "a", refused: "no" }[row.verdict] ?? "n")], ["tip.q", (row) => probability(row.q)]];
    const verdict = ["how.verdict", (row) => sd.say(`glass.${row.verdict}`)];
    const p = ["tip.p", judged((row) => probability(row.p))];
    const own = ["how.own", (row) => (row.own ? token(row.own.text, row.verdict === "refused" ? "c" : "a") : "–")];
    if (kind === "greedy" || kind === "shared") return [...drafted, p, own, verdict];
    return [...drafted, p, ["how.ratio", judged((row) => probability(row.chance))], ["how.draw", judged((row) => probability(row.draw))], verdict];
  }

  function draw() {
    const view = worked?.view;
    find("worked").hidden = !view;
    find("source").textContent = view ? sd.say(`how.step.${worked.from}`, worked) : sd.say("how.step.none");
    if (!view) return;
    const shown = columns(view.kind), table = element.querySelector("table");
    const head = sd.make("tr");
    head.append(...shown.map(([key]) => sd.heading(sd.say(key))));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...view.rows.map((row) => {
      const line = sd.make("tr", row.verdict === "unreached" ? "off" : "");
      line.append(...shown.map(([, read]) => { const cell = sd.make("td"); cell.append(read(row)); return cell; }));
      return line;
    }));
    const accepted = view.wrote.filter((one) => one.origin === "accepted").length;
    find("drafted").textContent = sd.say("how.step.1", { k: view.rows.length });
    find("notes").textContent = sd.sentences(view.notes);
    find("wrote").textContent = sd.say("how.step.3", { n: view.wrote.length, accepted });
    find("tokens").replaceChildren(...view.wrote.flatMap((one) => [token(one.text, sd.mark(one.origin)), " "]));
  }

  find("back").addEventListener("click", () => open(false));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || article.hidden) return;
    event.preventDefault();
    open(false);
  });
  sd.on("how", () => open(true));
  sd.on("lab", () => { if (!article.hidden) open(false); });
  sd.on("language", draw);
  watch("value", () => { worked = props.value ? JSON.parse(props.value) : null; draw(); });
  draw();
  if (sd.opensAs("how")) open(true);
};
