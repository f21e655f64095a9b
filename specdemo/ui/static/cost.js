/* Beside the choice of what drafts: what one of its tokens costs here, measured when the pair was loaded, and what the
   caches take. */
sd.parts.cost = (element) => {
  const line = element.querySelector("[data-cost=line]");

  function draw() {
    const said = (sd.facts ?? []).filter(([key]) => key === "draft.cost" || key === "caches");
    line.textContent = said.map(sd.told).join(" · ");
  }

  sd.on("facts", draw);
  sd.on("language", draw);
  draw();
};
