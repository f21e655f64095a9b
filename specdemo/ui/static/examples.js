/* Example prompts: one chip each, labelled by what it shows; and the line that sums the settings up. */
sd.parts.examples = (element, { props, watch, trigger }) => {
  const row = element.querySelector(".sd-chips");
  const examples = JSON.parse(props.examples);
  let summary = [], chosen = new URLSearchParams(location.search).has("prompt") ? -1 : 0;

  function draw() {
    row.replaceChildren(...examples.map((example, index) => {
      const chip = sd.make("button", "sd-chip", example.label[sd.lang] + " ");
      chip.append(sd.make("i", "", example.shows[sd.lang]));
      chip.setAttribute("aria-pressed", index === chosen);
      chip.addEventListener("click", () => { chosen = index; draw(); trigger("pick", { index }); });
      return chip;
    }));
    const said = element.querySelector("[data-set=summary]");
    said.textContent = said.title = summary.map(sd.sentence).join(" · ");
  }

  element.querySelector(".sd-set").addEventListener("click", () => sd.settings.toggle());
  const chat = element.querySelector(".sd-chatsw");
  chat.addEventListener("click", () => {
    const on = chat.getAttribute("aria-checked") !== "true";
    chat.setAttribute("aria-checked", on);
    sd.emit("chat", on);
  });
  sd.on("board", (board) => { chat.disabled = Boolean(board.running); }); // the turn that is going belongs to it
  document.addEventListener("input", (event) => {
    if (chosen < 0 || !event.target.closest?.(".sd-box")) return;
    chosen = -1;
    draw();
  });
  sd.on("language", draw);
  const take = () => { summary = JSON.parse(props.value || "[]"); draw(); };
  watch("value", take);
  take();
};
