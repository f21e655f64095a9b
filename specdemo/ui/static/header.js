/* The header: the pair and how far it is loaded, language, theme. Below it, only when needed, why there is no model. */
sd.parts.header = (element, { props, watch, trigger }) => {
  const find = (name) => element.querySelector(`[data-head="${name}"]`);
  const select = find("language");
  let state = { state: "loading", facts: [], message: "" };
  const ASK_MS = 4000; /* between two times that it is asked for: what the server tells by itself may be lost on its way */
  let watching = false;
  const asking = setInterval(() => trigger("ask", {}), ASK_MS);

  function draw() {
    const { state: kind, facts, message, fraction } = state;
    element.querySelector(".sd-pair").dataset.state = kind;
    const label = kind === "ready" ? facts.filter(([key]) => key !== "caches").map(sd.told) : [sd.say(kind === "failed" ? "unavailable" : "loading"), kind === "loading" ? sd.told(message) : ""];
    find("pair").textContent = label[0] ?? "";
    const more = label.slice(1).filter(Boolean).join(" · ");
    find("more").textContent = more && ` · ${more}`;
    find("more").title = more;
    const bar = find("bar");
    bar.hidden = kind !== "loading";
    bar.classList.toggle("sd-unknown", fraction === null || fraction === undefined);
    bar.firstElementChild.style.width = `${100 * (fraction ?? 1)}%`;
    find("trouble").hidden = kind !== "failed";
    find("why").textContent = kind === "failed" ? sd.told(message) : "";
  }

  function take() {
    if (!props.value) return;
    state = JSON.parse(props.value);
    if (state.state !== "loading") clearInterval(asking);
    else if (!watching) trigger("watch", {});
    watching = true;
    sd.facts = state.facts;
    sd.emit("facts");
    draw();
  }

  select.value = sd.lang;
  select.addEventListener("change", () => {
    sd.setLanguage(select.value);
    sd.remember("sd-lang", sd.lang);
    trigger("language", { language: sd.lang });
  });
  find("theme").addEventListener("click", () => {
    const dark = document.body.classList.toggle("dark");
    sd.remember("sd-theme", dark ? "dark" : "light");
  });
  find("retry").addEventListener("click", () => trigger("retry", {}));
  find("lab").addEventListener("click", () => sd.emit("lab"));
  find("how").addEventListener("click", () => sd.emit("how"));
  find("tour").addEventListener("click", () => sd.tour.start());
  find("present").addEventListener("click", () => sd.presenter.set(true));

  const themed = new URLSearchParams(location.search).get("__theme");
  const kept = sd.remembered("sd-theme");
  if (kept && !themed) document.body.classList.toggle("dark", kept === "dark");
  sd.on("language", draw);
  watch("value", take);
  draw();
  take();
  sd.setLanguage(sd.lang);
};
