// The script of a report: sorts and filters its tables, overlays learning curves, and saves data.
// All text from records is put in as text, never as markup.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8;
  const DASHES = ["", "7 3", "2 3"];
  const PARTS = { valid: "validation", test: "test", loss: "training loss" };
  const byId = (id) => document.getElementById(id);

  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value != null) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function shape(tag, attributes = {}, text = null) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== null) made.textContent = text;
    return made;
  }

  // -- data ------------------------------------------------------------------------------------------------------

  async function decoded(text) {
    const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** The values of a packed curve: [least, greatest, whether logarithmic, differences]. */
  function unpacked([low, high, log, steps], levels) {
    const [first, last] = log ? [Math.log(low), Math.log(high)] : [low, high];
    let number = 0;
    return steps.map((step) => {
      if (step === null) return null;
      number += step;
      const place = first + (number / levels) * (last - first);
      return log ? Math.exp(place) : place;
    });
  }

  class Report {
    constructor(data) {
      this.levels = data.levels;
      this.rows = data.rows;
      this.rows.forEach((row, number) => { row.number = number; });
    }

    curve(run, part) {
      run.open ??= {};
      if (!(part in run.open)) run.open[part] = run.curves[part] ? unpacked(run.curves[part], this.levels) : null;
      return run.open[part];
    }

    /** The epoch that stands for a bin. */
    epoch(row, bin, run) {
      return Math.min(row.width === 1 ? bin + 1 : (bin + 0.5) * row.width, run ? run.epochs : Infinity);
    }

    runPoints(row, run, part) {
      const values = this.curve(run, part) ?? [];
      return values.flatMap((value, bin) =>
        value === null ? [] : [{ x: this.epoch(row, bin, run), y: value, low: value, high: value, runs: 1 }]);
    }

    /** Mean and standard deviation over the runs that reached an epoch. */
    rowPoints(row, part) {
      const curves = row.runs.map((run) => this.curve(run, part) ?? []);
      const longest = Math.max(0, ...curves.map((curve) => curve.length));
      const most = Math.max(0, ...row.runs.map((run) => run.epochs));
      const points = [];
      for (let bin = 0; bin < longest; bin++) {
        const values = curves.map((curve) => curve[bin]).filter((value) => value != null);
        if (!values.length) continue;
        const mean = values.reduce((a, b) => a + b) / values.length;
        const std = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
        points.push({ x: Math.min(this.epoch(row, bin), most), y: mean, low: mean - std, high: mean + std, std,
          runs: values.length });
      }
      return points;
    }
  }

  const least = (values, start) => values.reduce((a, b) => Math.min(a, b), start);
  const greatest = (values, start) => values.reduce((a, b) => Math.max(a, b), start);
  const runName = (run) => `fold ${run.fold} seed ${run.seed}`;

  // -- saving ----------------------------------------------------------------------------------------------------

  function save(name, kind, text) {
    const address = URL.createObjectURL(new Blob([text], { type: kind }));
    const link = el("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  function csv(head, lines) {
    const cell = (value) => {
      if (value === null || value === undefined) return "";
      if (typeof value !== "string") return String(value);
      // A spreadsheet would take such a text for a formula.
      const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [head, ...lines].map((line) => line.map(cell).join(",")).join("\n") + "\n";
  }

  const ROW_FIELDS = ["data", "targets", "metric", "method", "recipe", "paper", "paperStd", "ours", "oursStd", "best",
    "bestStd", "rule", "part", "state"];

  function saveRows(report, format) {
    const shown = report.rows.filter((row) => !document.querySelector(`tr[data-row="${row.number}"][hidden]`));
    const plain = shown.map((row) => ({
      ...Object.fromEntries(ROW_FIELDS.map((name) => [name, row[name]])),
      runs: row.runs.length,
      seconds: row.runs.length ? row.runs.reduce((sum, run) => sum + run.seconds, 0) / row.runs.length : null,
      parameters: row.runs.length ? Math.max(...row.runs.map((run) => run.parameters)) : null,
    }));
    if (format === "json") save("rows.json", "application/json", JSON.stringify(plain, null, 1));
    else {
      const head = [...ROW_FIELDS, "runs", "seconds", "parameters"];
      save("rows.csv", "text/csv", csv(head, plain.map((row) => head.map((name) => row[name]))));
    }
  }

  // -- tables ----------------------------------------------------------------------------------------------------

  const key = (cell) => {
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = Number(text.replaceAll(",", "").replace("−", "-"));
    return text === "" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
  };

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, undefined, { numeric: true });
  }

  /** Sort by a column: ascending, descending, and then as it was; what has no value comes last in both. */
  function sortBy(table, column) {
    const head = [...table.tHead.rows[0].cells];
    const state = { none: "ascending", ascending: "descending", descending: "none" }[
      head[column].getAttribute("aria-sort") ?? "none"];
    head.forEach((cell, i) => cell.setAttribute("aria-sort", i === column ? state : "none"));
    const body = table.tBodies[0];
    const lines = [...body.rows].map((row) => ({ row, first: Number(row.dataset.row), key: key(row.cells[column]) }));
    const sign = state === "descending" ? -1 : 1;
    lines.sort((a, b) => {
      if (state === "none") return a.first - b.first;
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.first - b.first;
      return sign * compare(a.key, b.key) || a.first - b.first;
    });
    body.append(...lines.map((line) => line.row));
    const words = { none: "in the order of the report", ascending: "ascending", descending: "descending" }[state];
    byId("said").textContent = `Sorted by ${head[column].textContent.trim()}, ${words}.`;
  }

  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const words = cell.textContent;
      cell.textContent = "";
      cell.setAttribute("aria-sort", "none");
      cell.append(el("button", { type: "button", class: "sort", onclick: () => sortBy(table, column) }, words));
    });
  }

  function filterRows(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, all = 0;
    for (const section of document.querySelectorAll("section[data-section]")) {
      let some = 0;
      const title = section.querySelector("h2").textContent;
      for (const row of section.querySelectorAll("tr[data-row]")) {
        const text = `${title} ${row.dataset.recipe} ${row.textContent}`.toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
        some += !row.hidden;
        all += 1;
      }
      section.hidden = some === 0;
      shown += some;
    }
    byId("count").textContent = wanted.length ? `${shown} of ${all} rows` : "";
  }

  // -- axes ------------------------------------------------------------------------------------------------------

  class Axis {
    constructor(low, high, start, end, log) {
      Object.assign(this, { low, high, start, end, log: log && low > 0 });
    }

    scaled(value) { return this.log ? Math.log(Math.max(value, 1e-30)) : value; }

    at(value) {
      const [low, high] = [this.scaled(this.low), this.scaled(this.high)];
      return this.start + ((this.scaled(value) - low) / (high - low || 1)) * (this.end - this.start);
    }

    back(place) {
      const share = (place - this.start) / (this.end - this.start);
      const value = this.scaled(this.low) + share * (this.scaled(this.high) - this.scaled(this.low));
      return this.log ? Math.exp(value) : value;
    }

    ticks(most) {
      if (this.log && this.high > 3 * this.low) {
        for (const digits of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
          const found = [];
          for (let p = Math.floor(Math.log10(this.low)) - 1; p <= Math.ceil(Math.log10(this.high)); p++)
            for (const d of digits) {
              const value = Number(`${d}e${p}`);
              if (value >= this.low && value <= this.high) found.push(value);
            }
          if (found.length <= most || digits.length === 1)
            return found.filter((_, i) => i % Math.ceil(found.length / most) === 0);
        }
      }
      for (let p = -12; p < 13; p++)
        for (const base of [1, 2, 2.5, 5]) {
          const step = base * 10 ** p;
          const [first, last] = [Math.ceil(this.low / step - 1e-9), Math.floor(this.high / step + 1e-9)];
          if (last - first + 1 <= most)
            return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(10)));
        }
      return [];
    }
  }

  const short = (value) =>
    value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)
      ? value.toExponential(1).replace("e+", "e").replace(".0e", "e")
      : String(Number(value.toPrecision(4)));

  // -- charts ----------------------------------------------------------------------------------------------------

  class Chart {
    constructor(report, place, section) {
      Object.assign(this, { report, section, items: [], zoomed: null, drag: null, at: null, nextColour: 0 });
      this.rows = report.rows.filter((row) => row.section === section && row.runs.length);
      const parts = Object.keys(PARTS).filter((part) => this.rows.some((row) => row.runs.some((r) => r.curves[part])));
      const metric = this.rows[0].part;
      this.part = parts.includes(metric) ? metric : parts[0];
      this.id = `chart-${section}`;
      this.build(place, parts);
      // The best rows first: less is better, or more.
      const sign = this.rows[0].lower ? 1 : -1;
      const ranked = [...this.rows].sort((a, b) => sign * ((a.ours ?? 0) - (b.ours ?? 0)));
      for (const row of ranked.slice(0, 3)) this.add(row, null, false);
      this.draw();
      new ResizeObserver(() => this.draw()).observe(this.frame);
    }

    get lower() { return this.rows[0].lower || this.part === "loss"; }

    build(place, parts) {
      const id = (name) => `${this.id}-${name}`;
      const choose = (name, words, options, change) => el("label", { for: id(name) }, `${words} `,
        el("select", { id: id(name), onchange: (event) => change(event.target.value) },
          ...options.map(([value, text]) => el("option", { value, selected: value === this.part }, text))));
      const tick = (name, words, checked) => el("label", { for: id(name) },
        el("input", { type: "checkbox", id: id(name), checked, onchange: () => { this.zoomed = null; this.draw(); } }),
        ` ${words}`);
      const button = (name, words, label, click) =>
        el("button", { type: "button", id: id(name), "aria-label": label, onclick: click }, words);
      const log = this.rows[0].lower;
      this.picker = el("input", { id: id("pick"), list: "all-runs", placeholder: "any row or run of this page",
        onkeydown: (event) => { if (event.key === "Enter") this.pick(); } });
      this.svg = shape("svg", { id: id("plot"), tabindex: 0, role: "group" });
      this.tip = el("div", { class: "tip", hidden: true });
      this.frame = el("div", { class: "frame" });
      this.frame.append(this.svg, this.tip);
      this.legend = el("ul", { class: "legend" });
      this.said = el("p", { class: "unseen", "aria-live": "polite" });
      place.append(
        el("div", { class: "controls" },
          choose("part", "Show", parts.map((part) => [part, PARTS[part]]), (value) => {
            this.part = value;
            this.zoomed = null;
            this.draw();
          }),
          el("label", { for: id("mode") }, "as ", el("select", { id: id("mode"), onchange: () => this.draw() },
            el("option", { value: "mean" }, "mean ± deviation"), el("option", { value: "each" }, "each run"))),
          tick("logx", "log epochs", false), tick("logy", "log values", log),
          el("span", { class: "group" }, button("in", "+", "Zoom in", () => this.zoom(0.5)),
            button("out", "−", "Zoom out", () => this.zoom(2)), button("reset", "Reset", "Reset the zoom", () => {
              this.zoomed = null;
              this.draw();
            })),
          el("span", { class: "group" }, button("csv", "CSV", "Save the shown curves as CSV", () => this.save("csv")),
            button("json", "JSON", "Save the shown curves as JSON", () => this.save("json")))),
        this.frame, this.legend,
        el("div", { class: "controls" }, el("label", { for: id("pick") }, "Add "), this.picker,
          button("add", "Add", "Add these curves", () => this.pick())),
        this.said);
      this.svg.addEventListener("pointerdown", (event) => this.press(event));
      this.svg.addEventListener("pointermove", (event) => this.move(event));
      this.svg.addEventListener("pointerup", (event) => this.release(event));
      this.svg.addEventListener("pointercancel", () => { this.drag = null; this.overlay(); });
      this.svg.addEventListener("pointerleave", () => { if (!this.drag) { this.at = null; this.overlay(); } });
      this.svg.addEventListener("dblclick", () => { this.zoomed = null; this.draw(); });
      this.svg.addEventListener("keydown", (event) => this.pressKey(event));
      this.svg.addEventListener("blur", () => { this.at = null; this.overlay(); });
    }

    // what is shown

    has(row, run) { return this.items.findIndex((item) => item.row === row && item.run === run); }

    add(row, run, draw = true) {
      if (this.has(row, run) >= 0) return;
      this.items.push({ row, run, colour: this.nextColour++ });
      this.mark(row);
      if (draw) this.draw();
    }

    drop(row, run) {
      const index = this.has(row, run);
      if (index < 0) return;
      this.items.splice(index, 1);
      if (!this.items.length) this.nextColour = 0;
      this.mark(row);
      this.draw();
    }

    mark(row) {
      const box = row.section === this.section && document.querySelector(`tr[data-row="${row.number}"] input`);
      if (box) box.checked = this.has(row, null) >= 0;
    }

    pick() {
      const words = this.picker.value.trim();
      const found = this.report.choices.get(words);
      this.picker.setAttribute("aria-invalid", String(!found));
      this.said.textContent = found ? `Added ${words}.` : `There is no row or run called ${words}.`;
      if (!found) return;
      this.picker.value = "";
      this.add(found.row, found.run);
    }

    name({ row, run }) {
      const data = row.section === this.section ? "" : `${row.data}: `;
      return `${data}${row.method}${run ? `, ${runName(run)}` : ""}`;
    }

    lines() {
      const each = byId(`${this.id}-mode`).value === "each";
      return this.items.flatMap((item) => {
        if (item.run) return [{ item, run: item.run, points: this.report.runPoints(item.row, item.run, this.part) }];
        if (!each) return [{ item, run: null, points: this.report.rowPoints(item.row, this.part) }];
        return item.row.runs.map((run) => ({ item, run, points: this.report.runPoints(item.row, run, this.part) }));
      }).filter((line) => line.points.length);
    }

    // drawing

    range(lines, log) {
      const last = greatest(lines.flatMap((line) => line.points.map((point) => point.x)), 1);
      // The first tenth of a training would else press everything that matters into the border.
      const late = lines.flatMap((line) => line.points.filter((point) => this.lower || point.x >= last / 10));
      const papers = lines.map((line) => this.paper(line.item)).filter((value) => value !== null);
      const values = [...late.flatMap((point) => log ? [point.y] : [point.low, point.high]), ...papers]
        .filter((value) => Number.isFinite(value) && (value > 0 || !log));
      const [low, high] = values.length ? [least(values, Infinity), greatest(values, -Infinity)] : [0.1, 1];
      if (log) {
        const factor = high > low ? (high / low) ** 0.06 : 1.1;
        return { x: [this.logx ? 1 : 0, last], y: [low / factor, high * factor] };
      }
      const margin = (high - low) * 0.06 || Math.abs(high) * 0.06 || 0.5;
      return { x: [this.logx ? 1 : 0, last], y: [low - margin, high + margin] };
    }

    paper({ row }) {
      return this.part === row.part && row.paper !== null && this.part !== "loss" ? row.paper : null;
    }

    draw() {
      const width = Math.max(280, Math.floor(this.frame.clientWidth || 800)), height = width < 520 ? 260 : 320;
      const lines = this.lines();
      this.drawn = lines;
      this.logx = byId(`${this.id}-logx`).checked;
      const logy = byId(`${this.id}-logy`).checked;
      const range = this.zoomed ?? this.range(lines, logy);
      this.across = new Axis(...range.x, 48, width - 10, this.logx);
      this.up = new Axis(...range.y, height - 26, 10, logy);
      this.svg.replaceChildren();
      for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }))
        this.svg.setAttribute(name, value);
      this.svg.setAttribute("aria-label", `Learning curves: ${PARTS[this.part]} of ${this.items.map((item) =>
        this.name(item)).join("; ") || "nothing"}. Arrow keys read values, plus and minus zoom, 0 resets.`);
      const clip = shape("clipPath", { id: `${this.id}-clip` });
      clip.append(shape("rect", { x: 48, y: 10, width: width - 58, height: height - 36 }));
      this.svg.append(clip);
      for (const tick of this.up.ticks(6)) {
        const y = this.up.at(tick);
        this.svg.append(shape("line", { x1: 48, x2: width - 10, y1: y, y2: y, class: "s-line" }),
          shape("text", { x: 42, y: y + 4, class: "f-soft", "text-anchor": "end", "font-size": 11 }, short(tick)));
      }
      for (const tick of this.across.ticks(width < 520 ? 5 : 9))
        this.svg.append(shape("text", { x: this.across.at(tick), y: height - 8, class: "f-soft",
          "text-anchor": "middle", "font-size": 11 }, short(tick)));
      this.svg.append(shape("text", { x: 42, y: height - 8, class: "f-soft", "text-anchor": "end",
        "font-size": 11 }, "epoch"));
      const inner = shape("g", { "clip-path": `url(#${this.id}-clip)` });
      this.svg.append(inner);
      for (const line of lines) this.drawLine(inner, line);
      this.marks = shape("g");
      this.svg.append(this.marks);
      this.drawLegend();
      this.overlay();
    }

    drawLine(inner, { item, run, points }) {
      const colour = item.colour % COLOURS;
      const dash = DASHES[Math.floor(item.colour / COLOURS) % DASHES.length];
      const place = (x, y) => `${this.across.at(x).toFixed(1)},${this.up.at(y).toFixed(1)}`;
      const floor = this.up.log ? this.up.low / 10 : -Infinity;
      if (points.some((point) => point.high > point.low)) {
        const above = points.map((point) => place(point.x, point.high));
        const below = points.map((point) => place(point.x, Math.max(point.low, floor))).reverse();
        inner.append(shape("polygon", { points: [...above, ...below].join(" "), class: `fill-${colour}` }));
      }
      const thin = run && !item.run;
      inner.append(shape("polyline", { points: points.map((point) => place(point.x, point.y)).join(" "),
        class: `curve stroke-${colour}`, "stroke-width": thin ? 1 : 1.8, "stroke-dasharray": dash,
        "stroke-opacity": thin ? 0.75 : 1 }));
      const paper = this.paper(item);
      if (paper !== null && !thin)
        inner.append(shape("line", { x1: 48, x2: this.across.end, y1: this.up.at(paper), y2: this.up.at(paper),
          class: `stroke-${colour}`, "stroke-width": 1.2, "stroke-dasharray": "2 4" }));
    }

    drawLegend() {
      const colour = (item) => {
        const picture = shape("svg", { width: 26, height: 10, "aria-hidden": "true" });
        picture.append(shape("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: `stroke-${item.colour % COLOURS}`,
          "stroke-width": 2.5, "stroke-dasharray": DASHES[Math.floor(item.colour / COLOURS) % DASHES.length] }));
        return picture;
      };
      const merged = Math.max(1, ...this.items.map((item) => item.row.width));
      const note = merged > 1 ? ` One point stands for up to ${merged} epochs.` : "";
      const dotted = this.items.some((item) => this.paper(item) !== null) ? " Dotted: the paper's number." : "";
      this.legend.replaceChildren(...this.items.map((item) => el("li", {}, colour(item), ` ${this.name(item)} `,
        el("button", { type: "button", class: "drop", "aria-label": `Remove ${this.name(item)}`,
          onclick: () => this.drop(item.row, item.run) }, "×"))),
        el("li", { class: "soft" }, this.items.length ? `${note}${dotted}`.trim()
          : "Tick rows of the table, or add a run below."));
    }

    // values under the pointer, and zoom

    overlay() {
      this.marks.replaceChildren();
      if (this.drag?.to) {
        const [a, b] = [this.drag.from, this.drag.to];
        this.marks.append(shape("rect", { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), class: "selected",
          width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y) }));
      }
      this.tip.hidden = true;
      if (this.at === null || this.drag?.to || !this.drawn.length) return;
      const x = this.across.at(this.at);
      this.marks.append(shape("line", { x1: x, x2: x, y1: 10, y2: this.up.start, class: "s-soft",
        "stroke-dasharray": "3 3" }));
      const values = this.values();
      for (const { line, point } of values)
        this.marks.append(shape("circle", { cx: this.across.at(point.x), cy: this.up.at(point.y), r: 3.5,
          class: `dot-${line.item.colour % COLOURS}` }));
      const shown = values.slice(0, 12);
      this.tip.replaceChildren(el("b", {}, `epoch ${Math.round(this.at)}`), ...shown.map(({ line, point }) =>
        el("div", {}, el("span", { class: `key back-${line.item.colour % COLOURS}` }), this.told(line, point))),
        ...(values.length > shown.length ? [el("div", { class: "soft" }, `and ${values.length - 12} more`)] : []));
      this.tip.hidden = false;
      const room = this.frame.clientWidth - this.tip.offsetWidth - 4;
      this.tip.style.left = `${Math.max(0, Math.min(x + 14, x > room - 14 ? x - this.tip.offsetWidth - 14 : room))}px`;
    }

    told(line, point) {
      const spread = point.std ? ` ± ${short(Number(point.std.toPrecision(2)))}` : "";
      const name = line.run && !line.item.run ? `${this.name(line.item)}, ${runName(line.run)}` : this.name(line.item);
      return `${name}: ${short(point.y)}${spread}`;
    }

    values() {
      return this.drawn.flatMap((line) => {
        const point = line.points.reduce((a, b) => Math.abs(b.x - this.at) < Math.abs(a.x - this.at) ? b : a);
        const near = Math.abs(point.x - this.at) <= Math.max(2 * line.item.row.width, 1);
        return near ? [{ line, point }] : [];
      });
    }

    inside(event) {
      const box = this.svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      return { x: Math.min(Math.max(x, 48), this.across.end), y: Math.min(Math.max(y, 10), this.up.start) };
    }

    press(event) {
      if (event.button !== 0) return;
      this.drag = { from: this.inside(event), to: null };
      this.svg.setPointerCapture(event.pointerId);
    }

    move(event) {
      const place = this.inside(event);
      this.at = this.across.back(place.x);
      if (this.drag && Math.abs(place.x - this.drag.from.x) > 4) this.drag.to = place;
      this.overlay();
    }

    release() {
      const { from, to } = this.drag ?? {};
      this.drag = null;
      if (!to) return;
      // A stripe that is nearly flat was meant as epochs alone.
      const flat = Math.abs(from.y - to.y) < 12;
      const x = [from.x, to.x].sort((a, b) => a - b).map((place) => this.across.back(place));
      const y = flat ? [this.up.low, this.up.high]
        : [from.y, to.y].sort((a, b) => b - a).map((place) => this.up.back(place));
      this.zoomed = { x, y };
      this.tell();
    }

    zoom(factor) {
      const around = (axis, middle) => {
        const [low, high] = [axis.scaled(axis.low), axis.scaled(axis.high)];
        const centre = axis.scaled(middle), half = ((high - low) / 2) * factor;
        return [centre - half, centre + half].map((value) => axis.log ? Math.exp(value) : value);
      };
      const middle = (axis) => axis.back((axis.start + axis.end) / 2);
      this.zoomed = { x: around(this.across, this.at ?? middle(this.across)), y: around(this.up, middle(this.up)) };
      this.zoomed.x[0] = Math.max(this.zoomed.x[0], this.logx ? 1 : 0);
      this.tell();
    }

    tell() {
      this.draw();
      this.said.textContent =
        `Shown: epochs ${short(this.across.low)} to ${short(this.across.high)}, values ${short(this.up.low)} to ${short(this.up.high)}.`;
    }

    pressKey(event) {
      const actions = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => { this.zoomed = null; this.draw(); }, ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
        Home: () => this.step(-Infinity), End: () => this.step(Infinity) };
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    }

    step(by) {
      const epochs = [...new Set(this.drawn.flatMap((line) => line.points.map((point) => point.x)))]
        .filter((x) => x >= this.across.low && x <= this.across.high).sort((a, b) => a - b);
      if (!epochs.length) return;
      const now = this.at === null ? -1 : epochs.findLastIndex((x) => x <= this.at + 1e-9);
      this.at = epochs[Math.min(Math.max(now + by, 0), epochs.length - 1)];
      this.overlay();
      this.said.textContent = `Epoch ${Math.round(this.at)}: ` +
        this.values().slice(0, 12).map(({ line, point }) => this.told(line, point)).join("; ");
    }

    save(format) {
      const lines = this.drawn.map(({ item, run, points }) => ({ data: item.row.data, recipe: item.row.recipe,
        fold: run?.fold ?? null, seed: run?.seed ?? null, value: PARTS[this.part], epochsPerPoint: item.row.width,
        points: points.map(({ x, y, std, runs }) => ({ epoch: x, mean: Number(y.toPrecision(5)),
          std: std === undefined ? null : Number(std.toPrecision(3)), runs })) }));
      if (format === "json") return save("curves.json", "application/json", JSON.stringify(lines, null, 1));
      const head = ["data", "recipe", "fold", "seed", "value", "epochsPerPoint", "epoch", "mean", "std", "runs"];
      const flat = lines.flatMap((line) => line.points.map((point) => head.map((name) => ({ ...line, ...point })[name])));
      return save("curves.csv", "text/csv", csv(head, flat));
    }
  }

  // -- the page --------------------------------------------------------------------------------------------------

  function toolbar(report) {
    const save = (format) => el("button", { type: "button", id: `rows-${format}`,
      "aria-label": `Save the shown rows as ${format.toUpperCase()}`, disabled: !report,
      onclick: () => saveRows(report, format) }, format.toUpperCase());
    byId("tools").append(
      el("label", { for: "filter" }, "Filter rows "),
      el("input", { id: "filter", type: "search", placeholder: "e.g. zinc dss ego+", autocomplete: "off",
        oninput: (event) => filterRows(event.target.value) }),
      el("span", { id: "count", class: "soft", role: "status" }), el("span", { class: "group" }, "Rows: ",
        save("csv"), save("json")));
  }

  /** The rows and runs that can be added to any chart, under names that differ. */
  function suggest(report) {
    report.choices = new Map();
    for (const row of report.rows)
      if (row.runs.length) {
        report.choices.set(row.recipe, { row, run: null });
        if (row.runs.length > 1)
          for (const run of row.runs) report.choices.set(`${row.recipe} ${runName(run)}`, { row, run });
      }
    const list = el("datalist", { id: "all-runs" });
    // A list of thousands is slow to open; every name can be typed.
    const some = report.choices.size > 500 ? [...report.choices].filter(([, { run }]) => !run) : [...report.choices];
    list.append(...some.map(([name]) => el("option", { value: name })));
    document.body.append(list);
  }

  function charts(report) {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const section = Number(place.dataset.chart);
      place.hidden = false;
      const box = place.closest("section");
      const rows = report.rows.filter((row) => row.section === section && row.runs.length);
      let chart = null;
      for (const row of rows) {
        const cell = box.querySelector(`tr[data-row="${row.number}"] th`);
        cell.prepend(el("input", { type: "checkbox", "aria-label": `Curves of ${row.method}`,
          onchange: (event) => event.target.checked ? chart.add(row, null) : chart.drop(row, null) }));
      }
      chart = new Chart(report, place, section);
    }
    document.documentElement.classList.add("charts");
  }

  async function start() {
    for (const table of document.querySelectorAll("table.rows")) makeSortable(table);
    const block = byId("data");
    let report = null;
    if (block && "DecompressionStream" in window) report = new Report(await decoded(block.textContent));
    toolbar(report);
    if (report) {
      suggest(report);
      charts(report);
    }
    document.body.dataset.ready = "";
  }

  start();
})();
