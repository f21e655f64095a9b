/* What if the draft agreed more often, cost less, or were longer? The cost model under three sliders, answered here.
   It begins with what the last run measured; before any run, with the textbook's costs. */
sd.panels.whatif = (panel) => {
  const TEXTBOOK = { alpha: 0.8, c: 0.05, slope: 0, o: 0, drafts: 1 };
  const dial = (name) => panel.querySelector(`#sd-wi-${name}`);
  const out = (name) => panel.querySelector(`[data-out=${name}]`);
  const own = dial("measured");
  let measured = null, touched = false;
  let asked = {}; // as exact as measured: a slider stands on the nearest of its own steps

  function reset() {
    const { alpha, c } = measured ?? TEXTBOOK;
    asked = { alpha, c, gamma: measured?.gamma || 4 };
    touched = false;
    own.checked = Boolean(measured);
    own.disabled = !measured;
    dial("c").max = Math.max(1, Math.ceil(c));
    for (const name in asked) dial(name).value = asked[name];
    draw();
  }

  function draw() {
    const { alpha, c, gamma } = asked;
    const around = own.checked && measured ? measured : TEXTBOOK;
    const model = { ...around, alpha, c };
    const speedup = sd.theory.speedup(model, gamma), [best, most] = sd.theory.best(model);
    out("alpha").textContent = alpha.toFixed(2);
    out("c").textContent = c.toFixed(3);
    out("gamma").textContent = gamma;
    out("tokens").textContent = sd.theory.tokens(model, gamma).toFixed(2);
    out("cost").textContent = sd.theory.cost(model, gamma).toFixed(2);
    out("speedup").textContent = `${speedup.toFixed(2)}×`;
    out("best").textContent = best ? `γ ${best}, ${most.toFixed(2)}×` : sd.say("whatif.never");
    out("formula").textContent = sd.say(around === TEXTBOOK ? "whatif.textbook" : "whatif.own", { v: (1 + around.slope * gamma).toFixed(2), o: around.o.toFixed(3), drafts: Math.round(100 * around.drafts) });
    if (panel.hidden) return;
    const figure = panel.querySelector("[data-chart=whatif]");
    const W = figure.querySelector("svg").clientWidth || 480, here = sd.say("chart.map.whatif", { speedup: speedup.toFixed(2) });
    sd.chart.put(figure, sd.say("whatif.how"), sd.chart.map(model, [[gamma, speedup, here, false]], W, 220), here, W, 220);
  }

  for (const name of ["alpha", "c", "gamma"]) {
    dial(name).addEventListener("input", () => { asked[name] = +dial(name).value; touched = true; draw(); });
  }
  own.addEventListener("input", () => { touched = true; draw(); });
  panel.querySelector("[data-act=reset]").addEventListener("click", reset);
  panel.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  sd.on("board", (board) => {
    measured = board.chart?.model ?? measured;
    if (!touched && !board.running) reset();
  });
  sd.on("language", draw);
  sd.on("tab", draw);
  new ResizeObserver(() => sd.frame(draw)).observe(panel);
  reset();
};
