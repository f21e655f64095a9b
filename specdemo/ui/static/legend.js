/* The legend under the panes: what each mark means, how many tokens wear it, and two switches over both panes. */
sd.parts.legend = (element) => {
  sd.on("board", (board) => {
    for (const node of element.querySelectorAll("[data-origin]")) node.textContent = board.origins?.[node.dataset.origin] ?? "";
  });
  for (const button of element.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      const on = document.body.classList.toggle(`sd-show-${button.dataset.view}`);
      button.setAttribute("aria-checked", on);
    });
  }
};
