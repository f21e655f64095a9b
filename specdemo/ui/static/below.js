/* What stands below the panes: charts, what-if, cost and runs behind tabs, and what can be done with the run above. */
sd.panels = {}; // name -> (panel, kit): what a tab's panel runs once it stands on the page
sd.parts.below = (element, kit) => {
  const find = (name) => element.querySelector(`[data-below=${name}]`);
  const tabs = [...element.querySelectorAll("[role=tab]")];
  let board = {};

  function open(name) {
    for (const tab of tabs) {
      const chosen = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
      element.querySelector(`[data-panel=${tab.dataset.tab}]`).hidden = !chosen;
    }
    sd.emit("tab", name);
  }
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => open(tab.dataset.tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      open(next.dataset.tab);
    });
  });

  /* One line for what went well or wrong; it goes with the next run. */
  function tell(sentence) {
    const told = find("told");
    told.hidden = !sentence;
    sd.rich(told, sentence ? sd.sentence(sentence) : "");
  }

  const speed = () => +element.querySelector("[name=sd-pace]:checked").value;
  const replay = (run) => { tell(null); kit.trigger("replay", { run, speed: speed() }); };
  const fetch = (run, kind) => kit.trigger("fetch", { run, kind, language: sd.lang });

  element.addEventListener("click", (event) => {
    const act = event.target.closest?.("[data-act]")?.dataset.act;
    const run = board.of ?? board.run;
    if (act === "replay") replay(run);
    else if (["json", "csv", "md"].includes(act)) fetch(run, act);
  });
  for (const choice of element.querySelectorAll("[name=sd-pace]")) {
    choice.addEventListener("change", () => { if (board.replay && board.running) kit.trigger("pace", { speed: speed() }); });
  }

  /* The server's answers: a file to keep, rows for the table, or why not. */
  function take() {
    if (!kit.props.value) return;
    const message = JSON.parse(kit.props.value);
    tell(message.refused ?? null);
    if (message.file) sd.save(message.file);
    if (message.rows) sd.emit("rows", message);
  }

  sd.on("board", (value) => {
    if (value.run !== board.run) tell(null); // a short run may never be seen running
    board = value;
    const whole = !board.running && Boolean(board.lanes);
    find("acts").hidden = !(whole || board.replay);
    for (const button of find("acts").querySelectorAll("button")) button.disabled = !whole;
  });
  sd.on("file-chosen", ({ text, name }) => kit.trigger("bring", { text, name }));
  for (const [name, panel] of Object.entries(sd.panels)) panel(element.querySelector(`[data-panel=${name}]`), { replay, fetch, tell, element });
  open("charts");
  kit.watch("value", take);
  take();
};
