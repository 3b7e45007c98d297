// Draws auto-stop: the countdown, its reason, the activity on the node, and buttons that keep the node running.

const SOURCES = {
  execution: translated("Running cells"),
  accelerator: translated("Chip use"),
  human: translated("Your activity"),
  output: translated("Output"),
  connection: translated("Connected notebooks and clients"),
  cpu: translated("CPU time")
};
const ENDS = {
  idle: translated("until auto-stop: this node is idle"),
  session: translated("until auto-stop: maximum session length"),
  deadline: translated("until this node's deadline")
};
const GUARD = { armed: translated("on"), off: translated("off"), cannot: translated("can't stop the node") };
const REQUESTS = [
  { text: translated("Keep running 1 h"), request: { for_s: 3600 } },
  { text: translated("Keep running 3 h"), request: { for_s: 3 * 3600 } },
  { text: translated("Until this cell ends"), request: { while_busy: true } },
  { text: translated("Cancel"), request: { off: true } }
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
    return ENDS[data.ends_why] ?? translated("until this node stops");
  }
  if (!data.has_rules) {
    return translated("This node has received no auto-stop rules");
  }
  return data.rules.idle_after_s === null ? translated("Auto-stop is off") : inUseText(data);
}

function inUseText({ verdict, rules: { idle_after_s: idle, action } }) {
  const [use, duration] = [
    verdict === "unknown" ? translated("Activity unknown (treated as busy)") : translated("In use"),
    spanText(idle)
  ];
  return action === "delete"
    ? translated("{use} · auto-delete {duration} after it becomes idle", { use, duration })
    : translated("{use} · auto-stop {duration} after it becomes idle", { use, duration });
}

function ruleText({ idle_after_s: idle, session_s: session }) {
  const values = { idle: spanText(idle ?? 0), session: spanText(session ?? 0) };
  if (session === null) {
    return idle === null
      ? translated("No idle timeout, no maximum session length")
      : translated("Idle timeout {idle}", values);
  }
  return idle === null
    ? translated("Maximum session length {session}", values)
    : translated("Idle timeout {idle} · maximum session length {session}", values);
}

function keptText({ keep }, passed) {
  const left = keep.for_s === null ? 0 : keep.for_s - passed;
  const duration = spanText(left);
  if (left <= 0) {
    return keep.while_busy ? translated("Keeps running until the current cell ends") : "";
  }
  return keep.while_busy
    ? translated("Keeps running for {duration}, or until the current cell ends if that is later", { duration })
    : translated("Keeps running for {duration}", { duration });
}

function sourceText({ state, age_s: age, detail }, passed) {
  const ago = translated("{duration} ago", { duration: spanText((age ?? 0) + passed) });
  const when = age === null ? translated("none yet") : ago;
  const text = { active: translated("now"), unknown: translated("unknown") }[state] ?? when;
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
      put(status, translated("The kernel is gone. Use the TPU panel to keep the node running."));
      return;
    }
    put(status, "");
    timer = setTimeout(
      () => put(status, translated("The kernel is busy and has not responded yet. To act now, use the TPU panel.")),
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
  const time = element("span", { class: "tpu-Countdown", role: "timer", "aria-label": translated("Time left") });
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
    frame.rename([translated("Idle timer"), data.node].filter(Boolean).join(" · "));
    time.hidden = data.ends_in_s === null;
    put(time, data.ends_in_s === null ? "" : countdownText(data.ends_in_s - passed));
    put(why, endText(data));
    put(warning, data.is_warning ? translated("Auto-stop for this node is due soon.") : ""); // without a number, so that it is read out only once
    put(reminder, data.reminder);
    put(kept, keptText(data, passed));
    for (const [name, [title, node]] of Object.entries(values)) {
      title.hidden = node.hidden = !data.sources[name]; // agents of older versions do not send all of them
      put(node, data.sources[name] ? sourceText(data.sources[name], passed) : "");
    }
    put(rules, data.has_rules ? ruleText(data.rules) : "");
    put(guard, translated("Guard: {state} ({detail})", { ...data.guard, state: GUARD[data.guard.state] ?? data.guard.state }));
    buttons[UNTIL_CELL_ENDS].hidden = data.sources.execution?.state !== "active" || data.keep.while_busy;
    buttons[CANCEL].hidden = !keptText(data, passed);
  };
  const frame = openFrame(context, translated("Idle timer"), draw);
  const keeping = keepRequests(model, frame.clock, status);
  const buttons = REQUESTS.map(({ text, request }) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => keeping.request(request));
    return button;
  });
  const end = element("p", { class: "tpu-End" }, time, " ", why);
  const label = translated("Keep this node running");
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
