/* The log of runs in the Lab: what the server made of it when it was looked at last. */
sd.labLog = (place, trigger) => {
  const find = (name) => place.querySelector(`[data-log="${name}"]`);
  let told = null;

  function draw() {
    sd.rich(find("told"), told ? sd.sentence(told.say) : "");
    find("found").hidden = !told?.lines;
    if (!told?.lines) return;
    const { head, lines, alerts } = told, { word } = sd.labCharts, top = sd.make("tr");
    find("calm").hidden = alerts.length > 0;
    find("alerts").replaceChildren(...alerts.map((text) => sd.make("li", "sd-lab-fault", text)));
    top.append(...head.map((name, i) => sd.heading(word(name), i > 1 ? "r" : "")));
    find("table").tHead.replaceChildren(top);
    find("table").tBodies[0].replaceChildren(...lines.map((line) => {
      const row = sd.make("tr");
      row.append(...line.map((text, i) => sd.make("td", i > 1 ? "r" : "", i ? text : word(text))));
      return row;
    }));
  }

  find("again").addEventListener("click", () => trigger("log", {}));
  return {
    show(on) {
      if (on && place.hidden) trigger("log", {});
      place.hidden = !on;
      if (on) draw();
    },
    take(answer) { told = answer; draw(); },
  };
};
