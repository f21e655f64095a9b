/* What a million tokens cost: the price of the device by the hour over the tokens a second of the whole run. */
sd.panels.money = (panel) => {
  const price = panel.querySelector("#sd-price");
  const out = (name) => panel.querySelector(`[data-out=${name}]`);
  let paid = null;

  /* Three figures that say something, whatever the size. */
  const amount = (value) => new Intl.NumberFormat(sd.lang, { maximumSignificantDigits: 3 }).format(value);

  function draw() {
    const perHour = price.valueAsNumber, known = Boolean(paid) && perHour >= 0;
    out("nomoney").hidden = Boolean(paid);
    out("bill").hidden = !known;
    out("paid-how").hidden = !known;
    price.setAttribute("aria-invalid", !(perHour >= 0));
    if (!known) return;
    const [plain, spec] = [paid.baseline, paid.speculative].map((rate) => sd.theory.millionTokens(perHour, rate));
    const per = (value) => sd.say("money.per", { amount: amount(value) });
    out("paid-baseline").textContent = per(plain);
    out("paid-speculative").textContent = per(spec);
    const saves = spec <= plain;
    out("saving-name").textContent = sd.say(saves ? "money.saves" : "money.loses");
    out("saving").textContent = sd.say("money.share", { amount: amount(Math.abs(plain - spec)), share: Math.round(100 * Math.abs(1 - paid.baseline / paid.speculative)) });
    out("paid-how").textContent = sd.say("money.how", { baseline: paid.baseline.toFixed(1), speculative: paid.speculative.toFixed(1) });
  }

  price.value = sd.remembered("sd-price") || 1;
  price.addEventListener("input", () => { if (price.valueAsNumber >= 0) sd.remember("sd-price", price.value); draw(); });
  sd.on("board", (board) => { if (board.chart && !board.running) { paid = board.chart.paid; draw(); } });
  sd.on("language", draw);
  draw();
};
