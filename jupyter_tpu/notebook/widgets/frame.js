// What the widgets share; Python puts it in front of the script of each. Everything shown is text, never HTML.

const PULSE_MS = 20000;
const STALE_S = 15;
const BUSY_MS = 3000;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Only what differs is written: a reader's place and a selection stay.
function put(node, text) {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

function mark(node, name, value) {
  if (value === null) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

function spanText(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) {
    return `${whole} s`;
  }
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : `${minutes} min`;
}

function clockText(at) {
  return new Date(at * 1000).toLocaleTimeString();
}

function bar(kind = "") {
  const fill = element("i");
  return { node: element("span", { class: `tpu-Bar ${kind}`, "aria-hidden": "true" }, fill), fill };
}

function fillBar({ node, fill }, share) {
  node.hidden = share === null;
  fill.style.transform = `scaleX(${Math.min(1, Math.max(0, share ?? 0))})`;
}

// The clock of the node: from the picture that came with the least delay, since the two clocks may differ.
class NodeClock {
  constructor() {
    this._aheadMs = null;
  }

  hear(at) {
    const ahead = Date.now() - at * 1000;
    this._aheadMs = this._aheadMs === null ? ahead : Math.min(this._aheadMs, ahead);
  }

  get now() {
    return (Date.now() - (this._aheadMs ?? 0)) / 1000;
  }
}

function say(model, word) {
  try {
    model.send(word);
    return true;
  } catch {
    return false; // the kernel is gone
  }
}

// Tells the kernel that this page shows the widget, at once and then every 20 s, and returns how to stop that. After a
// while unseen, what was missed is wanted too.
function tellWhenShown(model, node) {
  let isInView = false;
  let toldAt = -Infinity;
  const tell = () => {
    if (isInView && document.visibilityState === "visible") {
      say(model, { say: "shown", whole: performance.now() - toldAt > 2 * PULSE_MS });
      toldAt = performance.now();
    }
  };
  const observer = new IntersectionObserver(entries => {
    isInView = entries[entries.length - 1].isIntersecting;
    tell();
  });
  observer.observe(node);
  document.addEventListener("visibilitychange", tell);
  const timer = setInterval(tell, PULSE_MS);
  return () => {
    observer.disconnect();
    document.removeEventListener("visibilitychange", tell);
    clearInterval(timer);
  };
}

// The frame around a widget: its name, how old it is, what is the matter. `draw(data, now)` fills `body`; it is called
// with each picture, and with the last one every second.
function openFrame({ model, el }, name, draw) {
  const clock = new NodeClock();
  const [title, age] = [element("strong", {}, name), element("span", { class: "tpu-Age" })];
  const problem = element("p", { class: "tpu-Problem", role: "status" });
  const body = element("div", { class: "tpu-Body" });
  const root = element("div", { class: "tpu-Widget", role: "group", "aria-label": name });
  root.append(element("div", { class: "tpu-Head" }, title, age), problem, body);
  el.append(root);

  const refresh = () => {
    const { problem: text = "", data = null } = model.get("picture");
    put(problem, text);
    problem.hidden = !text;
    body.hidden = !data;
    put(age, data ? ageText(data.at, clock.now) : text ? "" : "Waiting for the first picture…");
    root.classList.toggle("tpu-mod-stale", Boolean(data?.at) && clock.now - data.at > STALE_S);
    if (data) {
      draw(data, clock.now);
    }
  };
  const hear = () => {
    const { data } = model.get("picture");
    if (data?.at) {
      clock.hear(data.at);
    }
    refresh();
  };
  const timer = setInterval(() => document.visibilityState === "visible" && refresh(), 1000);
  const stopTelling = tellWhenShown(model, root);
  model.on("change:picture", hear);
  return {
    body,
    clock,
    refresh,
    rename: text => put(title, text),
    close: () => {
      clearInterval(timer);
      stopTelling();
      model.off("change:picture", hear);
    }
  };
}

function ageText(at, now) {
  if (!at || now - at <= STALE_S) {
    return "";
  }
  return `as of ${clockText(at)}, ${spanText(now - at)} ago`;
}
