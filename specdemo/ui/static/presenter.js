/* The presenter view: panes, scoreboard and legend in large type, for the back row; by ?view=presenter or a button.
   Enter runs, Escape stops or leaves, arrows step; a key that a field or an open dialog takes is left alone. */
sd.presenter = (() => {
  const leave = sd.make("button", "sd-leave");
  leave.addEventListener("click", () => set(false));

  const on = () => document.body.classList.contains("sd-present");

  function words() {
    leave.textContent = sd.say("present.leave");
    leave.title = sd.say("present.help");
  }

  function set(wanted) {
    document.body.classList.toggle("sd-present", wanted);
    sd.openAs("presenter", wanted);
    words();
    if (wanted) {
      sd.settings.toggle(false);
      document.activeElement?.blur();
    } else {
      document.querySelector("[data-head=present]")?.focus();
    }
    dispatchEvent(new Event("resize")); // what was drawn to measure is drawn again
  }

  function step(key) {
    const text = document.querySelector("#sd-speculative .sd-text");
    if (!text.childElementCount) return;
    text.focus({ preventScroll: true });
    text.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  }

  function press(event) {
    if (!on() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable=true], [role=dialog], [role=slider]")) return;
    const inside = event.target.closest?.("#sd-speculative .sd-text, #sd-baseline .sd-text, button, a");
    const run = document.getElementById("sd-run"), stop = document.getElementById("sd-stop");
    if (event.key === "Enter" && !event.target.closest?.("button, a")) run.click();
    else if (event.key === "Escape" && sd.tooltip.anchor) return; // what is open closes first
    else if (event.key === "Escape" && !stop.disabled) stop.click();
    else if (event.key === "Escape") set(false);
    else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key) && !inside) step(event.key);
    else return;
    event.preventDefault();
  }

  document.addEventListener("keydown", press, true);
  function begin() {
    document.body.append(leave);
    if (sd.opensAs("presenter")) set(true);
  }
  sd.ready(begin);
  sd.on("language", words);
  return { set };
})();
