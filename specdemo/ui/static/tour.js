/* A tour of five steps for a first audience: what speculative decoding does, how much it gained, whether the text
   changed. A small dialog beside what it speaks of; by pointer, by arrows and Enter, left by Escape. */
sd.tour = (() => {
  const STEPS = [
    { at: ".sd-ask" },
    { at: ".sd-lanes", race: true },
    { at: "#sd-speculative" },
    { at: ".sd-score", said: () => verdict() },
    { at: ".sd-same", or: ".sd-score", said: () => identity() },
  ];
  let box = null, current = 0, back = null, board = {};
  sd.on("board", (made) => {
    board = made;
    if (box && !box.hidden) draw();
  });

  const done = () => ["done", "stopped"].includes(board.state) && board.figures;
  const verdict = () => (done() && board.verdict ? sd.sentence(board.verdict) : sd.say(board.running ? "tour.4.running" : "tour.4.none"));

  function identity() {
    const same = done() && board.figures.same;
    if (!same) return sd.say("tour.5.none");
    return `**${sd.sentence(same.say)}:** ${sd.sentence(same.note)}.`;
  }

  function build() {
    box = sd.make("section", "sd-part sd-tour");
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-labelledby", "sd-tour-title");
    box.setAttribute("aria-describedby", "sd-tour-text");
    box.tabIndex = -1;
    const title = sd.make("h2"), text = sd.make("p"), said = sd.make("p", "sd-tour-said"), row = sd.make("div", "sd-row");
    title.id = "sd-tour-title";
    text.id = "sd-tour-text";
    said.setAttribute("aria-live", "polite");
    for (const name of ["skip", "of", "back", "next"]) {
      const node = sd.make(name === "of" ? "span" : "button", name === "next" ? "sd-opt sd-go" : name === "back" ? "sd-opt" : "");
      node.dataset.tour = name;
      row.append(node);
    }
    box.append(title, text, said, row);
    document.body.append(box);
    find("skip").addEventListener("click", leave);
    find("back").addEventListener("click", () => go(current - 1));
    find("next").addEventListener("click", forward);
    box.addEventListener("keydown", keys);
  }

  const find = (name) => box.querySelector(`[data-tour="${name}"]`);
  const shown = (selector) => [...document.querySelectorAll(selector)].find((node) => node.getClientRects().length);
  const anchor = () => shown(STEPS[current].at) ?? shown(STEPS[current].or ?? "body");

  function draw() {
    const step = STEPS[current], last = current === STEPS.length - 1;
    box.querySelector("h2").textContent = sd.say(`tour.${current + 1}`);
    box.querySelector("#sd-tour-text").textContent = sd.say(`tour.${current + 1}.text`);
    const said = box.querySelector(".sd-tour-said"), words = step.said ? step.said() : "";
    if (said.dataset.words !== words) sd.rich(said, said.dataset.words = words);
    find("skip").textContent = sd.say("tour.skip");
    find("skip").hidden = last;
    find("of").textContent = sd.say("tour.of", { n: current + 1, all: STEPS.length });
    find("back").textContent = sd.say("tour.back");
    find("back").hidden = current === 0;
    find("next").textContent = sd.say(last ? "tour.done" : asksToRun() ? "tour.race" : "tour.next");
    place();
  }

  const asksToRun = () => STEPS[current].race && !board.running && !done();

  function forward() {
    if (asksToRun()) document.getElementById("sd-run").click();
    if (current === STEPS.length - 1) leave();
    else go(current + 1);
  }

  function go(index) {
    current = Math.max(0, Math.min(index, STEPS.length - 1));
    for (const node of document.querySelectorAll(".sd-toured")) node.classList.remove("sd-toured");
    const target = anchor();
    target.classList.add("sd-toured");
    target.scrollIntoView({ block: "nearest" });
    draw();
    find("next").focus({ preventScroll: true });
  }

  /* Under what it speaks of, or over it, or inside it where neither has room. */
  function place() {
    const spot = anchor().getBoundingClientRect(), margin = 12;
    const width = box.offsetWidth, height = box.offsetHeight;
    const under = spot.bottom + margin + height < innerHeight;
    const over = spot.top - margin - height > 0;
    const top = under ? spot.bottom + margin : over ? spot.top - margin - height : Math.max(margin, innerHeight - height - margin);
    box.style.left = `${Math.max(margin, Math.min(spot.left + 24, innerWidth - width - margin))}px`;
    box.style.top = `${top}px`;
  }

  function keys(event) {
    if (event.key === "Escape") leave();
    else if (event.key === "ArrowRight") forward();
    else if (event.key === "ArrowLeft") go(current - 1);
    else if (event.key === "Tab") return wrap(event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /* The focus stays in the dialog until it is left. */
  function wrap(event) {
    const stops = [...box.querySelectorAll("button")].filter((node) => !node.hidden);
    const edge = event.shiftKey ? stops[0] : stops.at(-1);
    if (document.activeElement !== edge) return;
    (event.shiftKey ? stops.at(-1) : stops[0]).focus();
    event.preventDefault();
  }

  function start() {
    if (!box) build();
    sd.settings.toggle(false);
    back = document.querySelector("[data-head=tour]");
    box.hidden = false;
    go(0);
  }

  function leave() {
    box.hidden = true;
    for (const node of document.querySelectorAll(".sd-toured")) node.classList.remove("sd-toured");
    back?.focus();
  }

  const again = () => box && !box.hidden && place();
  addEventListener("resize", again);
  addEventListener("scroll", again, true);
  sd.on("language", () => box && !box.hidden && draw());
  return { start };
})();
