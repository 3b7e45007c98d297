// Draws the chips and cores of a worker: a table with bars, and the last 10 minutes as a line.

// The history that the kernel sends (_WITH_HISTORY in monitor.py).
const HISTORY_S = 600;
const GIB = 2 ** 30;
const STATES = { idle: translated("Idle"), unknown: translated("Unknown") };
const SVG = "http://www.w3.org/2000/svg";

// Duty cycle and used HBM of each chip over time, in percent: the agent's history, and the snapshots since.
class History {
  constructor() {
    this._points = new Map();
    this._at = 0;
  }

  add(data) {
    if (data.history) {
      this._begin(data.history);
    }
    if (data.at > this._at) {
      this._at = data.at;
      data.chips.forEach(([chip, duty]) =>
        this._append(chip, { at: data.at, duty, hbm: memoryShare(data, chip) })
      );
    }
  }

  // The line of duty or hbm as an SVG path in a box of 100 × 20, with a gap where there is no sample.
  path(chip, name) {
    let pen = "M";
    return this._of(chip)
      .map(({ at, [name]: percent }) => {
        const [x, y] = [100 * (1 - (this._at - at) / HISTORY_S), 19 - (18 * percent) / 100];
        const step = percent === null ? "" : `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
        pen = percent === null ? "M" : "L";
        return step;
      })
      .join("");
  }

  label(chip) {
    const known = this._of(chip).flatMap(({ duty }) => (duty === null ? [] : [duty]));
    if (!known.length) {
      return translated("No samples in the last 10 minutes");
    }
    const [least, most] = [Math.min(...known), Math.max(...known)].map(percent => percent.toFixed(0));
    return translated("Duty cycle from {least} to {most} % in the last 10 minutes", { least, most });
  }

  _begin({ at, duty, hbm }) {
    this._points.clear();
    this._at = 0;
    for (const chip of Object.keys(duty)) {
      at.forEach((moment, index) =>
        this._append(Number(chip), { at: moment, duty: duty[chip][index], hbm: hbm[chip]?.[index] ?? null })
      );
    }
  }

  _of(chip) {
    return (this._points.get(chip) ?? []).filter(({ at }) => at >= this._at - HISTORY_S);
  }

  // A snapshot may come twice, and after the history that contains it: only newer points count.
  _append(chip, point) {
    const points = this._of(chip);
    if (!points.length || point.at > points[points.length - 1].at) {
      this._points.set(chip, [...points, point]);
    }
  }
}

// A value of a core, by the name of its column; null where it is unknown.
function valueOf({ columns }, core, name) {
  return core[2 + columns.findIndex(column => column[0] === name)] ?? null;
}

function memoryOf(data, core) {
  return ["hbm_used_bytes", "hbm_total_bytes"].map(name => valueOf(data, core, name));
}

function memoryShare(data, chip) {
  const own = data.cores.filter(core => core[1] === chip).map(core => memoryOf(data, core));
  const [used, total] = [own.map(([bytes]) => bytes), own.reduce((sum, [, bytes]) => sum + (bytes ?? 0), 0)];
  return used.includes(null) || !total ? null : (100 * used.reduce((sum, bytes) => sum + bytes, 0)) / total;
}

// The columns to draw: HBM, and all others that have a value.
function drawnColumns(data) {
  const isKnown = name => data.cores.some(core => valueOf(data, core, name) !== null);
  return data.columns.filter(([name, , kind]) => kind !== "capacity" && (name === "hbm_used_bytes" || isKnown(name)));
}

function percentText(percent) {
  return percent === null ? translated("unknown") : `${percent.toFixed(1)} %`;
}

function bytesText(used, total) {
  if (used === null) {
    return translated("unknown");
  }
  const text = (used / GIB).toFixed(2);
  return total === null
    ? `${text} GiB`
    : translated("{used} of {total} GiB", { used: text, total: (total / GIB).toFixed(2) });
}

function hostText(host) {
  const memory = bytesText(host.memory_used_bytes, host.memory_total_bytes);
  const disk = bytesText(host.disk_used_bytes, host.disk_total_bytes);
  const values = { percent: percentText(host.cpu_percent), cpus: host.cpus, memory, disk };
  return host.cpus === null
    ? translated("CPU {percent} · memory {memory} · disk {disk}", values)
    : translated("CPU {percent} of {cpus} CPUs · memory {memory} · disk {disk}", values);
}

// Values that are not a share of anything, by kind.
const TEXTS = {
  bytes: value => bytesText(value, null),
  seconds: value => `${value.toFixed(1)} s`,
  count: String
};

function gauge(kind) {
  const [made, text] = [bar(kind), element("span", { class: "tpu-Number" })];
  return {
    cell: element("td", {}, element("div", { class: "tpu-Gauge" }, made.node, text)),
    show: (share, label) => {
      fillBar(made, share);
      put(text, label);
    }
  };
}

function percentGauge() {
  const { cell, show } = gauge("");
  return { cell, show: percent => show(percent === null ? null : percent / 100, percentText(percent)) };
}

// The cell of a column of a core; `show` takes the data and the core.
function metricCell([name, , kind]) {
  if (name === "hbm_used_bytes") {
    const { cell, show } = gauge("tpu-mod-memory");
    const draw = (used, total) => show(used === null || !total ? null : used / total, bytesText(used, total));
    return { cell, show: (data, core) => draw(...memoryOf(data, core)) };
  }
  if (kind === "percent") {
    const { cell, show } = percentGauge();
    return { cell, show: (data, core) => show(valueOf(data, core, name)) };
  }
  const cell = element("td", { class: "tpu-Fact" });
  const text = value => (value === null ? translated("unknown") : TEXTS[kind](value));
  return { cell, show: (data, core) => put(cell, text(valueOf(data, core, name))) };
}

function sparkline() {
  const line = document.createElementNS(SVG, "svg");
  const names = ["hbm", "duty"];
  const paths = names.map(name => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", `tpu-mod-${name}`);
    return path;
  });
  for (const [name, value] of Object.entries({ class: "tpu-Line", viewBox: "0 0 100 20", role: "img" })) {
    line.setAttribute(name, value);
  }
  line.setAttribute("preserveAspectRatio", "none");
  line.append(...paths);
  return {
    cell: element("td", { class: "tpu-Wide" }, line),
    show: (history, chip) => {
      paths.forEach((path, index) => mark(path, "d", history.path(chip, names[index])));
      mark(line, "aria-label", history.label(chip));
    }
  };
}

// A table for these chips and cores; it is rebuilt only when their number or kind changes, so that bars move smoothly.
function table(data) {
  const cores = data.cores.length ? data.cores : data.chips.map(([chip]) => [null, chip]);
  const hasCores = cores.length > data.chips.length;
  const drawn = drawnColumns(data);
  const duty = data.duty_per === "chip" && hasCores ? translated("Duty cycle of the chip") : translated("Duty cycle");
  const columns = [translated("Chip"), ...(hasCores ? [translated("Core")] : []), duty, ...drawn.map(([, title]) => title)];
  const heads = columns.map(text => element("th", { scope: "col" }, text));
  heads.push(element("th", { scope: "col", class: "tpu-Wide" }, translated("Last 10 min")));
  const rows = cores.map(([core, chip], index) => {
    // On v2 and v3 a chip has two cores: what belongs to the chip is in the first row of both.
    const isFirst = !cores.slice(0, index).some(other => other[1] === chip);
    const rowspan = String(cores.filter(other => other[1] === chip).length);
    const made = { core, chip, duty: null, line: null, metrics: drawn.map(metricCell) };
    const cells = [];
    if (isFirst) {
      made.duty = percentGauge();
      made.line = sparkline();
      made.duty.cell.setAttribute("rowspan", rowspan);
      made.line.cell.setAttribute("rowspan", rowspan);
      cells.push(element("th", { scope: "rowgroup", rowspan }, String(chip)));
    }
    if (hasCores) {
      cells.push(element("th", { scope: "row" }, String(core)));
    }
    if (isFirst) {
      cells.push(made.duty.cell);
    }
    cells.push(...made.metrics.map(({ cell }) => cell));
    if (isFirst) {
      cells.push(made.line.cell);
    }
    return { ...made, node: element("tr", {}, ...cells) };
  });
  const head = element("thead", {}, element("tr", {}, ...heads));
  const body = element("tbody", {}, ...rows.map(({ node }) => node));
  const caption = element("caption", {}, translated("Load of the chips of this worker"));
  return { node: element("table", {}, caption, head, body), rows };
}

function shapeOf(data) {
  const [chips, cores] = [data.chips.map(([chip]) => chip), data.cores.map(core => core.slice(0, 2))];
  return JSON.stringify([chips, cores, data.duty_per, drawnColumns(data)]);
}

function fillRow(row, data, history) {
  if (row.duty) {
    row.duty.show(data.chips.find(([chip]) => chip === row.chip)?.[1] ?? null);
    row.line.show(history, row.chip);
  }
  const core = data.cores.find(each => each[0] === row.core) ?? [];
  row.metrics.forEach(metric => metric.show(data, core));
}

function render(context) {
  const history = new History();
  const [state, chips] = [element("p"), element("div", { class: "tpu-Table" })];
  const [place, host, holders] = Array.from({ length: 3 }, () => element("p", { class: "tpu-Muted" }));
  const reasons = element("ul", { class: "tpu-Muted", "aria-label": translated("Unknown values") });
  let [shape, shown] = ["", null];

  const draw = data => {
    frame.rename(["TPU", data.node, data.type].filter(Boolean).join(" · "));
    put(place, data.place);
    put(state, [STATES[data.state], data.reason].filter(Boolean).join(": "));
    history.add(data);
    if (shape !== shapeOf(data)) {
      [shape, shown] = [shapeOf(data), table(data)];
      chips.replaceChildren(...(shown.rows.length ? [shown.node] : []));
    }
    shown.rows.forEach(row => fillRow(row, data, history));
    put(host, hostText(data.machine));
    put(holders, data.holders.length ? translated("Used by {names}", { names: data.holders.join(", ") }) : "");
    listReasons(reasons, data.unknown);
  };
  const frame = openFrame(context, translated("TPU monitor"), draw);
  frame.body.append(place, state, chips, host, holders, reasons);
  frame.refresh();
  return frame.close;
}

function listReasons(list, lines) {
  if (JSON.stringify(lines) !== list.dataset.lines) {
    list.dataset.lines = JSON.stringify(lines);
    list.replaceChildren(...lines.map(line => element("li", {}, line)));
  }
  list.hidden = !lines.length;
}

export default { render };
