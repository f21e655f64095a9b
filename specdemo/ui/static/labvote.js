/* The blind vote over a result's pairs of answers. Whose text stands left is the server's alone until the reveal. */
sd.labVote = (place, trigger) => {
  const find = (name) => place.querySelector(`[data-vote="${name}"]`);
  let counts = null, mine = null, sheet = null, revealed = null; // mine: the result that the pair or the reveal is of

  const act = (what) => trigger("vote", what);
  const side = (whose) => sd.say(`lab.vote.${whose}`);

  function about() {
    const { of, differ, open } = counts;
    if (!differ) return sd.say("lab.vote.alike", { of });
    const said = [sd.say("lab.vote.about", { differ, of })];
    if (differ < of) said.push(sd.say("lab.vote.left.out", { n: of - differ }));
    if (open < differ) said.push(open ? sd.say("lab.vote.open", { open }) : sd.say("lab.vote.all"));
    return said.join(" ");
  }

  function pair() {
    find("sheet").hidden = !sheet;
    if (!sheet) return;
    const { kind, prompt, repeat, question, left, right } = sheet.sheet;
    find("which").textContent = sd.say("lab.vote.pair", { at: sheet.at + 1, of: sheet.of, kind: sd.labCharts.word(kind), prompt, repeat });
    find("question").textContent = question;
    find("question").parentElement.hidden = !question;
    find("left").textContent = left;
    find("right").textContent = right;
  }

  function tally() {
    const votes = counts.tally;
    find("told").hidden = Boolean(sheet) || !votes;
    if (!votes) return;
    const verdict = votes.n < votes.fewest ? "few" : Number(votes.p) < 0.05 ? "uneven" : "chance";
    sd.rich(find("tally"), `${sd.say("lab.vote.tally", votes)} ${sd.say(`lab.vote.${verdict}`, votes)}`);
    find("revealed").hidden = !revealed?.length;
    find("revealed").querySelector("tbody").replaceChildren(...(revealed ?? []).map((one) => {
      const row = sd.make("tr"), right = one.left === "plain" ? "drafted" : "plain";
      const cells = [`${sd.labCharts.word(one.kind)} ${one.prompt}${one.repeat > 1 ? ` · ${one.repeat}` : ""}`, side(one.left), side(right), side(one.choice)];
      row.append(sd.heading(cells[0], "", "row"), ...cells.slice(1).map((text) => sd.make("td", "", text)));
      return row;
    }));
  }

  function draw() {
    place.hidden = !counts;
    if (!counts) return;
    find("about").textContent = about();
    find("about").hidden = Boolean(sheet);
    find("begin").hidden = Boolean(sheet) || !counts.open;
    find("begin").textContent = sd.say(counts.open < counts.differ ? "lab.vote.go.on" : "lab.vote.begin");
    pair();
    tally();
  }

  /* result: what is shown now. While rows come there is nothing to vote on. */
  function show(result, running) {
    if (mine !== result || running) sheet = revealed = null;
    mine = result;
    counts = running ? null : result?.vote ?? null;
    draw();
  }

  /* What the server answered. Focus goes to what is new, so that it is read out and the buttons come next. */
  function take(answer, result) {
    sheet = answer.sheet ? answer : null;
    revealed = answer.revealed ?? null;
    if (result) [mine, counts] = [result, result.vote];
    draw();
    const target = sheet ? find("which") : revealed?.length ? find("tally") : find("begin").hidden ? find("about") : find("begin");
    target.focus();
  }

  find("begin").addEventListener("click", () => act({ do: "begin" }));
  find("end").addEventListener("click", () => act({ do: "reveal" }));
  for (const button of place.querySelectorAll("[data-choice]")) button.addEventListener("click", () => sheet && act({ do: "cast", at: sheet.at, choice: button.dataset.choice }));
  return { show, take };
};
