// Draws what a laptop has told the node of money, quota and grants: parts with rows, each with a bar where it is known.

function rowNode([name, text, share]) {
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
  let [told, parts] = ["", []];
  const draw = data => {
    if (told !== JSON.stringify(data.parts)) {
      told = JSON.stringify(data.parts);
      parts = data.parts.map(partNode);
      frame.body.replaceChildren(...parts.map(({ node }) => node));
    }
    parts.forEach(({ age }, index) => {
      const at = data.parts[index].as_of;
      put(age, at === null ? "" : `as of ${spanText(Date.now() / 1000 - at)} ago`);
    });
  };
  const frame = openFrame(context, "Quota and credit", draw);
  frame.refresh();
  return frame.close;
}

export default { render };
