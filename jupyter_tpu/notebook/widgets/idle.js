// Draws auto-stop: the countdown, its reason, the activity on the node, and buttons that keep the node running.

const SOURCES = {
  execution: "Running cells",
  accelerator: "Chip use",
  human: "Your activity",
  output: "Output",
  connection: "Open notebooks and clients",
  cpu: "CPU time"
};
const ENDS = {
  idle: "until auto-stop: this node is idle",
  session: "until auto-stop: maximum session length",
  deadline: "until this node's deadline"
};
const REQUESTS = [
  { text: "Keep running 1 h", request: { for_s: 3600 } },
  { text: "Keep running 3 h", request: { for_s: 3 * 3600 } },
  { text: "Until this cell ends", request: { while_busy: true } },
  { text: "Cancel", request: { off: true } }
];
// The places of the two buttons that are not always shown.
const [UNTIL_CELL_ENDS, CANCEL] = [2, 3];

function countdownText(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = number => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

function endText(data) {
  if (data.ends_in_s !== null) {
    return ENDS[data.ends_why] ?? "until this node ends";
  }
  if (!data.has_rules) {
    return "This node has received no auto-stop rules";
  }
  return data.rules.idle_after_s === null ? "Auto-stop is off" : inUseText(data);
}

function inUseText({ verdict, rules: { idle_after_s: idle, action } }) {
  const use = verdict === "unknown" ? "Activity unknown (treated as busy)" : "In use";
  return `${use} · ${action === "delete" ? "auto-delete" : "auto-stop"} ${spanText(idle)} after it becomes idle`;
}

function ruleText({ idle_after_s: idle, session_s: session }) {
  const rules = [
    idle === null ? "" : `Idle timeout ${spanText(idle)}`,
    session === null ? "" : `${idle === null ? "Maximum" : "maximum"} session length ${spanText(session)}`
  ];
  return rules.some(Boolean) ? rules.filter(Boolean).join(" · ") : "No idle timeout, no maximum session length";
}

function keptText({ keep }, passed) {
  const left = keep.for_s === null ? 0 : keep.for_s - passed;
  const parts = [left > 0 ? `for ${spanText(left)}` : "", keep.while_busy ? "until the current cell ends" : ""];
  return parts.some(Boolean) ? `Kept running ${parts.filter(Boolean).join(" and ")}` : "";
}

function sourceText({ state, age_s: age, detail }, passed) {
  const when = age === null ? "none yet" : `${spanText(age + passed)} ago`;
  const text = { active: "now", unknown: "unknown" }[state] ?? when;
  return detail ? `${text} (${detail})` : text;
}

// Sends requests to the kernel, and shows the result of the last one.
function keepRequests(model, clock, status) {
  let lastId = null;
  let timer = 0;
  const request = content => {
    lastId = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
    clearTimeout(timer);
    // The time of the click goes along: a busy kernel may read the request much later.
    if (!send(model, { say: "act", id: lastId, at: clock.now, ...content })) {
      put(status, "The kernel is gone. Use the TPU panel to keep the node running.");
      return;
    }
    put(status, "");
    timer = setTimeout(
      () => put(status, "The kernel is busy and has not answered yet. The TPU panel works right away."),
      BUSY_MS
    );
  };
  const update = () => {
    const found = (model.get("picture").heard ?? []).find(({ id }) => id === lastId);
    if (found) {
      clearTimeout(timer);
      put(status, found.text);
    }
  };
  return { request, update, close: () => clearTimeout(timer) };
}

function render(context) {
  const { model } = context;
  const time = element("span", { class: "tpu-Countdown", role: "timer", "aria-label": "Time left" });
  const [why, kept] = [element("span"), element("p")];
  const sources = element("dl", { class: "tpu-Sources" });
  const [rules, guard] = [element("p", { class: "tpu-Muted" }), element("p", { class: "tpu-Muted" })];
  const status = element("p", { role: "status", class: "tpu-Said" });
  const warning = element("p", { role: "status", class: "tpu-Warning" });
  const reminder = element("p", { class: "tpu-Warning" }); // no status: screen readers would repeat it every hour
  const values = {};
  for (const [name, text] of Object.entries(SOURCES)) {
    values[name] = [element("dt", {}, text), element("dd")];
    sources.append(...values[name]);
  }

  const draw = (data, now) => {
    const passed = Math.max(0, now - data.at);
    frame.rename(["Idle timer", data.node].filter(Boolean).join(" · "));
    time.hidden = data.ends_in_s === null;
    put(time, data.ends_in_s === null ? "" : countdownText(data.ends_in_s - passed));
    put(why, endText(data));
    put(warning, data.is_warning ? "This node ends soon." : ""); // without a number, so that it is read out only once
    put(reminder, data.reminder);
    put(kept, keptText(data, passed));
    for (const [name, [title, node]] of Object.entries(values)) {
      title.hidden = node.hidden = !data.sources[name]; // agents of older versions do not send all of them
      put(node, data.sources[name] ? sourceText(data.sources[name], passed) : "");
    }
    put(rules, data.has_rules ? ruleText(data.rules) : "");
    put(guard, `Guard: ${data.guard.state} (${data.guard.detail})`);
    buttons[UNTIL_CELL_ENDS].hidden = data.sources.execution?.state !== "active" || data.keep.while_busy;
    buttons[CANCEL].hidden = !keptText(data, passed);
  };
  const frame = openFrame(context, "Idle timer", draw);
  const keeping = keepRequests(model, frame.clock, status);
  const buttons = REQUESTS.map(({ text, request }) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => keeping.request(request));
    return button;
  });
  const end = element("p", { class: "tpu-End" }, time, " ", why);
  const label = "Keep this node running";
  const keep = element("div", { class: "tpu-Buttons", role: "group", "aria-label": label }, ...buttons);
  frame.body.append(warning, reminder, end, rules, kept, keep, status, sources, guard);
  model.on("change:picture", keeping.update);
  frame.refresh();
  return () => {
    frame.close();
    keeping.close();
    model.off("change:picture", keeping.update);
  };
}

export default { render };
