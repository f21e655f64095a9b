/* The form of an experiment: its fields as the server described them, what was typed by field, and a result's options
   put back into it. A choice among several without a tick is left to the experiment. */
sd.labForm = (form, changed) => {
  const ABOUT_PROMPTS = ["kinds", "per_kind", "seed", "prompts"];
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

  function control(field) {
    const id = `sd-lab-${field.name}`, checked = field.as === "checks";
    const place = sd.make("div", checked ? "sd-lab-field sd-lab-across" : "sd-lab-field"), name = sd.make(checked ? "span" : "label", "sd-lab-name", sd.say(`lab.o.${field.name}`));
    const about = sd.make("small", "", sd.say(`lab.o.${field.name}.about`));
    place.dataset.field = field.name;
    name.id = `${id}-name`;
    about.id = `${id}-about`;
    if (!checked) name.htmlFor = id;
    const made = { choice, checks }[field.as] ?? typed, node = made(field, id);
    node.setAttribute("aria-describedby", about.id);
    place.append(name, node, about);
    return place;
  }

  function read() {
    const asked = {};
    for (const field of fields) {
      const place = form.querySelector(`[data-field="${field.name}"]`);
      asked[field.name] = field.as === "checks"
        ? [...place.querySelectorAll(":checked")].map((box) => box.value).join(",")
        : place.querySelector("input, select").value;
    }
    return asked;
  }

  function draw(wanted) {
    fields = wanted;
    const groups = [["lab.measured", fields.filter((one) => !ABOUT_PROMPTS.includes(one.name))], ["lab.prompts", ABOUT_PROMPTS.map((name) => fields.find((one) => one.name === name)).filter(Boolean)]];
    form.replaceChildren(...groups.map(([title, of]) => {
      const set = sd.make("fieldset");
      set.append(sd.make("legend", "", sd.say(title)), ...of.map(control));
      return set;
    }));
  }

  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  return { draw, read };
};
