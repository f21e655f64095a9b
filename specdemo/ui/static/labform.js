/* The form of an experiment: its fields as the server described them, what was typed by field, and a result's options
   put back into it. A choice among several without a tick is left to the experiment. Prompts of one's own are read by
   the server, which names them by a key. */
sd.labForm = (form, changed, bring) => {
  const ABOUT_PROMPTS = ["ask", "prompts", "kinds", "per_kind", "seed"], MOST_CHECKS = 24;
  const sets = {}; // field -> the prompts that were brought for it
  let fields = [];

  const spoken = (name, value) => {
    const plain = value.replaceAll("-", " ");
    return { kinds: sd.say(`lab.k.${value}`), rule: sd.say(`rule.${plain}`), rules: sd.say(`rule.${plain}`), policy: sd.say(`draft_length.${plain}`), policies: sd.say(`draft_length.${plain}`) }[name] || value;
  };

  function choice(field, id) {
    const select = sd.make("select");
    for (const value of field.choices) select.append(new Option(spoken(field.name, value), value));
    select.id = id;
    select.value = field.value;
    return select;
  }

  function checks(field, id) {
    const group = sd.make("span", "sd-lab-checks"), chosen = field.value.split(",");
    group.setAttribute("role", "group");
    group.setAttribute("aria-labelledby", `${id}-name`);
    for (const value of field.choices) {
      const label = sd.make("label"), box = sd.make("input");
      box.type = "checkbox";
      box.value = value;
      box.checked = chosen.includes(value);
      label.append(box, sd.make("span", "", spoken(field.name, value)));
      group.append(label);
    }
    return group;
  }

  function long(field, id) {
    const area = sd.make("textarea");
    return Object.assign(area, { id, rows: 2, value: field.value, maxLength: field.most, placeholder: sd.say(`lab.o.${field.name}.empty`) });
  }

  function typed(field, id) {
    const input = sd.make("input");
    input.id = id;
    input.type = field.as === "number" ? "number" : "text";
    input.value = field.value;
    input.placeholder = field.usual || sd.say(`lab.o.${field.name}.empty`);
    if (field.as !== "number") return Object.assign(input, { spellcheck: false, autocomplete: "off", maxLength: 300 });
    input.step = field.whole ? 1 : "any";
    input.inputMode = field.whole ? "numeric" : "decimal";
    if (field.low !== undefined) [input.min, input.max] = [field.low, field.high];
    return input;
  }

  /* A file to choose, or what was read of it. */
  function prompts(field, id) {
    const group = sd.make("span", "sd-lab-brought"), label = sd.make("label", "sd-link sd-file"), input = sd.make("input", "sd-unseen"), has = sets[field.name];
    input.type = "file";
    input.id = id;
    input.accept = ".jsonl,.json";
    input.addEventListener("input", (event) => event.stopPropagation());
    input.addEventListener("change", () => { if (input.files[0]) bring(field.name, input.files[0]); input.value = ""; });
    label.append(input, sd.make("span", "", sd.say("lab.o.prompts.choose")));
    group.setAttribute("role", "group");
    group.setAttribute("aria-labelledby", `${id}-name`);
    group.append(sd.make("span", "", has ? sd.say("lab.o.prompts.has", { name: has.name, n: has.n }) : sd.say(`lab.o.${field.name}.empty`)), label);
    if (!has) return group;
    const remove = sd.make("button", "sd-link", sd.say("lab.o.prompts.remove"));
    remove.addEventListener("click", () => put(field.name, null));
    group.append(remove);
    return group;
  }

  /* With prompts of one's own the kinds are theirs, and all of them are taken, however few are usual. */
  function begin({ name, begin: value, usual }) {
    if (!sets.prompts || (name !== "kinds" && name !== "per_kind")) return value;
    return name === "per_kind" && usual ? String(sets.prompts.n) : "";
  }

  function put(name, set) {
    const typed = read();
    if (set) sets[name] = set; else delete sets[name];
    if (name === "prompts") for (const field of fields.filter((one) => ["kinds", "per_kind"].includes(one.name))) typed[field.name] = begin(field);
    draw(fields.map((field) => ({ ...field, value: field.as === "prompts" ? undefined : typed[field.name] })));
    document.getElementById(`sd-lab-${name}`)?.focus();
    changed();
  }

  /* kinds: of this project's prompts, or of those that were brought. */
  function now(field) {
    const kinds = field.name === "kinds" && sets.prompts?.kinds;
    if (!kinds) return field;
    return kinds.length > MOST_CHECKS ? { ...field, as: "text" } : { ...field, choices: kinds };
  }

  function control(field) {
    const id = `sd-lab-${field.name}`, checked = field.as === "checks" || field.as === "prompts";
    const place = sd.make("div", checked || field.as === "long" ? "sd-lab-field sd-lab-across" : "sd-lab-field"), name = sd.make(checked ? "span" : "label", "sd-lab-name", sd.say(`lab.o.${field.name}`));
    const about = sd.make("small", "", sd.say(`lab.o.${field.name}.about`));
    place.dataset.field = field.name;
    name.id = `${id}-name`;
    about.id = `${id}-about`;
    if (!checked) name.htmlFor = id;
    const made = { choice, checks, prompts, long }[field.as] ?? typed, node = made(field, id);
    node.setAttribute("aria-describedby", about.id);
    place.append(name, node, about);
    return place;
  }

  function read() {
    const asked = {};
    for (const field of fields) {
      const place = form.querySelector(`[data-field="${field.name}"]`);
      if (field.as === "prompts") asked[field.name] = sets[field.name]?.key ?? "";
      else if (place.querySelector(".sd-lab-checks")) asked[field.name] = [...place.querySelectorAll(":checked")].map((box) => box.value).join(",");
      else asked[field.name] = place.querySelector("input, select, textarea").value;
    }
    return asked;
  }

  /* wanted: fields with their values; of prompts the set, "" for none, a key or nothing for what there is. */
  function draw(wanted) {
    fields = wanted;
    for (const { name, as, value } of fields) {
      if (as === "prompts" && value?.key) sets[name] = value;
      if (as === "prompts" && value === "") delete sets[name];
    }
    const about = (name) => name === "learn_from" || ABOUT_PROMPTS.includes(name), drawn = fields.map(now);
    const groups = [["lab.measured", drawn.filter((one) => !about(one.name))], ["lab.prompts", [...ABOUT_PROMPTS, "learn_from"].map((name) => drawn.find((one) => one.name === name)).filter(Boolean)]];
    form.replaceChildren(...groups.map(([title, of]) => {
      const set = sd.make("fieldset");
      set.append(sd.make("legend", "", sd.say(title)), ...of.map(control));
      return set;
    }));
  }

  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  return { draw, read, put, begin };
};
