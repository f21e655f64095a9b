/* Five small charts, redrawn at most four times a second: where each lane stands, what was accepted, what a step
   wrote, what a step costs, and what other draft lengths would come to. Their figures came with the scoreboard; only
   scales and the cost model's line are made here. */
sd.chart = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  function shape(tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  return {
    shape,
    label: (x, y, text, className = "", anchor = "start") => shape("text", { x, y, class: className, "text-anchor": anchor }, text),
    path: (d, className) => shape("path", { d, class: className }),
    bar: (x, y, width, height, className) => shape("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), class: className }),
    put(figure, how, nodes, summary, width, height) {
      figure.querySelector("p").textContent = how;
      figure.querySelector("p").title = how;
      const svg = figure.querySelector("svg");
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren(...nodes);
      svg.setAttribute("aria-label", summary);
    },
  };
})();

/* Predicted speedup by draft length: a line of the cost model, break-even, the best γ, and points that stand on the map.
   points: [gamma, speedup, text, filled]; a filled one was measured. */
sd.chart.map = (model, points, W, H) => {
  const { shape, label, path } = sd.chart;
  const most = sd.theory.largest, floor = H - 20, top = 14, left = 26;
  const line = Array.from({ length: most + 1 }, (_, gamma) => sd.theory.speedup(model, gamma));
  const highest = Math.max(...line, ...points.map(([, speedup]) => speedup));
  const low = highest < 1.2 ? 0.5 : 0, high = highest < 1.2 ? Math.max(1.25, highest) : Math.ceil(highest * 1.12 * 2) / 2;
  const x = (gamma) => left + (gamma / most) * (W - left - 8), y = (value) => floor - ((Math.max(low, value) - low) / (high - low)) * (floor - top);
  const nodes = [];
  const step = high - low > 4 ? 2 : high - low > 1.6 ? 1 : 0.5;
  for (let at = low; at <= high + 1e-9; at += step) nodes.push(path(`M${left} ${y(at)}H${W - 4}`, at === low ? "c-axis" : "c-grid"), label(0, y(at) + 4, `${at}×`));
  for (const gamma of [0, 4, 8, 12, 16]) nodes.push(label(x(gamma), H - 4, gamma, "", "middle"));
  nodes.push(path(`M${left} ${y(1)}H${W - 4}`, "c-even"), label(W - 4, y(1) + 14, sd.say("chart.map.even"), "", "end"));
  nodes.push(path(line.map((value, gamma) => `${gamma ? "L" : "M"}${x(gamma).toFixed(1)} ${y(value).toFixed(1)}`).join(""), "c-spec"));
  const [best, value] = sd.theory.best(model);
  if (best) {
    nodes.push(path(`M${x(best)} ${y(value) - 5}V${y(value) - 12}`, "c-tick"));
    nodes.push(label(best > 9 ? x(best) + 4 : x(best) - 4, y(value) - 16, sd.say("chart.map.best", { gamma: best, speedup: value.toFixed(2) }), "k", best > 9 ? "end" : "start"));
  }
  for (const [gamma, speedup, text, filled] of points) {
    const end = gamma > 9, above = best && Math.abs(gamma - best) > 3 && speedup > sd.theory.speedup(model, gamma);
    nodes.push(shape("circle", { cx: x(gamma), cy: y(speedup), r: 4.5, class: filled ? "f-spec" : "f-open" }));
    const left = end || (above && gamma > 5);
    nodes.push(label(x(gamma) + (left ? -8 : 8), y(speedup) + (above ? -8 : 16), text, "s", left ? "end" : "start"));
  }
  return nodes;
};

sd.panels.charts = (panel) => {
  const { shape, label, path, bar } = sd.chart;
  const HEIGHT = 132, FLOOR = 112;
  let W = 250; // as wide as a chart stands on the page, so that its words keep their size
  const lanes = { baseline: [], speculative: [] };
  let board = {};

  const put = (name, how, nodes, summary) => sd.chart.put(panel.querySelector(`[data-chart=${name}]`), how, nodes, summary, W, HEIGHT);

  function scale(seconds) {
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find((one) => seconds / one <= 3.6) ?? 1000;
    const ticks = [];
    for (let at = 0; at <= seconds; at += step) ticks.push(+at.toFixed(2));
    return ticks;
  }

  function time(chart) {
    const { baseline, speculative } = lanes;
    const end = Math.max(0.05, baseline.at(-1)?.[0] ?? 0, speculative.at(-1)?.[0] ?? 0);
    const most = Math.max(2, chart.done ? 0 : chart.budget, baseline.at(-1)?.[1] ?? 0, speculative.at(-1)?.[1] ?? 0);
    const x = (t) => 30 + (t / end) * (W - 40), y = (n) => FLOOR - (n / most) * 98;
    const nodes = [path(`M30 ${FLOOR}H${W - 4}`, "c-axis"), path(`M30 14H${W - 4}`, "c-grid"), label(0, 18, most)];
    for (const tick of scale(end)) nodes.push(label(x(tick), 128, tick ? `${tick} ${sd.say("pane.s")}` : "0", "", "middle"));
    nodes.push(lane(baseline, x, y, "c-base"), lane(speculative, x, y, "c-spec"));
    for (const [points, dot, name] of [[baseline, "f-base", ""], [speculative, "f-spec", "s"]]) {
      if (!points.length) continue;
      const [t, n] = points.at(-1);
      nodes.push(shape("circle", { cx: x(t), cy: y(n), r: 3.5, class: dot }));
      if (!chart.done) nodes.push(label(x(t) - 7, y(n) + (name ? -6 : 14), n, name, "end"));
    }
    if (chart.done && baseline.length > 1 && speculative.length > 1) {
      const first = speculative.at(-1)[0] <= baseline.at(-1)[0];
      nodes.push(named(speculative, x, y, sd.say("speculative").toLowerCase(), "s", first));
      nodes.push(named(baseline, x, y, sd.say("baseline").toLowerCase(), "", !first));
      if (chart.apart) nodes.push(label(x(end) - 4, 9, sd.sentence(chart.apart), "k", "end"));
    }
    put("time", sd.say(chart.done ? "chart.time.done" : "chart.time.live", chart.clocks), nodes,
      `${sd.say("speculative")} ${speculative.at(-1)?.[1] ?? 0}, ${sd.say("baseline")} ${baseline.at(-1)?.[1] ?? 0}`);
  }

  /* The lane that ends first is named left of its line, where the plane is empty, as low as there is room; the other
     right of its own. */
  function named(points, x, y, text, className, first) {
    const at = (part) => points[Math.floor(points.length * part)];
    const [t, n] = at(first ? [0.8, 0.92].find((part) => x(at(part)[0]) > 110) ?? 0.8 : 0.55);
    const left = first && x(t) > 110;
    return left ? label(x(t) - 8, y(n) + 2, text, className, "end") : label(x(t) + 10, y(n) + 12, text, className);
  }

  function lane(points, x, y, className) {
    let d = "";
    for (const [t, n] of points) d += d ? `H${x(t).toFixed(1)}V${y(n).toFixed(1)}` : `M${x(t).toFixed(1)} ${y(n).toFixed(1)}`;
    return path(d || "M0 0", className);
  }

  function columns(values, draw) {
    const slot = W / values.length, width = Math.min(28, slot * 0.56);
    return values.flatMap((value, i) => draw(value, slot * (i + 0.5), width, i));
  }

  function position(chart) {
    const rates = chart.position, alpha = chart.model?.alpha ?? 0;
    const nodes = [path(`M0 ${FLOOR}H${W}`, "c-axis")];
    if (rates.length) {
      nodes.push(...columns(rates, (rate, x, width, i) => {
        const height = 92 * rate, few = rates.length <= 8, unit = W / rates.length > 36 ? " %" : "", expected = FLOOR - 92 * alpha ** (i + 1);
        return [bar(x - width / 2, FLOOR - height, width, height, "m-acc"),
          ...(alpha ? [path(`M${x - width / 2 - 3} ${expected}h${width + 6}`, "c-tick")] : []),
          ...(few || i === 0 ? [label(x, Math.min(FLOOR - height, alpha ? expected : FLOOR) - 5, `${Math.round(100 * rate)}${unit}`, "k", "middle")] : []),
          label(x, 128, few || i % 4 === 0 ? i + 1 : "", "", "middle")];
      }));
    } else nodes.push(label(W / 2, 66, sd.say(chart.told ? "chart.none" : "chart.untold"), "", "middle"));
    put("position", chart.told ? sd.say(alpha ? "chart.position.line" : "chart.position.how", { n: chart.drafting, alpha: alpha.toFixed(2) }) : "", nodes, rates.map((rate) => `${Math.round(100 * rate)} %`).join(", "));
  }

  function wrote(chart) {
    const counts = chart.wrote, most = Math.max(1, ...counts), pictured = chart.told && counts.length <= 7 && W / counts.length > counts.length * 8 + 2;
    const floor = pictured ? 96 : FLOOR;
    const nodes = [path(`M0 ${floor}H${W}`, "c-axis")];
    nodes.push(...columns(counts, (count, x, width, i) => {
      const height = (floor - 18) * (count / most);
      const few = counts.length <= 9;
      const made = [bar(x - width / 2, floor - height, width, height, "f-spec"), label(x, 128, few || i % 4 === 0 ? i + 1 : "", "", "middle")];
      if (few) made.push(label(x, floor - height - 5, count, "k", "middle"));
      if (pictured) made.push(...picture(x, i, i === chart.full));
      return made;
    }));
    put("wrote", sd.say(chart.told ? "chart.wrote.how" : "chart.wrote.chunks"), nodes, counts.map((count, i) => `${i + 1}: ${count}`).join(", "));
  }

  /* A square is an accepted draft, a diamond the correction, a circle the bonus of a full draft. */
  function picture(x, accepted, full) {
    const size = 6, gap = 2, start = x - ((accepted + 1) * (size + gap) - gap) / 2;
    const nodes = [];
    for (let i = 0; i < accepted; i++) nodes.push(bar(start + i * (size + gap), 103, size, size, "m-acc"));
    const end = start + accepted * (size + gap) + size / 2;
    nodes.push(full ? shape("circle", { cx: end, cy: 106, r: 3.4, class: "m-bon" }) : path(`M${end} 102l4 4l-4 4l-4 -4z`, "m-cor"));
    return nodes;
  }

  function costs(chart) {
    const { plain, step } = chart.costs;
    const nodes = [];
    if (plain && step) {
      const widest = Math.max(plain.width, step.width), unit = W / widest;
      nodes.push(label(0, 12, sd.say("chart.costs.plain"), "k"), label(W, 12, sd.say("chart.costs.one", plain), "", "end"));
      nodes.push(bar(0, 18, plain.width * unit, 14, "f-base"));
      nodes.push(label(0, 58, sd.say("chart.costs.spec"), "k"), label(W, 58, sd.say("chart.costs.buys", step), "", "end"));
      if (step.parts) {
        const [draft, verify, other] = step.parts;
        nodes.push(bar(0.6, 64.6, draft.width * unit - 1.2, 12.8, "m-acc"));
        nodes.push(bar(draft.width * unit, 64, verify.width * unit - 1, 14, "f-spec"));
        nodes.push(bar((draft.width + verify.width) * unit, 64, other.width * unit, 14, "f-ink"));
        nodes.push(label(0, 92, sd.say("chart.costs.draft", draft)), label(W / 2, 92, sd.say("chart.costs.verify", verify), "s", "middle"),
          label(W, 92, sd.say("chart.costs.other", other), "", "end"));
      } else {
        nodes.push(bar(0, 64, step.width * unit, 14, "f-spec"), label(0, 92, sd.say("remote.costs"), "s"));
      }
      nodes.push(path(`M0 ${FLOOR}H${W}`, "c-grid"), label(0, 128, sd.say("chart.costs.each"), "k"),
        label(W, 128, `${plain.each} → ${step.each} ${sd.say("pane.ms")}`, "k", "end"));
    }
    put("costs", sd.say("chart.costs.how"), nodes, plain && step ? `${plain.ms}, ${step.ms}` : "");
  }

  function map({ model }) {
    if (!model) return put("map", sd.say("chart.map.none"), [], "");
    const point = [model.gamma, model.speedup, sd.say("chart.map.here", { speedup: model.speedup.toFixed(2) }), true];
    const v = 1 + model.slope * model.gamma;
    const how = { alpha: model.alpha.toFixed(2), c: model.c.toFixed(3), v: v.toFixed(2), drafts: Math.round(100 * model.drafts) };
    const best = sd.theory.best(model);
    put("map", sd.say(model.drafts < 0.95 ? "chart.map.some" : "chart.map.how", how), sd.chart.map(model, [point], W, HEIGHT),
      [point[2], sd.say("chart.map.best", { gamma: best[0], speedup: best[1].toFixed(2) })].join(", "));
  }

  function draw() {
    const chart = board.chart;
    panel.querySelector(".sd-charts").classList.toggle("sd-hidden", !chart);
    panel.querySelector("[data-below=nocharts]").hidden = Boolean(chart);
    if (!chart || panel.hidden) return;
    W = panel.querySelector("svg").clientWidth || 250;
    time(chart);
    position(chart);
    wrote(chart);
    costs(chart);
    map(chart);
  }

  sd.on("lane-began", ({ lane }) => { lanes[lane] = []; });
  sd.on("lane-wrote", ({ lane, points }) => {
    lanes[lane] = points;
    if (!board.running) sd.frame(draw); // the last tokens may come after the last figures
  });
  sd.on("board", (value) => { board = value; sd.frame(draw); });
  sd.on("language", draw);
  sd.on("tab", draw);
  new ResizeObserver(draw).observe(panel);
  draw();
};
