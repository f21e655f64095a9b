/* The page's own small kit: language, text, and the hub that parts of the page listen to.
   Model and prompt text reaches the document by textContent alone, in this file and in every other. */
window.sd = (() => {
  const TEXT = window.SD_TEXT;
  const parts = {}; // name -> (element, kit): what a gr.HTML subclass runs once it stands on the page
  const ORIGINS = { n: "target", a: "accepted", c: "corrected", b: "bonus", u: "unknown" }; // by mark
  const listeners = {};
  const drawing = new Map(); // what writes in the next frame -> what measures after it
  const FRAME = 16; // milliseconds
  let drawn = -FRAME; // when it was last done

  function choose(wanted) {
    const tag = (wanted || "").toLowerCase();
    if (!tag.startsWith("zh")) return "en";
    return /tw|hk|mo|hant/.test(tag) ? "zh-TW" : "zh-CN";
  }

  function remembered(name) {
    try { return localStorage.getItem(name); } catch { return null; } // storage may be forbidden in a frame
  }

  function remember(name, value) {
    try { localStorage.setItem(name, value); } catch { /* then it lasts as long as the page */ }
  }

  const asked = new URLSearchParams(location.search).get("lang");
  let lang = choose(asked || remembered("sd-lang") || navigator.language);

  /* "@key" stands for the words of that key, "#2026-05-14" for that day, [key, parameters] for that sentence, anything
     else for itself. */
  function word(value) {
    if (Array.isArray(value)) return kit.say(...value);
    if (value[0] === "@" && value.slice(1) in TEXT.en) return TEXT[lang][value.slice(1)];
    if (!/^#\d{4}-\d\d-\d\d$/.test(value)) return value;
    const day = new Date(value.slice(1)); // a file may say 2026-99-99
    return isNaN(day) ? value.slice(1) : new Intl.DateTimeFormat(lang, { dateStyle: "long", timeZone: "UTC" }).format(day);
  }

  const kit = {
    parts,
    get lang() { return lang; },
    say(key, params = {}) {
      const template = TEXT[lang][key] ?? TEXT.en[key] ?? "";
      return template.replace(/\{(\w+)\}/g, (whole, name) => (name in params ? word(Array.isArray(params[name]) ? params[name] : String(params[name])) : whole));
    },
    remember,
    remembered,
    /* Once there is a body: Gradio may put this script into the page before or after. */
    ready(act) { if (document.body) act(); else document.addEventListener("DOMContentLoaded", act); },
    on(name, listener) { (listeners[name] ??= []).push(listener); },
    emit(name, detail) { for (const listener of listeners[name] ?? []) listener(detail); },
    setLanguage(wanted) {
      lang = choose(wanted);
      document.documentElement.lang = lang;
      document.title = kit.say("title");
      kit.emit("language", lang);
    },
    /* The address says which view is open, so that it opens again with the page. */
    opensAs: (view) => new URLSearchParams(location.search).get("view") === view,
    openAs(view, wanted) {
      const url = new URL(location.href);
      if (wanted) url.searchParams.set("view", view);
      else if (kit.opensAs(view)) url.searchParams.delete("view");
      history.replaceState(history.state, "", url);
    },
    /* Texts of elements that name their key: data-say for the content, data-label for the accessible name. */
    localise(root) {
      for (const node of root.querySelectorAll("[data-say]")) node.textContent = kit.say(node.dataset.say);
      for (const node of root.querySelectorAll("[data-label]")) node.setAttribute("aria-label", kit.say(node.dataset.label));
      for (const node of root.querySelectorAll("[data-title]")) node.title = kit.say(node.dataset.title);
    },
    make(tag, className = "", text = "") {
      const node = document.createElement(tag);
      if (tag === "button") node.type = "button"; // it sends no form
      if (className) node.className = className;
      if (text) node.textContent = text;
      return node;
    },
    /* A cell that heads a column, or a row. */
    heading(text, className = "", scope = "col") {
      const cell = kit.make("th", className, text);
      cell.scope = scope;
      return cell;
    },
    /* A token by itself: white space made visible, under its mark; "no" strikes it out. */
    visible: (text) => (text === "" ? "∅" : text.replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥")),
    token(text, mark) {
      if (mark === "no") return kit.make("s", "sd-no", kit.visible(text));
      const node = kit.make("span", `t ${mark}`);
      node.append(kit.make("i", "", kit.visible(text)));
      return node;
    },
    origin: (mark) => ORIGINS[mark],
    mark: (origin) => Object.keys(ORIGINS).find((mark) => ORIGINS[mark] === origin) ?? "u",
    /* A probability, as short as three decimals allow. */
    probability: (value) => (value === null || value === undefined ? "–" : value > 0 && value < 0.0005 ? "< 0.001" : String(+value.toFixed(3))),
    /* To the clipboard, whether it worked; a page without https may not use the newer way. */
    async copy(text) {
      try {
        await navigator.clipboard.writeText(text);
        return true;
      } catch { /* then by hand */ }
      const field = kit.make("textarea", "sd-unseen", text);
      const focused = document.activeElement;
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      focused?.focus?.({ preventScroll: true });
      return done;
    },
    /* A text as a file that the browser keeps. */
    save({ name, text }) {
      const link = kit.make("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    },
    /* "**bold:** rest", with nothing in it taken for markup. */
    rich(node, text) {
      node.replaceChildren(...text.split("**").map((piece, i) => (i % 2 ? kit.make("b", "", piece) : piece)));
    },
    /* At most once a frame: first everything that writes, then everything that has to measure. What comes after a quiet
       frame is drawn in this one, once all parts have their values. A slow machine skips frames instead of falling
       behind, since what is drawn is always the whole of what has come. */
    frame(write, measure = () => {}) {
      drawing.set(write, measure);
      if (drawing.size > 1) return;
      const draw = () => {
        const due = [...drawing];
        drawing.clear();
        drawn = performance.now();
        for (const [first] of due) first();
        for (const [, then] of due) then();
      };
      if (document.hidden) setTimeout(draw, 250); // no frames are drawn then
      else if (performance.now() - drawn < FRAME) requestAnimationFrame(draw);
      else queueMicrotask(draw);
    },
    sentence: ([key, params]) => kit.say(key, params),
    /* One after the other; a Chinese full stop brings its own space. */
    sentences: (list) => list.map(kit.sentence).join(lang === "en" ? " " : ""),
    /* A text as it came, or a sentence: what other floors say is not always known here. */
    told: (text) => (typeof text === "string" ? text : kit.sentence(text)),
    mount(name, element, props, watch, trigger) {
      kit.localise(element);
      kit.on("language", () => kit.localise(element));
      parts[name](element, { props, watch, trigger });
    },
  };
  document.documentElement.lang = lang;
  return kit;
})();
