/* The Lab: a view in the race's place, opened by the header or by ?view=lab. A run goes on while the race is looked at. */
sd.parts.lab = (element, { props, watch, trigger }) => {
  const view = element.querySelector(".sd-lab"), find = (name) => element.querySelector(`[data-lab="${name}"]`);
  const MIB = 1048576, LARGEST = 4 * MIB, LARGEST_PROMPTS = MIB / 2, MOST_MAPS = 12;
  let forms = [], closed = null, chosen = null, run = null, racing = false, since = 0, before = 0, plan = null, wanted = null;

  const form = sd.labForm(find("form"), () => { clearTimeout(wanted); wanted = setTimeout(ask, 300); }, async (field, file) => {
    if (file.size > LARGEST_PROMPTS) return tell(["lab.large.prompts", { size: Math.ceil(file.size / 1024), most: LARGEST_PROMPTS / 1024 }]);
    trigger("prompts", { field, name: file.name, text: await file.text() });
  });
  const LOG = "log"; // stands in the list beside the experiments, and runs nothing
  const vote = sd.labVote(find("vote"), trigger), log = sd.labLog(find("log"), trigger);
  const running = () => Boolean(run?.running);
  const shut = () => closed ?? forms.find((one) => one.name === chosen)?.closed;
  const ask = () => chosen === LOG || shut() || trigger("plan", { experiment: chosen, options: form.read() });

  function open(on) {
    if (on !== view.hidden) return;
    view.hidden = !on;
    document.body.classList.toggle("sd-in-lab", on);
    sd.openAs("lab", on);
    scrollTo(0, 0);
    if (!on) return document.querySelector("[data-head=lab]")?.focus();
    view.focus();
    ask();
    draw(); // charts are as wide as the page lets them be
  }

  function choose(name, options = {}) {
    chosen = name;
    view.classList.toggle("sd-lab-logged", name === LOG);
    if (name !== LOG) form.draw(forms.find((one) => one.name === name).fields.map((one) => ({ ...one, begin: one.value })).map((one) => ({ ...one, value: options[one.name] ?? begins(one) })));
    plan = null;
    draw();
    if (!view.hidden) ask();
  }

  /* Prompts of one's own stay while experiments are looked at. */
  const begins = (field) => (field.as === "prompts" ? undefined : form.begin(field));

  const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

  function progress() {
    const { done, cells } = run.result, seconds = (Date.now() - since) / 1000, said = [sd.say("lab.progress", { done, cells })];
    if (running() && since) said.push(sd.say("lab.elapsed", { elapsed: clock(seconds) }));
    if (running() && since && done > before) said.push(sd.say("lab.left", { left: clock((seconds * (cells - done)) / (done - before)) }));
    find("progress").textContent = said.join(" · ");
    const track = element.querySelector(".sd-lab-progress .sd-track");
    track.setAttribute("aria-valuenow", Math.round((100 * done) / cells));
    track.firstElementChild.style.width = `${(100 * done) / cells}%`;
  }

  function list() {
    find("list").replaceChildren(...[...forms, { name: LOG }].map(({ name }) => {
      const button = sd.make("button", "", sd.say(`lab.e.${name}`));
      if (name === chosen) button.setAttribute("aria-current", "true");
      if (run?.result?.experiment === name) button.append(" ", sd.make("i", "", `${run.result.done}/${run.result.cells}`));
      button.addEventListener("click", () => { choose(name); find("list").querySelector("[aria-current]").focus(); });
      return button;
    }));
  }

  function buttons() {
    const mine = run?.result, race = document.getElementById("sd-run"), stop = document.getElementById("sd-stop");
    find("run").disabled = running() || racing || Boolean(shut());
    find("cancel").disabled = !running();
    find("resume").hidden = running() || Boolean(shut()) || !mine || mine.experiment !== chosen || mine.done >= mine.cells;
    find("resume").disabled = racing;
    find("file").disabled = running();
    if (race && stop && !racing) [race.disabled, stop.disabled] = [running(), !running()];
    const wrong = plan?.wrong;
    find("plan").classList.toggle("sd-lab-wrong", Boolean(wrong));
    sd.rich(find("plan"), racing ? sd.say("busy") : wrong ? sd.sentence(wrong) : plan ? sd.say("lab.plan", plan) : "");
  }

  function tell(sentence) {
    find("told").hidden = !sentence;
    find("told").classList.toggle("sd-lab-calm", !/refused|failed|unloaded|other|large|gone|budget/.test(sentence?.[0] ?? ""));
    sd.rich(find("told"), sentence ? sd.sentence(sentence) : "");
  }

  function table({ head, lines, left }) {
    const place = find("tabled").querySelector(".sd-table"), numeric = head.map((_, i) => lines.every((line) => /^[\d–+-]/.test(line[i])));
    const top = sd.make("tr"), { word } = sd.labCharts;
    top.append(...head.map((name, i) => sd.heading(word(name), numeric[i] ? "r" : "")));
    place.tHead.replaceChildren(top);
    place.tBodies[0].replaceChildren(...lines.map((line) => {
      const row = sd.make("tr");
      row.append(...line.map((text, i) => sd.make("td", numeric[i] ? "r" : "", numeric[i] ? text : word(text))));
      return row;
    }));
    find("more").textContent = left ? sd.say("lab.more", { n: left }) : "";
  }

  function result() {
    const mine = run?.result?.experiment === chosen ? run.result : null;
    find("result").hidden = !mine;
    vote.show(mine, running());
    if (!mine) return;
    progress();
    find("findings").hidden = !mine.findings.length;
    find("findings").querySelector("ul").replaceChildren(...mine.findings.map((text) => sd.make("li", text.startsWith("FAULT") ? "sd-lab-fault" : "", text)));
    find("tabled").hidden = !mine.done;
    table(mine.table);
    find("facts").textContent = mine.facts.join(" · ");
    const width = find("charts").clientWidth || 640, two = mine.charts.length > 1 && width > 760;
    find("charts").classList.toggle("sd-two", two);
    find("charts").replaceChildren(...mine.charts.map((one) => sd.labCharts.draw(one, Math.min(two ? (width - 40) / 2 : width, 860))));
    find("maps").replaceChildren(...mine.maps.slice(0, MOST_MAPS).map(sd.labCharts.map));
  }

  function draw() {
    if (!chosen) return;
    find("question").textContent = sd.say(`lab.q.${chosen}`);
    find("closed").hidden = !shut();
    if (shut()) sd.rich(find("closed"), sd.sentence(shut()));
    tell(run && (run.state === "refused" || run.result?.experiment === chosen || running()) ? run.say : null);
    log.show(chosen === LOG && !view.hidden);
    list();
    buttons();
    result();
  }

  function become(next) {
    const had = next.result ?? (next.running || next.state === "refused" ? run?.result : null) ?? null;
    if (next.state === "running" && run?.state !== "running") [since, before] = [Date.now(), next.result?.done ?? 0];
    run = { ...next, result: had };
    draw();
  }

  function start(resume) {
    if (!resume) run = null;
    trigger("start", { experiment: chosen, options: form.read(), resume });
    become({ state: "starting", running: true, say: ["lab.starting", {}], result: null });
  }

  find("back").addEventListener("click", () => open(false));
  find("run").addEventListener("click", () => start(false));
  find("resume").addEventListener("click", () => start(true));
  find("cancel").addEventListener("click", () => { tell(["lab.stopping", {}]); find("cancel").disabled = true; trigger("halt", {}); });
  find("settings").addEventListener("click", () => sd.settings.toggle(true));
  for (const button of element.querySelectorAll("[data-keep]")) button.addEventListener("click", () => trigger("fetch", { kind: button.dataset.keep }));
  find("file").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    event.target.value = "";
    if (!file) return;
    if (file.size > LARGEST) return tell(["lab.large", { size: (file.size / MIB).toFixed(0) }]);
    trigger("bring", { text: await file.text() });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || view.hidden || event.target.closest?.("#sd-settings")) return;
    event.preventDefault();
    open(false);
  });

  sd.on("lab-reply", (answer) => {
    if (answer.plan) { plan = answer.plan; buttons(); }
    if (answer.refused) tell(answer.refused);
    if (answer.file) sd.save(answer.file);
    if (answer.log) log.take(answer.log);
    if (answer.prompts) { tell(null); form.put(answer.prompts.field, answer.prompts.set); }
    if (answer.vote) {
      if (answer.vote.result) run = { ...run, result: answer.vote.result };
      vote.take(answer.vote, run.result);
      if (answer.vote.result) draw();
    }
    if (!answer.run) return;
    run = null;
    become(answer.run);
    choose(answer.run.result.experiment, answer.options);
  });
  sd.on("lab", () => open(true));
  sd.on("how", () => open(false));
  sd.on("board", (board) => { racing = Boolean(board.running); buttons(); });
  sd.on("language", () => { if (chosen) choose(chosen, form.read()); });
  addEventListener("resize", () => { if (!view.hidden) sd.frame(result); });
  setInterval(() => { if (running() && run.result && !view.hidden) progress(); }, 1000);
  watch("value", take);
  function take() {
    const value = props.value ? JSON.parse(props.value) : {};
    if (value.forms) {
      ({ forms, closed } = value);
      choose(forms[0].name);
    }
    if (value.run) become(value.run);
  }
  take();
  if (sd.opensAs("lab")) open(true);
};
