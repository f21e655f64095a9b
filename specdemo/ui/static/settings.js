/* The settings panel's own head: what closes it, by button and by Escape, and a link that restores what it says. */
sd.settings = (() => {
  const panel = () => document.getElementById("sd-settings");
  const opened = () => panel()?.classList.contains("open");

  /* Gradio's sidebar opens and closes by its own button alone. */
  function toggle(wanted = !opened()) {
    if (!panel() || opened() === wanted) return;
    panel().querySelector(".toggle-button").click();
    if (wanted) reach(performance.now() + 2000);
    else document.querySelector(".sd-set")?.focus();
  }

  /* The panel slides in, and what is not visible yet takes no focus. */
  function reach(until) {
    const close = panel().querySelector("[data-settings=close]");
    close?.focus();
    if (document.activeElement !== close && performance.now() < until) requestAnimationFrame(() => reach(until));
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || !opened()) return;
    if (event.target !== document.body && !panel().contains(event.target)) return;
    event.preventDefault();
    toggle(false);
  });
  return { toggle };
})();

sd.parts.settings = (element, { props, watch }) => {
  const find = (name) => element.querySelector(`[data-settings="${name}"]`);
  find("close").addEventListener("click", () => sd.settings.toggle(false));

  const kept = () => JSON.parse(props.value || "{}");
  find("keep").addEventListener("click", () => sd.save({ name: "demo.yaml", text: kept().file ?? "" }));

  /* A link holds what differs from a fresh page, as a query string; the prompt is read from its box. */
  function address() {
    const url = new URL(location.pathname, location.origin);
    url.search = kept().link ?? "";
    const prompt = document.querySelector("#sd-prompt textarea")?.value ?? "";
    if (prompt) url.searchParams.set("prompt", prompt);
    return url.href;
  }

  find("copy").addEventListener("click", async () => {
    const field = find("address");
    field.value = address();
    field.hidden = false;
    find("said").textContent = sd.say(await sd.copy(field.value) ? "link.copied" : "link.byhand");
    field.select();
  });
  /* What was set last may be answered only now. */
  watch("value", () => { if (!find("address").hidden) find("address").value = address(); });

  /* Gradio names a slider's two fields in English, whatever the language, and again whenever one is shown or named anew. */
  const GRADIOS = /^(number input|range slider) for (.*)$/;
  function name() {
    const close = document.querySelector("#sd-settings .toggle-button");
    if (close && close.ariaLabel !== sd.say("settings.close")) close.ariaLabel = sd.say("settings.close"); // else it is seen again
    for (const field of document.querySelectorAll("#sd-settings input[aria-label]")) {
      const [, kind, label] = GRADIOS.exec(field.ariaLabel) ?? [];
      if (kind) field.ariaLabel = sd.say(kind === "range slider" ? "settings.slider" : "settings.number", { label });
    }
  }
  sd.on("language", name);
  requestAnimationFrame(() => {
    name();
    const settings = document.getElementById("sd-settings");
    new MutationObserver(name).observe(settings, { childList: true, subtree: true, attributeFilter: ["aria-label"] });
  });
};
