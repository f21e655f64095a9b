/* The legend under the panes: what each mark means, how many tokens wear it, and the switches over both panes. */
sd.parts.legend = (element) => {
  const turn = element.querySelector("[data-view=turn]");
  sd.on("board", (board) => {
    const clocks = element.querySelector(".sd-clocks > span");
    if (board.clocks && clocks.dataset.say !== board.clocks) clocks.textContent = sd.say(clocks.dataset.say = board.clocks);
    for (const node of element.querySelectorAll("[data-origin]")) node.textContent = board.origins?.[node.dataset.origin] ?? "";
  });
  for (const button of element.querySelectorAll("[role=switch]")) {
    button.addEventListener("click", () => {
      const name = button.dataset.view, on = document.body.classList.toggle(`sd-show-${name}`);
      button.setAttribute("aria-checked", on);
      sd.emit("view", { name, on });
      if (name === "slow") sd.slow.set(on);
      turn.hidden = !sd.slow.byKey;
    });
  }
  turn.addEventListener("click", () => sd.emit("slow-turn"));
};
