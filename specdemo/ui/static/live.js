/* The figures over a lane's text: its rate, its clock, how far it has come, how it ended. They come with the
   scoreboard's value. */
sd.live = (pane, lane) => {
  const fill = (name, value) => { pane.querySelector(`[data-live=${name}]`).textContent = value; };
  let board = {};

  function draw() {
    const figures = board.lanes?.[lane];
    if (!figures) return;
    fill("rate", figures.rate);
    fill("first", figures.first ? `${figures.first} ${sd.say("pane.ms")}` : "–");
    fill("tokens", figures.tokens);
    fill("clock", `${figures.clock} ${sd.say("pane.s")}`);
    fill("end", figures.end ? sd.say(`pane.end.${figures.end}`) : "");
    pane.classList.toggle("sd-live-now", board.running && !figures.done);
    track(figures);
    note(figures, figures.notch ?? figures.progress);
  }

  function track({ progress, notch }) {
    const bar = pane.querySelector(".sd-track"), tick = bar.querySelector("u");
    bar.querySelector("i").style.width = `${100 * progress}%`;
    bar.setAttribute("aria-valuenow", Math.round(100 * progress));
    tick.hidden = notch === null;
    if (!tick.hidden) tick.style.left = `${100 * notch}%`;
  }

  function note({ note }, share) {
    const span = pane.querySelector(".sd-mark span");
    span.textContent = note ? sd.sentence(note) : "";
    span.style.left = `${100 * share}%`;
    span.style.transform = `translateX(-${100 * share}%)`;
  }

  sd.on("board", (value) => { board = value; draw(); });
  sd.on("language", draw);
};
