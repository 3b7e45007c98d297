// Draws cost, budgets, quota and grants as the user's own machine sent them: parts with rows, some with a bar.

function rowNode([name, text, share]) {
  // From 80 % on the bar has the colour of a warning.
  const made = bar(share !== null && share >= 0.8 ? "tpu-mod-warning" : "");
  fillBar(made, share);
  return element("li", {}, element("span", {}, name), element("span", { class: "tpu-Number" }, text), made.node);
}

function partNode({ title, lines, rows }) {
  const age = element("span", { class: "tpu-Age" });
  const head = element("div", { class: "tpu-Head" }, element("strong", {}, title), age);
  const list = element("ul", { "aria-label": title }, ...rows.map(rowNode));
  list.hidden = !rows.length;
  const node = element("div", { class: "tpu-Part" }, head, ...lines.map(line => element("p", {}, line)), list);
  return { node, age };
}

function render(context) {
  let [shown, parts] = ["", []];
  const draw = data => {
    // The parts change seldom: every second only their ages are written.
    if (shown !== JSON.stringify(data.parts)) {
      shown = JSON.stringify(data.parts);
      parts = data.parts.map(partNode);
      frame.body.replaceChildren(...parts.map(({ node }) => node));
    }
    parts.forEach(({ age }, index) => {
      const at = data.parts[index].as_of;
      put(age, at === null ? "" : translated("updated {duration} ago", { duration: spanText(Date.now() / 1000 - at) }));
    });
  };
  const frame = openFrame(context, translated("Quota and credit"), draw);
  frame.refresh();
  return frame.close;
}

export default { render };
