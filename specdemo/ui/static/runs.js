/* The table of runs: this page's own, those of a file, and the recorded ones. Sorted by any column; two stand side by
   side when they are chosen; each can be replayed and kept. */
sd.panels.runs = (panel, { replay, fetch, tell, element }) => {
  const [table, versus] = panel.querySelectorAll("table");
  const known = (write) => (value) => (value === null || value === undefined ? "–" : write(value));
  const number = (digits) => known((value) => value.toFixed(digits));
  const times = known((value) => `${value.toFixed(value < 1.1 ? 2 : 1)}×`);
  const ratio = (row) => (value) => times(value) + (row.unlike && value ? sd.say("comma") + sd.say("remote.mixed.mark") : "");
  const percent = known((value) => `${Math.round(100 * value)} %`);
  const sampling = (row) => (row.temperature ? sd.say("summary.sampled", { temperature: row.temperature }) : sd.say("summary.greedy"));
  /* [key of its name, what to sort by, how it is written, whether it is a number] */
  const COLUMNS = [
    ["runs.number", (row) => row.run, (row) => label(row), false],
    ["prompt", (row) => row.prompt, (row) => row.prompt, false],
    ["runs.pair", (row) => row.pair, (row) => row.pair, false],
    ["runs.gamma", (row) => row.gamma, (row) => row.gamma, true],
    ["rule", (row) => row.rule, (row) => sd.say(`rule.${row.rule}`), false],
    ["group.sampling", (row) => row.temperature, sampling, false],
    ["speedup", (row) => row.speedup, (row) => ratio(row)(row.speedup), true],
    ["acceptance", (row) => row.acceptance, (row) => percent(row.acceptance), true],
  ];
  const FIGURES = [
    ["prompt", (row) => row.prompt], ["runs.pair", (row) => row.pair], ["runs.device", (row) => row.device], ["runs.date", (row) => row.date],
    ["runs.gamma", (row) => row.gamma], ["rule", (row) => sd.say(`rule.${row.rule}`)], ["group.sampling", sampling],
    ["speedup", (row) => ratio(row)(row.speedup)], ["runs.e2espeedup", (row) => ratio(row)(row.e2e)],
    ["runs.baseline", (row) => number(1)(row.baseline)], ["runs.speculative", (row) => number(1)(row.speculative)],
    ["acceptance", (row) => percent(row.acceptance)], ["length", (row) => number(2)(row.length)],
    ["passes", (row) => row.passes ?? "–"], ["runs.tokens", (row) => row.tokens ?? "–"],
  ];
  let rows = [], chosen = [], kept = 12, sorted = [0, -1], busy = false, made = 0;

  const label = (row) => (row.source === "run" ? sd.say("runs.own", { n: row.nth }) : row.name || sd.say(`runs.${row.source}`));

  function add(more) {
    const numbers = new Set(more.map((row) => row.run));
    for (const row of more) if (row.source === "run") row.nth = rows.find((one) => one.run === row.run)?.nth ?? ++made;
    rows = [...rows.filter((row) => !numbers.has(row.run)), ...more];
    const mine = rows.filter((row) => row.source !== "recorded");
    const gone = new Set(mine.slice(0, Math.max(0, mine.length - kept)));
    rows = rows.filter((row) => !gone.has(row));
    chosen = chosen.filter((run) => rows.some((row) => row.run === run));
    draw();
  }

  function inOrder() {
    const [column, way] = sorted, key = COLUMNS[column][1];
    return [...rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null); // unknown last, whichever way
      return way * (typeof x === "string" ? x.localeCompare(y, sd.lang) : x - y);
    });
  }

  function head(line) {
    const pick = sd.make("th");
    pick.append(sd.make("span", "sd-unseen", sd.say("runs.choose")));
    line.append(pick);
    COLUMNS.forEach(([key, , , numeric], column) => {
      const cell = sd.heading("", numeric ? "r" : ""), button = sd.make("button", "", sd.say(key));
      button.dataset.sort = key;
      if (column === sorted[0]) cell.setAttribute("aria-sort", sorted[1] > 0 ? "ascending" : "descending");
      button.addEventListener("click", () => {
        sorted = [column, column === sorted[0] ? -sorted[1] : numeric ? -1 : 1];
        draw();
        table.querySelector(`[data-sort="${key}"]`).focus();
      });
      cell.append(button);
      line.append(cell);
    });
    line.append(sd.make("th", "", sd.say("runs.acts")));
  }

  function act(text, about, press) {
    const button = sd.make("button", "sd-link", text);
    button.setAttribute("aria-label", `${text}, ${about}`);
    button.addEventListener("click", press);
    return button;
  }

  function draw() {
    const scrolled = table.parentNode.scrollLeft;
    table.replaceChildren();
    head(table.createTHead().insertRow());
    const body = table.createTBody();
    for (const row of inOrder()) {
      const line = body.insertRow();
      line.dataset.run = row.run;
      const pick = sd.make("input");
      pick.type = "checkbox";
      pick.checked = chosen.includes(row.run);
      pick.setAttribute("aria-label", sd.say("runs.pick", { run: label(row) }));
      pick.addEventListener("change", () => choose(row.run, pick.checked));
      line.insertCell().append(pick);
      for (const [key, , write, numeric] of COLUMNS) {
        const cell = line.insertCell();
        cell.className = `${numeric ? "r" : ""}${key === "prompt" ? " sd-cut" : ""}`;
        cell.textContent = write(row);
        if (key === "prompt") cell.title = row.prompt;
      }
      const acts = line.insertCell();
      acts.className = "sd-do";
      const again = act(sd.say("replay"), label(row), () => replay(row.run));
      again.disabled = busy;
      acts.append(again, ...["json", "csv", "md"].map((kind) => act({ json: "JSON", csv: "CSV", md: "Markdown" }[kind], label(row), () => fetch(row.run, kind))));
    }
    table.parentNode.scrollLeft = scrolled;
    table.hidden = !rows.length;
    element.querySelector("[data-below=count]").textContent = rows.length || "";
    compare();
  }

  /* At most two; a third takes the place of the first. */
  function choose(run, wanted) {
    chosen = wanted ? [...chosen, run].slice(-2) : chosen.filter((one) => one !== run);
    for (const line of table.tBodies[0].rows) line.querySelector("input").checked = chosen.includes(+line.dataset.run);
    compare();
  }

  function compare() {
    const two = chosen.map((run) => rows.find((row) => row.run === run));
    panel.querySelector(".sd-versus").hidden = two.length < 2;
    versus.replaceChildren();
    if (two.length < 2) return;
    versus.createTHead().insertRow().append(...["", ...two.map(label)].map((text) => sd.heading(text)));
    const body = versus.createTBody();
    for (const [key, write] of FIGURES) {
      const values = two.map((row) => String(write(row) ?? "–"));
      body.insertRow().append(sd.heading(sd.say(key), "", "row"), ...values.map((text) => sd.make("td", values[0] === values[1] ? "" : "k", text)));
    }
  }

  const LARGEST = 8 * 1024 * 1024;
  panel.querySelector("#sd-load").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    event.target.value = "";
    if (!file) return;
    if (file.size > LARGEST) return tell(["load.large", { size: (file.size / 1048576).toFixed(0) }]);
    sd.emit("file-chosen", { name: file.name, text: await file.text() });
  });

  sd.on("rows", (message) => { kept = message.kept ?? kept; add(message.rows); });
  sd.on("board", (board) => {
    if (board.row) add([{ source: "run", ...board.row }]);
    if (busy === Boolean(board.running)) return;
    busy = Boolean(board.running);
    draw();
  });
  sd.on("language", draw);
  draw();
};
