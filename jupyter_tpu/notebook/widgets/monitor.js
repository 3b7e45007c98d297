// Draws the chips and cores of a worker: a table with bars, and the last 10 minutes as a line.

// The history that the kernel sends (_WITH_HISTORY in monitor.py).
const HISTORY_S = 600;
const GIB = 2 ** 30;
const STATES = { idle: "Idle", unknown: "Unknown" };
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
        this._append(chip, { at: data.at, duty, hbm: memoryShare(data.cores, chip) })
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
      return "No samples in the last 10 minutes";
    }
    const [least, most] = [Math.min(...known), Math.max(...known)];
    return `Duty cycle from ${least.toFixed(0)} to ${most.toFixed(0)} % in the last 10 minutes`;
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

function memoryShare(cores, chip) {
  const own = cores.filter(core => core[1] === chip);
  const [used, total] = [own.map(core => core[3]), own.reduce((sum, core) => sum + (core[4] ?? 0), 0)];
  return used.includes(null) || !total ? null : (100 * used.reduce((sum, bytes) => sum + bytes, 0)) / total;
}

function percentText(percent) {
  return percent === null ? "unknown" : `${percent.toFixed(1)} %`;
}

function bytesText(used, total) {
  if (used === null) {
    return "unknown";
  }
  const text = (used / GIB).toFixed(2);
  return total === null ? `${text} GiB` : `${text} of ${(total / GIB).toFixed(2)} GiB`;
}

function hostText(host) {
  const cpus = host.cpus === null ? "" : ` of ${host.cpus} CPUs`;
  const memory = bytesText(host.memory_used_bytes, host.memory_total_bytes);
  const disk = bytesText(host.disk_used_bytes, host.disk_total_bytes);
  return `CPU ${percentText(host.cpu_percent)}${cpus} · memory ${memory} · disk ${disk}`;
}

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
  const cores = data.cores.length ? data.cores : data.chips.map(([chip]) => [null, chip, null, null, null]);
  const hasCores = cores.length > data.chips.length;
  const hasTensorCore = cores.some(core => core[2] !== null);
  const duty = data.duty_per === "chip" && hasCores ? "Duty cycle of the chip" : "Duty cycle";
  const columns = ["Chip", ...(hasCores ? ["Core"] : []), duty, ...(hasTensorCore ? ["TensorCore"] : []), "HBM"];
  const heads = columns.map(text => element("th", { scope: "col" }, text));
  heads.push(element("th", { scope: "col", class: "tpu-Wide" }, "Last 10 min"));
  const rows = cores.map(([core, chip], index) => {
    // On v2 and v3 a chip has two cores: what belongs to the chip is in the first row of both.
    const isFirst = !cores.slice(0, index).some(other => other[1] === chip);
    const rowspan = String(cores.filter(other => other[1] === chip).length);
    const made = { core, chip, duty: null, line: null, tensorcore: null, hbm: gauge("tpu-mod-memory") };
    const cells = [];
    if (isFirst) {
      made.duty = gauge("");
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
    if (hasTensorCore) {
      made.tensorcore = gauge("");
      cells.push(made.tensorcore.cell);
    }
    cells.push(made.hbm.cell);
    if (isFirst) {
      cells.push(made.line.cell);
    }
    return { ...made, node: element("tr", {}, ...cells) };
  });
  const head = element("thead", {}, element("tr", {}, ...heads));
  const body = element("tbody", {}, ...rows.map(({ node }) => node));
  const caption = element("caption", {}, "Load of the chips of this worker");
  return { node: element("table", {}, caption, head, body), rows };
}

function shapeOf({ chips, cores, duty_per }) {
  const hasTensorCore = cores.some(core => core[2] !== null);
  return JSON.stringify([chips.map(([chip]) => chip), cores.map(core => core.slice(0, 2)), duty_per, hasTensorCore]);
}

function fillRow(row, data, history) {
  const [, , tensorcore, used, total] = data.cores.find(core => core[0] === row.core) ?? [0, 0, null, null, null];
  if (row.duty) {
    const duty = data.chips.find(([chip]) => chip === row.chip)?.[1] ?? null;
    row.duty.show(duty === null ? null : duty / 100, percentText(duty));
    row.line.show(history, row.chip);
  }
  row.tensorcore?.show(tensorcore === null ? null : tensorcore / 100, percentText(tensorcore));
  row.hbm.show(used === null || !total ? null : used / total, bytesText(used, total));
}

function render(context) {
  const history = new History();
  const [state, chips] = [element("p"), element("div", { class: "tpu-Table" })];
  const [place, host, holders] = Array.from({ length: 3 }, () => element("p", { class: "tpu-Muted" }));
  const reasons = element("ul", { class: "tpu-Muted", "aria-label": "Unknown values" });
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
    put(holders, data.holders.length ? `Used by ${data.holders.join(", ")}` : "");
    listReasons(reasons, data.unknown);
  };
  const frame = openFrame(context, "TPU monitor", draw);
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
