/* A chat: the turns before this one, kept in this page alone and sent along with the next question. */
sd.parts.chat = (element, { props, watch }) => {
  const find = (name) => element.querySelector(`[data-chat="${name}"]`);
  const list = element.querySelector(".sd-turns");
  let chat = { on: false, turns: [] }, shown = 0;

  function line(who, text, className = "") {
    const node = sd.make("p", className);
    node.append(sd.make("b", "", sd.say(who)), sd.make("span", "", text));
    return node;
  }

  /* The last answer stands in the panes, so the list only points there. */
  function draw() {
    element.querySelector(".sd-chat").hidden = !chat.on;
    list.hidden = !chat.turns.length;
    list.replaceChildren(...chat.turns.map((turn, index) => {
      const item = sd.make("li");
      const last = index === chat.turns.length - 1;
      item.append(line("chat.you", turn.asked),
        line("chat.model", last ? sd.say("chat.below") : turn.answered, last ? "sd-answered sd-quiet" : "sd-answered"));
      return item;
    }));
    list.scrollTop = list.scrollHeight;
    cut();
    find("new").hidden = !chat.turns.length;
    find("note").textContent = chat.turns.length
      ? sd.say("chat.read", { turn: chat.turns.length, n: chat.read, reused: chat.reused })
      : sd.say("chat.empty");
  }

  const cut = () => list.classList.toggle("sd-cut", list.scrollTop > 2);
  list.addEventListener("scroll", cut);

  function keep(next) {
    chat = next;
    shown = chat.turns.length;
    props.value = JSON.stringify(chat);
    draw();
  }

  /* A question that has been answered leaves the box, unless another one stands there already. */
  function clear() {
    const box = document.querySelector("#sd-prompt textarea");
    if (!box || box.value !== chat.turns.at(-1).asked) return;
    box.value = "";
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function take() {
    if (!props.value) return;
    chat = JSON.parse(props.value);
    draw();
    if (chat.turns.length > shown) clear();
    shown = chat.turns.length;
  }

  find("new").addEventListener("click", () => {
    keep({ on: true, turns: [] });
    document.querySelector("#sd-prompt textarea")?.focus();
  });
  sd.on("board", (board) => { find("new").disabled = Boolean(board.running); }); // its turn is still to come
  sd.on("chat", (on) => keep({ on, turns: [] }));
  sd.on("language", draw);
  watch("value", take);
  take();
  draw();
};
