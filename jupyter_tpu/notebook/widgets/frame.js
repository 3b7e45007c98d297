// Shared by the widgets: Python prepends it to the script of each. Everything is shown as text, never as HTML, because
// names come from notebooks and processes.

// How often a page reports that it shows the widget. The kernel waits for 75 s (SILENCE_S in feed.py), so that two of
// these may be lost.
const PULSE_MS = 20000;
// Data older than this is marked as out of date: the slowest of the live widgets updates every 5 s.
const STALE_S = 15;
// When a click has no answer for so long, the widget says that the kernel is busy.
const BUSY_MS = 3000;

// Marks an English text, which the kernel replaces with one in the user's language, and fills in its values.
function translated(text, values = {}) {
  return text.replace(/\{(\w+)\}/g, (field, name) => values[name] ?? field);
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Writes only what differs, so that the place of a screen reader and a selection stay.
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

// The node's clock, which may differ from this page's: estimated from the snapshot that arrived with the least delay.
class NodeClock {
  constructor() {
    this._aheadMs = null;
  }

  learn(at) {
    const ahead = Date.now() - at * 1000;
    this._aheadMs = this._aheadMs === null ? ahead : Math.min(this._aheadMs, ahead);
  }

  get now() {
    return (Date.now() - (this._aheadMs ?? 0)) / 1000;
  }
}

function send(model, message) {
  try {
    model.send(message);
    return true;
  } catch {
    return false; // the kernel is gone
  }
}

// Reports to the kernel that this page shows the widget, at once and then every 20 s; returns a function that stops it.
// After a while out of sight it asks for the history too, which the page has missed.
function reportVisibility(model, node) {
  let isInView = false;
  let sentAt = -Infinity;
  const report = () => {
    if (isInView && document.visibilityState === "visible") {
      send(model, { say: "shown", whole: performance.now() - sentAt > 2 * PULSE_MS });
      sentAt = performance.now();
    }
  };
  const observer = new IntersectionObserver(entries => {
    isInView = entries[entries.length - 1].isIntersecting;
    report();
  });
  observer.observe(node);
  document.addEventListener("visibilitychange", report);
  const timer = setInterval(report, PULSE_MS);
  return () => {
    observer.disconnect();
    document.removeEventListener("visibilitychange", report);
    clearInterval(timer);
  };
}

// The frame around a widget: its name, the age of its data, and any problem. `draw(data, now)` fills `body`; it is
// called with each snapshot, and with the last one every second, so that ages and countdowns go on.
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
    put(age, data ? ageText(data.at, clock.now) : text ? "" : translated("Waiting for data…"));
    root.classList.toggle("tpu-mod-stale", Boolean(data?.at) && clock.now - data.at > STALE_S);
    if (data) {
      draw(data, clock.now);
    }
  };
  const update = () => {
    const { data } = model.get("picture");
    if (data?.at) {
      clock.learn(data.at);
    }
    refresh();
  };
  const timer = setInterval(() => document.visibilityState === "visible" && refresh(), 1000);
  const stopReporting = reportVisibility(model, root);
  model.on("change:picture", update);
  return {
    body,
    clock,
    refresh,
    rename: text => put(title, text),
    close: () => {
      clearInterval(timer);
      stopReporting();
      model.off("change:picture", update);
    }
  };
}

function ageText(at, now) {
  if (!at || now - at <= STALE_S) {
    return "";
  }
  return translated("as of {time}, {duration} ago", { time: clockText(at), duration: spanText(now - at) });
}
