// Draws when the node ends by itself, counts down, and keeps it.

const SOURCES = {
  execution: "Running cells",
  accelerator: "Use of the chips",
  human: "Your own acts",
  output: "Output",
  connection: "Open notebooks and clients",
  cpu: "CPU time"
};
const ENDS = {
  idle: "until this node ends, because it is idle",
  session: "until this node's session ends",
  deadline: "until this node's deadline"
};
const WISHES = [
  { text: "Keep 1 h", wish: { for_s: 3600 } },
  { text: "Keep 3 h", wish: { for_s: 3 * 3600 } },
  { text: "Until this cell ends", wish: { while_busy: true } },
  { text: "Cancel", wish: { off: true } }
];

function countdownText(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = number => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

function endWords(data) {
  if (data.ends_in_s !== null) {
    return ENDS[data.ends_why] ?? "until this node ends";
  }
  return data.has_rules ? "Nothing ends this node as things are" : "No rule that would end this node has been given";
}

function ruleWords({ idle_after_s: idle, session_s: session }) {
  const rules = [idle === null ? "" : `${spanText(idle)} idle`, session === null ? "" : `${spanText(session)} in all`];
  return rules.some(Boolean) ? `It ends after ${rules.filter(Boolean).join(", or ")}` : "It has no idle or session rule";
}

function keptWords({ keep }, passed) {
  const left = keep.for_s === null ? 0 : keep.for_s - passed;
  const words = [left > 0 ? `for ${spanText(left)}` : "", keep.while_busy ? "until what runs now has ended" : ""];
  return words.some(Boolean) ? `Kept ${words.filter(Boolean).join(", and ")}` : "";
}

function sourceWords({ state, age_s: age, detail }, passed) {
  const when = age === null ? "none yet" : `${spanText(age + passed)} ago`;
  const words = { active: "now", unknown: "unknown" }[state] ?? when;
  return detail ? `${words} (${detail})` : words;
}

// Sends wishes to the kernel, and says what became of the last one.
function wishes(model, clock, status) {
  let asked = null;
  let timer = 0;
  const send = wish => {
    asked = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
    clearTimeout(timer);
    if (!say(model, { say: "act", id: asked, at: clock.now, ...wish })) {
      put(status, "The kernel is gone. The TPU panel can keep the node.");
      return;
    }
    put(status, "");
    timer = setTimeout(
      () => put(status, "The kernel is busy and will hear of this when it can. The TPU panel keeps the node at once."),
      BUSY_MS
    );
  };
  const hear = () => {
    const found = (model.get("picture").heard ?? []).find(({ id }) => id === asked);
    if (found) {
      clearTimeout(timer);
      put(status, found.text);
    }
  };
  return { send, hear, close: () => clearTimeout(timer) };
}

function render(context) {
  const { model } = context;
  const time = element("span", { class: "tpu-Countdown", role: "timer", "aria-label": "Time left" });
  const [why, kept] = [element("span"), element("p")];
  const sources = element("dl", { class: "tpu-Sources" });
  const [rules, guard] = [element("p", { class: "tpu-Muted" }), element("p", { class: "tpu-Muted" })];
  const status = element("p", { role: "status", class: "tpu-Said" });
  const warning = element("p", { role: "status", class: "tpu-Warning" });
  const reminder = element("p", { class: "tpu-Warning" }); // its hours would be read out again and again
  const values = {};
  for (const [name, text] of Object.entries(SOURCES)) {
    values[name] = [element("dt", {}, text), element("dd")];
    sources.append(...values[name]);
  }

  const draw = (data, now) => {
    const passed = Math.max(0, now - data.at);
    time.hidden = data.ends_in_s === null;
    put(time, data.ends_in_s === null ? "" : countdownText(data.ends_in_s - passed));
    put(why, endWords(data));
    put(warning, data.is_warning ? "This node ends soon." : ""); // no number in it: it is read out once
    put(reminder, data.reminder);
    put(kept, keptWords(data, passed));
    for (const [name, [title, node]] of Object.entries(values)) {
      title.hidden = node.hidden = !data.sources[name]; // an older agent does not tell of all of them
      put(node, data.sources[name] ? sourceWords(data.sources[name], passed) : "");
    }
    put(rules, data.has_rules ? ruleWords(data.rules) : "");
    put(guard, `Guard: ${data.guard.state} (${data.guard.detail})`);
    buttons[2].hidden = data.sources.execution?.state !== "active" || data.keep.while_busy;
    buttons[3].hidden = !keptWords(data, passed);
  };
  const frame = openFrame(context, "Idle timer", draw);
  const asking = wishes(model, frame.clock, status);
  const buttons = WISHES.map(({ text, wish }) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => asking.send(wish));
    return button;
  });
  const end = element("p", { class: "tpu-End" }, time, " ", why);
  const keep = element("div", { class: "tpu-Buttons", role: "group", "aria-label": "Keep this node" }, ...buttons);
  frame.body.append(warning, reminder, end, rules, kept, keep, status, sources, guard);
  model.on("change:picture", asking.hear);
  frame.refresh();
  return () => {
    frame.close();
    asking.close();
    model.off("change:picture", asking.hear);
  };
}

export default { render };
