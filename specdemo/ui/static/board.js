/* The scoreboard: the speedup, the sentence, six figures. It also tells every other part what the run has come to. */
sd.parts.board = (element, { props, watch, trigger }) => {
  const score = element.querySelector(".sd-score");
  const find = (name) => element.querySelector(`[data-fig="${name}"]`);
  let board = {};

  function draw() {
    const figures = board.figures ?? {};
    score.dataset.state = board.state ?? "idle";
    score.dataset.run = board.run ?? "";
    const speed = find("speed");
    speed.hidden = !board.speed;
    speed.firstChild.textContent = board.speed ?? "";
    score.classList.toggle("sd-nospeed", !board.speed);
    score.classList.toggle("sd-plain", !board.wins);
    score.classList.toggle("sd-fault", board.mood === "fault");
    score.classList.toggle("sd-asks", board.mood === "refused");
    find("speed-note").textContent = board.speedNote ? sd.sentence(board.speedNote) : "";
    sd.rich(find("verdict"), sd.sentence(board.verdict ?? ["intro", {}]));
    const kept = board.figures ? [["intro.kept", {}]] : []; // who comes now has not read what stood here before the run
    find("more").replaceChildren(...[...(board.more ?? []), ...kept].map((one) => {
      const said = sd.make("span");
      sd.rich(said, sd.sentence(one));
      return said;
    }));
    for (const name of ["baseline", "speculative", "acceptance", "length", "passes"]) {
      find(name).textContent = figures[name] ?? "–";
      const note = find(`${name}-note`);
      if (note) note.textContent = figures[`${name}Note`] ? sd.sentence(figures[`${name}Note`]) : "";
    }
    same(figures.same);
    partings(board.parting);
    attempts(board.running ? [] : board.try ?? []);
    element.querySelector(".sd-figs").hidden = !board.figures;
  }

  function same(verdict) {
    find("same").textContent = verdict ? sd.sentence(verdict.say) : "–";
    find("same-note").textContent = verdict ? sd.sentence(verdict.note) : "";
    for (const icon of element.querySelectorAll("[data-icon]")) icon.toggleAttribute("hidden", !icon.dataset.icon.split(" ").includes(verdict?.kind));
  }

  /* Where the texts part: what each lane wrote from there. */
  function partings(parting) {
    const place = element.querySelector(".sd-parting");
    place.hidden = !parting;
    if (!parting) return;
    if (board.mood === "fault") place.open = true;
    for (const lane of ["baseline", "speculative"]) {
      place.querySelector(`[data-lane=${lane}]`).textContent = parting[lane].trimStart().replace(/\s*\n\s*/g, " ⏎ ");
    }
  }

  /* After a run that gained nothing: settings to try. A press sets them and runs. */
  function attempts(list) {
    const place = element.querySelector(".sd-try");
    place.hidden = !list.length;
    place.replaceChildren(place.firstElementChild, ...list.map((one) => {
      const button = sd.make("button", "sd-opt", sd.sentence(one.say));
      button.append(" ", sd.make("i", "", sd.sentence(one.note)));
      button.addEventListener("click", () => {
        for (const other of place.querySelectorAll("button")) other.disabled = true; // until the run has begun
        trigger("attempt", { set: one.set });
      });
      return button;
    }));
  }

  /* What a figure means: by pointer, focus or tap. */
  for (const button of element.querySelectorAll("[data-about]")) {
    const explain = () => sd.tooltip.explain(button, sd.say(button.dataset.about));
    for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, explain);
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, sd.tooltip.hide);
    button.addEventListener("keydown", (event) => { if (event.key === "Escape") sd.tooltip.hide(); });
  }

  /* One polite line for a screen reader: start, finish, stop and refusal; figures change too often to be read out. */
  let said = "";
  function speak() {
    const state = `${board.run} ${board.state}`;
    if (state === said || !board.verdict) return;
    said = state;
    const aloud = ["starting", "done", "stopped", "refused", "failed", "waiting", "loading"].includes(board.state);
    if (aloud) element.querySelector(".sd-status").textContent = sd.sentence(board.verdict).replaceAll("**", "");
  }

  function become(next) {
    board = next;
    draw();
    speak();
    buttons(board.running);
    sd.emit("board", board);
  }

  const take = () => props.value && become(JSON.parse(props.value));

  /* Run and Stop are Gradio's buttons; which of them can be pressed follows the run. */
  function buttons(running) {
    const run = document.getElementById("sd-run"), stop = document.getElementById("sd-stop");
    if (!run || !stop) return requestAnimationFrame(() => buttons(Boolean(board.running))); // not yet on the page
    run.disabled = running;
    stop.disabled = !running;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !board.running || !event.target.closest?.(".sd-box")) return;
    element.querySelector(".sd-status").textContent = sd.say("busy");
    element.querySelector(".sd-busy").hidden = false;
    setTimeout(() => { element.querySelector(".sd-busy").hidden = true; }, 4000);
  });
  /* Stop has been answered: if the last figures never came (it was queued, or a step took too long), say so here. */
  sd.on("halted", () => {
    if (board.running) become({ ...board, running: false, state: "stopped", verdict: ["verdict.halted", {}] });
  });
  sd.on("language", draw);
  watch("value", () => sd.frame(take));
  draw();
  buttons(false);
  take();
};
