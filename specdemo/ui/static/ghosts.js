/* Where do refused drafts stand? Each under the token that was written instead, outside the text: no word moves
   sideways for them, and nobody copies them. Lines only grow apart while they are shown. */
sd.ghosts = (text) => {
  const layer = sd.make("div", "sd-ghosts");
  layer.setAttribute("aria-hidden", "true");
  let placed = 0, edges = new Map(); // steps that are laid out; right edge of what stands under each line

  function clear() {
    layer.replaceChildren();
    placed = 0;
    edges = new Map();
  }

  function ghost(step) {
    const [refused, ...behind] = step.refused;
    const node = sd.make("span", "sd-ghost");
    node.append(sd.make("s", "sd-no", refused.text.replace(/\n/g, "⏎").trim() || "␣"));
    if (behind.length) node.append(sd.make("small", "", `+${behind.length}`));
    return node;
  }

  /* The steps that are not laid out yet: all nodes in first, then one look at the page, then every place. */
  function lay(steps) {
    if (!layer.isConnected) text.append(layer);
    const fresh = [];
    for (; placed < steps.length; placed++) {
      const step = steps[placed], anchor = step.tokens.findLast((one) => one.node)?.node;
      if (step.refused[0]?.judged && anchor) fresh.push([anchor, layer.appendChild(ghost(step))]);
    }
    if (!fresh.length) return;
    const frame = layer.getBoundingClientRect(), room = text.clientWidth - 24;
    const spots = fresh.map(([anchor, node]) => {
      const spot = (anchor.querySelector("i") ?? anchor).getClientRects()[0] ?? anchor.getBoundingClientRect();
      return [node, spot.left - frame.left, spot.bottom - frame.top, node.offsetWidth];
    });
    for (const [node, left, top, width] of spots) {
      const line = Math.round(top / 8), edge = edges.get(line) ?? 0;
      const at = Math.max(Math.min(left, room - width), edge);
      node.hidden = at + width > room + 8; // the line is full: the tooltip and the glass still tell of it
      node.style.transform = `translate(${at}px, ${top + 1}px)`;
      if (!node.hidden) edges.set(line, at + width + 4);
    }
  }

  return { clear, lay };
};
