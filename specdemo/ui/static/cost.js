/* Beside the choice of what drafts: what one of its tokens costs here, measured when the pair was loaded. */
sd.parts.cost = (element) => {
  const line = element.querySelector("[data-cost=line]");

  function draw() {
    const cost = (sd.facts ?? []).find((fact) => Array.isArray(fact) && fact[0] === "draft.cost");
    line.textContent = cost ? sd.told(cost) : "";
  }

  sd.on("facts", draw);
  sd.on("language", draw);
  draw();
};
