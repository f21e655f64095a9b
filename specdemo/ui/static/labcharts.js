/* Charts and heat maps of the Lab's rows. Bars lie, so that their names can be read; what has an order is a line. */
sd.labCharts = (() => {
  const { shape, label, path, bar } = sd.chart;
  const word = (text) => sd.say(`lab.w.${text}`) || sd.say(`lab.k.${text}`) || text;
  const COMPARED = ["plain", "should be"]; // series that another one is held against
  const figure = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

  const wide = (text) => [...text].reduce((sum, one) => sum + (one > "\u2e80" ? 13 : 7), 0); // pixels, about

  function framed(chart, width, height, nodes) {
    const figureNode = sd.make("figure", "sd-chart sd-lab-chart"), svg = shape("svg", { role: "img", viewBox: `0 0 ${width} ${height}`, "aria-label": word(chart.title) });
    svg.style.height = `${height}px`;
    svg.append(...nodes);
    figureNode.append(sd.make("h3", "", word(chart.title)), svg);
    return figureNode;
  }

  const known = (chart) => chart.marks.flat().filter(Boolean).flatMap((mark) => mark.filter((value) => value !== null));

  function nice(low, high) {
    const step = [0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((one) => (high - low) / one <= 5) ?? 10 ** Math.ceil(Math.log10((high - low) / 5));
    const ticks = [];
    for (let at = Math.floor(low / step + 1e-9) * step; at <= high + step * 0.999; at += step) ticks.push(+at.toFixed(6));
    return ticks;
  }

  /* From break-even, or from nothing: a bar, its range, its figure. */
  function bars(chart, width) {
    const LINE = 22, GAP = 12, HEAD = 18, many = chart.series.length > 1;
    const left = Math.min(width * 0.42, 24 + Math.max(...chart.places.map((one) => wide(word(one))), ...(many ? chart.series.map((one) => wide(word(one)) + 14) : [])));
    const from = chart.even ?? 0, values = [...known(chart), from], ticks = nice(Math.min(...values), Math.max(...values));
    const x = (value) => left + ((value - ticks[0]) / (ticks.at(-1) - ticks[0] || 1)) * (width - left - 52);
    const nodes = [], each = (many ? HEAD : 0) + LINE * chart.series.length + GAP, height = each * chart.places.length + 24;
    for (const tick of ticks) nodes.push(path(`M${x(tick)} 0V${height - 20}`, "c-grid"), label(x(tick), height - 4, chart.even === null ? tick : `${tick}×`, "", "middle"));
    chart.places.forEach((place, i) => {
      const top = each * i + 4;
      if (many) nodes.push(label(0, top + 12, /^\d+$/.test(place) ? `${word(chart.across)} ${place}` : word(place), "k"));
      chart.series.forEach((name, j) => {
        const y = top + (many ? HEAD : 0) + LINE * j, mark = chart.marks[j][i];
        nodes.push(label(many ? 10 : 0, y + 14, many ? word(name) : word(place), many ? "" : "k"));
        if (!mark) return nodes.push(label(x(from) + 6, y + 14, "–"));
        const [value, low, high] = mark;
        nodes.push(bar(Math.min(x(from), x(value)), y + 3, Math.abs(x(value) - x(from)), 14, value < from || COMPARED.includes(name) ? "f-base" : "f-spec"));
        if (low !== null) nodes.push(path(`M${x(low)} ${y + 10}H${x(high)}M${x(low)} ${y + 6}V${y + 14}M${x(high)} ${y + 6}V${y + 14}`, "c-tick"));
        nodes.push(label(Math.max(x(value), x(high ?? value), x(from)) + 6, y + 14, figure(value), "k"));
      });
    });
    if (chart.even !== null) nodes.push(path(`M${x(from)} 0V${height - 20}`, "c-axis"));
    return framed(chart, width, height, nodes);
  }

  function lines(chart, width) {
    const height = 220, floor = height - 24, top = 22, left = 34, right = 20;
    const values = [...known(chart), chart.even ?? 0], ticks = nice(Math.min(...values), Math.max(...values));
    const x = (i) => (chart.places.length > 1 ? left + 10 + (i / (chart.places.length - 1)) * (width - left - right - 20) : width / 2);
    const y = (value) => floor - ((value - ticks[0]) / (ticks.at(-1) - ticks[0] || 1)) * (floor - top);
    const nodes = ticks.flatMap((tick, i) => [path(`M${left} ${y(tick)}H${width}`, i ? "c-grid" : "c-axis"), label(0, y(tick) + 4, chart.even === null ? tick : `${tick}×`)]);
    if (chart.even !== null) nodes.push(path(`M${left} ${y(chart.even)}H${width}`, "c-even"));
    chart.places.forEach((place, i) => nodes.push(label(x(i), height - 4, place, "", "middle")));
    nodes.push(label(0, 10, word(chart.across)));
    const plainly = (j) => (chart.series.some((name) => COMPARED.includes(name)) ? COMPARED.includes(chart.series[j]) : j > 0);
    let named = 0;
    chart.series.forEach((name, j) => {
      const points = chart.marks[j].map((mark, i) => mark && [x(i), y(mark[0]), mark]).filter(Boolean);
      if (!points.length) return;
      nodes.push(path(points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join(""), plainly(j) ? "c-base" : "c-spec"));
      for (const [px, py, [value, low, high]] of points) {
        if (low !== null) nodes.push(path(`M${px} ${y(low)}V${y(high)}M${px - 3} ${y(low)}H${px + 3}M${px - 3} ${y(high)}H${px + 3}`, "c-tick"));
        nodes.push(shape("circle", { cx: px, cy: py, r: 4, class: plainly(j) ? "f-base" : "f-spec" }));
        if (!plainly(j)) nodes.push(label(px + 7, py - 7, figure(value), "k"));
      }
      if (chart.series.length > 1) {
        const at = width - 8 - 150 * (chart.series.length - 1 - named++);
        nodes.push(path(`M${at - wide(word(name)) - 26} 6h18`, plainly(j) ? "c-base" : "c-spec"), label(at, 10, word(name), plainly(j) ? "" : "s", "end"));
      }
    });
    return framed(chart, width, height, nodes);
  }

  /* Shades say how high, a star and a frame mark the best, and the number stands there anyway. */
  function map(made) {
    const holder = sd.make("figure", "sd-lab-map"), table = sd.make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    const values = made.values.flat().filter((value) => value !== null), low = Math.min(...values), high = Math.max(...values);
    head.append(sd.heading(`${word(made.down)} \\ ${word(made.across)}`), ...made.columns.map((one) => sd.heading(one)));
    made.lines.forEach((line, i) => {
      const row = body.insertRow();
      row.append(sd.heading(line, "", "row"), ...made.values[i].map((value, j) => {
        const best = made.best?.[0] === i && made.best?.[1] === j;
        const cell = sd.make("td", best ? "best" : "", value === null ? "–" : `${best ? "★ " : ""}${value.toFixed(2)}`);
        if (value !== null) cell.style.setProperty("--share", `${Math.round(6 + 42 * (high > low ? (value - low) / (high - low) : 1))}%`);
        return cell;
      }));
    });
    const title = made.title.split(" (");
    const wide = sd.make("div", "sd-wide");
    wide.append(table);
    holder.append(sd.make("h4", "", [word(title[0]), ...title.slice(1)].join(" (")), wide);
    return holder;
  }

  return { word, map, draw: (chart, width) => (chart.joined ? lines : bars)(chart, width) };
})();
