// The page of the explorer: shows what `esan.explore.view` computed. No colour is computed here.
"use strict";
(() => {
  const setup = JSON.parse(document.getElementById("setup").textContent);
  const $ = (id) => document.getElementById(id);
  const TABS = [["subgraphs", "Subgraphs"], ["colours", "Colours"], ["shared", "Copies of a node"], ["bag", "Compact bag"]];
  // Told apart by colour-blind readers and in grey too: neighbours in the list differ in lightness. Cells carry numbers besides.
  const TONES = ["#b5cfe9", "#e0752f", "#2f7d5b", "#f2cb4b", "#7d57b3", "#7cc4c9", "#a8324f", "#9cab3c", "#57606c", "#eba9cd",
    "#2b4b8c", "#c9e3a6", "#8b5a2b", "#ff9d80", "#00796b", "#cdb4f0", "#6d1f4f", "#f7e3b5", "#3b8fd0", "#46591f"];
  const LIGHT = { ink: "#1b2027", soft: "#5a6472", edge: "#8a94a1", ghost: "#c3cad2", gone: "#b4473f", halo: "#c2185b", card: "#ffffff", line: "#dfe3e8", accent: "#1f5fa8" };
  const SIZE = 400;
  const SHARP = Math.min(Math.max(window.devicePixelRatio || 1, 1), 2);

  const state = { graphs: [], test: "dss", policy: null, round: 0, sub: [0, 0], node: null, tab: "subgraphs", layer: 0, story: null, moved: [null, null], edit: [false, false], from: [null, null], kinds: false, all: false };
  let data = null;
  let timer = null;
  let asked = 0;
  const views = new Map(setup.views.map((one) => [key(one.choice), one.view]));

  // ---- small helpers --------------------------------------------------------------------------------------------

  function key(choice) { return JSON.stringify([choice.graphs, choice.test, choice.policy || null]); }

  function el(tag, given = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "class") made.className = value;
      else made.setAttribute(name, value === true ? "" : String(value));
    }
    // Children are text or elements: what a user wrote never becomes markup.
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  }

  const tones = [...TONES];
  function tone(number) {
    while (number >= tones.length) {
      const k = tones.length;
      tones.push(d3.hsl((k * 137.508) % 360, 0.45 + 0.2 * (k % 3 === 0), [0.72, 0.46, 0.6, 0.34][k % 4]).formatHex());
    }
    return tones[number];
  }
  const inkOn = (() => {
    const known = [];
    return (number) => {
      if (known[number] === undefined) {
        const { r, g, b } = d3.rgb(tone(number));
        const part = (value) => ((value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        const light = 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
        known[number] = light > 0.19 ? "#10151b" : "#ffffff";
      }
      return known[number];
    };
  })();

  function dot(number, first = false) {
    const made = el("span", { class: first ? "dot first" : "dot" }, String(number + 1));
    made.style.background = tone(number);
    made.style.color = inkOn(number);
    return made;
  }

  function bytes(number) {
    if (number < 1000) return `${number} B`;
    return number < 1e6 ? `${(number / 1000).toFixed(1)} kB` : `${(number / 1e6).toFixed(2)} MB`;
  }
  const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
  const runs = (numbers) => {
    const found = [];
    for (const one of numbers) {
      const last = found[found.length - 1];
      if (last && String(last[0]) === String(one)) last[1] += 1;
      else found.push([one, 1]);
    }
    return found;
  };
  const said = (numbers) => runs(numbers).map(([one, times]) => (Array.isArray(one) ? `(${one[0] + 1}, ${one[1] + 1})` : one + 1) + (times > 1 ? ` ×${times}` : "")).join(", ");
  // Reading styles forces a layout, so they are read once per colour scheme.
  let paints = null;
  function css() {
    if (!paints) {
      const style = getComputedStyle(document.documentElement);
      paints = Object.fromEntries(Object.keys(LIGHT).map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    }
    return paints;
  }
  // Sets an attribute where it changes: what stays as it is costs nothing.
  function put(selection, name, value) {
    selection.each(function each(datum) {
      const now = typeof value === "function" ? value(datum) : value;
      const known = this.known || (this.known = {});
      if (known[name] === now) return;
      known[name] = now;
      if (name === "text") this.textContent = now;
      else if (now === null) this.removeAttribute(name);
      else this.setAttribute(name, now);
    });
    return selection;
  }

  // ---- reading the data -----------------------------------------------------------------------------------------

  const cells = (gi, t = state.round) => data.colours[t][gi];
  function nodeColours(gi, si, t = state.round) {
    const n = data.graphs[gi].n;
    const all = cells(gi, t);
    if (!data.couples) return all.slice(si * n, (si + 1) * n);
    // Couples: those that begin at the selected node, else each node with itself.
    const u = state.node && state.node[0] === gi ? state.node[1] : null;
    return Array.from({ length: n }, (_, v) => all[si * n * n + (u === null ? v * n + v : u * n + v)]);
  }
  function cellOf(gi, si, v) { const n = data.graphs[gi].n; return data.couples ? si * n * n + v * n + v : si * n + v; }
  function ofSubgraph(gi, si, t = state.round) {
    const size = data.graphs[gi].n ** (data.couples ? 2 : 1);
    return cells(gi, t).slice(si * size, (si + 1) * size);
  }
  const histogram = (numbers) => {
    const found = new Map();
    for (const one of numbers) found.set(one, (found.get(one) || 0) + 1);
    return [...found.entries()].sort((a, b) => a[0] - b[0]);
  };
  function meaning(number, t = state.round) {
    const found = data.meanings[t];
    if (!found) return null;
    const [from, to] = [found.ptr[number], found.ptr[number + 1]];
    return { was: found.was[number], saw: found.saw.slice(from, to), label: found.label ? found.label.slice(from, to) : null, copies: found.copies ? found.copies[number] : null };
  }
  function copiesOf(multiset, t) {
    const found = data.copies[t];
    const made = [];
    for (let k = found.ptr[multiset]; k < found.ptr[multiset + 1]; k += 1) made.push([found.number[k], found.times[k]]);
    return made;
  }
  function witnessColour() {
    const witness = data.verdict && data.verdict.witness;
    return witness && witness.kind === "colour" && witness.round === state.round ? witness.colour : null;
  }
  const places = (gi) => state.moved[gi] || data.graphs[gi].places;
  function presence(gi, si) {
    const graph = data.graphs[gi];
    const listed = new Set(graph.subgraphs[si].listed);
    return graph.edges.map((_, e) => listed.has(e) !== graph.keeps);
  }
  function neighbours(gi, v) {
    const found = [];
    for (const [a, b] of data.graphs[gi].edges) { if (a === v) found.push(b); else if (b === v) found.push(a); }
    return found;
  }
  const joinedLines = (gi, e) => { const graph = data.graphs[gi]; return graph.spec.startsWith("smiles:") && graph.kinds ? { 2: 2, 3: 3, 4: 2 }[graph.kinds[e][0]] || 1 : 1; };

  // ---- scenes: one description, drawn on a canvas, as SVG or as TikZ ---------------------------------------------

  // As large as the number of nodes and the nearest two of them allow.
  const gaps = new WeakMap();
  function gap(spots) {
    if (!gaps.has(spots)) {
      let least = 1;
      for (let u = 0; u < spots.length; u += 1) for (let v = 0; v < u; v += 1) least = Math.min(least, Math.hypot(spots[u][0] - spots[v][0], spots[u][1] - spots[v][1]));
      gaps.set(spots, least);
    }
    return gaps.get(spots);
  }
  function radius(gi, size) {
    const { n, places: given } = data.graphs[gi];
    return Math.max(Math.min(size * 0.05, (size * 0.34) / Math.sqrt(n + 1), gap(given) * size * 0.29), size * 0.016);
  }

  function scene(gi, si, box, paint) {
    const graph = data.graphs[gi];
    const r = radius(gi, box.size);
    const pad = r + box.size * 0.05;
    const at = places(gi).map(([x, y]) => [box.x + pad + x * (box.size - 2 * pad), box.y + pad + y * (box.size - 2 * pad)]);
    const there = presence(gi, si);
    const parts = [];
    const width = Math.max(box.size / 250, 0.6);
    graph.edges.forEach(([u, v], e) => {
      const line = { k: "line", x1: at[u][0], y1: at[u][1], x2: at[v][0], y2: at[v][1], w: width };
      if (there[e]) parts.push({ ...line, c: paint.edge });
      else if (graph.keeps) parts.push({ ...line, c: paint.gone, dash: [3 * width, 3 * width] });
      else if (box.size > 150) parts.push({ ...line, c: paint.ghost, dash: [1.5 * width, 4 * width] });
    });
    const colours = nodeColours(gi, si);
    const first = witnessColour();
    const sub = graph.subgraphs[si];
    const marks = new Set(sub.marks);
    at.forEach(([x, y], v) => {
      if (first === colours[v]) parts.push({ k: "disc", x, y, r: r + Math.max(r * 0.34, 1.6), f: paint.halo });
      parts.push({ k: "disc", x, y, r, f: tone(colours[v]), s: "#3c444e", w: Math.max(width * 0.7, 0.5) });
      if (marks.has(v)) parts.push({ k: "disc", x, y, r: r + width, s: paint.ink, w: width * 2 });
      else if (sub.root === v) parts.push({ k: "disc", x, y, r: r + 2 * width, s: paint.ink, w: width, dash: [2 * width, 2 * width] });
      if (r >= 6) parts.push({ k: "text", x, y, t: String(colours[v] + 1), size: r * (colours[v] > 98 ? 0.75 : 1.02), c: inkOn(colours[v]), bold: true });
    });
    return parts;
  }

  function onCanvas(context, parts) {
    for (const one of parts) {
      context.setLineDash(one.dash || []);
      if (one.k === "line") {
        context.beginPath(); context.moveTo(one.x1, one.y1); context.lineTo(one.x2, one.y2);
        context.strokeStyle = one.c; context.lineWidth = one.w; context.stroke();
      } else if (one.k === "disc") {
        context.beginPath(); context.arc(one.x, one.y, one.r, 0, 2 * Math.PI);
        if (one.f) { context.fillStyle = one.f; context.fill(); }
        if (one.s) { context.strokeStyle = one.s; context.lineWidth = one.w; context.stroke(); }
      } else if (one.k === "box") {
        context.fillStyle = one.f; context.fillRect(one.x, one.y, one.w, one.h);
      } else {
        context.font = `${one.bold ? 600 : 400} ${one.size}px system-ui, sans-serif`;
        context.textAlign = one.left ? "left" : "center"; context.textBaseline = "middle";
        context.fillStyle = one.c; context.fillText(one.t, one.x, one.y);
      }
    }
  }

  function histogramParts(numbers, x, y, width, height) {
    const parts = [];
    let left = x;
    for (const [number, often] of histogram(numbers)) {
      const w = (often / numbers.length) * width;
      parts.push({ k: "box", x: left, y, w: Math.max(w - (w > 3 ? 1 : 0), 0.4), h: height, f: tone(number) });
      left += w;
    }
    return parts;
  }

  function matrixParts(gi, si, box) {
    const n = data.graphs[gi].n;
    const side = box.size / n;
    return ofSubgraph(gi, si).map((number, cell) => ({ k: "box", x: box.x + (cell % n) * side, y: box.y + Math.floor(cell / n) * side, w: side + 0.3, h: side + 0.3, f: tone(number) }));
  }

  // ---- the two large graphs -------------------------------------------------------------------------------------

  function buildCards() {
    $("cards").replaceChildren(...data.graphs.map((graph, gi) => {
      const title = el("h2", { title: graph.spec || graph.name }, graph.name);
      const edit = el("button", { type: "button", id: `edit-${gi}`, "aria-pressed": "false", onclick: () => toggleEdit(gi), disabled: !setup.token, title: setup.token ? null : "Editing needs the server: run esan explore" }, "Edit");
      const pick = el("div", { class: "pick" },
        el("button", { type: "button", "aria-label": `Previous subgraph of ${graph.name}`, onclick: () => pickSubgraph(gi, -1) }, "‹"),
        el("span", { class: "sub", id: `sub-${gi}` }),
        el("button", { type: "button", "aria-label": `Next subgraph of ${graph.name}`, onclick: () => pickSubgraph(gi, 1) }, "›"));
      if (graph.subgraphs.length < 2) pick.querySelectorAll("button").forEach((button) => button.remove());
      const drawing = d3.create("svg").attr("id", `svg-${gi}`).attr("viewBox", `0 0 ${SIZE} ${SIZE}`).attr("role", "group");
      drawing.append("g").attr("class", "edges");
      drawing.append("g").attr("class", "nodes");
      drawing.on("dblclick", (event) => { if (state.edit[gi]) addNode(gi, d3.pointer(event, drawing.node())); });
      return el("section", { class: "card graph", "aria-label": `Graph ${"GH"[gi]}: ${graph.name}` },
        el("header", {}, title, edit), pick, drawing.node(),
        el("div", { class: "editbar", id: `bar-${gi}`, hidden: true },
          el("button", { type: "button", onclick: () => addNode(gi) }, "Add node"),
          el("button", { type: "button", onclick: () => removeNode(gi) }, "Delete node"),
          el("button", { type: "button", onclick: () => arrange(gi) }, "Arrange"),
          el("button", { type: "button", onclick: () => clearGraph(gi) }, "Start blank"),
          el("span", { id: `hint-${gi}` })),
        el("div", { class: "chips", id: `chips-${gi}`, role: "group", "aria-label": `Colours of the subgraph of ${graph.name}`, tabindex: "0" }));
    }));
  }

  function project(gi) {
    const r = radius(gi, SIZE);
    const pad = r + 27;
    return { r, out: ([x, y]) => [pad + x * (SIZE - 2 * pad), pad + y * (SIZE - 2 * pad)], back: ([x, y]) => [(x - pad) / (SIZE - 2 * pad), (y - pad) / (SIZE - 2 * pad)] };
  }

  function describe(gi, v, colours) {
    const number = colours[v];
    const seen = data.couples ? null : meaning(number);
    const symbol = data.graphs[gi].symbols ? ` ${data.graphs[gi].symbols[v]}` : "";
    return `Node ${v}${symbol}, colour ${number + 1}` + (seen ? `, was ${seen.was + 1}, saw ${said(seen.saw) || "nothing"}` : "");
  }

  function drawFocus(gi) {
    const graph = data.graphs[gi];
    const si = state.sub[gi];
    const sub = graph.subgraphs[si];
    const view = project(gi);
    const at = places(gi).map(view.out);
    const there = presence(gi, si);
    const colours = nodeColours(gi, si);
    const first = witnessColour();
    const svg = d3.select($(`svg-${gi}`)).attr("aria-label", `${graph.name}, ${sub.title}, round ${state.round}`);
    const lines = [];
    graph.edges.forEach(([u, v], e) => {
      const times = joinedLines(gi, e);
      const [dx, dy] = [at[v][0] - at[u][0], at[v][1] - at[u][1]];
      const long = Math.hypot(dx, dy) || 1;
      for (let k = 0; k < times; k += 1) {
        const off = (k - (times - 1) / 2) * 5;
        lines.push({ id: `${e}.${k}`, kind: there[e] ? "" : graph.keeps ? "gone" : "ghost", x1: at[u][0] - (dy / long) * off, y1: at[u][1] + (dx / long) * off, x2: at[v][0] - (dy / long) * off, y2: at[v][1] + (dx / long) * off });
      }
    });
    const drawn = svg.select(".edges").selectAll("line").data(lines, (line) => line.id).join("line");
    put(drawn, "class", (line) => `edge ${line.kind}`);
    put(drawn, "stroke-width", graph.n > 30 ? 1.3 : 2);
    for (const end of ["x1", "y1", "x2", "y2"]) put(drawn, end, (line) => line[end]);
    const marks = new Set(sub.marks);
    const chosen = state.node && state.node[0] === gi ? state.node[1] : null;
    const groups = svg.select(".nodes").selectAll("g.node").data(d3.range(graph.n)).join((enter) => {
      const made = enter.append("g").attr("class", "node").attr("role", "button");
      for (const name of ["halo", "disc", "mark", "root", "ring"]) made.append("circle").attr("class", name);
      made.append("text").attr("class", "number");
      made.append("text").attr("class", "index");
      made.append("text").attr("class", "symbol");
      return made.on("keydown", (event, v) => nodeKey(event, gi, v)).call(dragging(gi));
    });
    const r = view.r;
    const shown = (test) => (v) => (test(v) ? null : "none");
    const part = (name) => groups.select(`.${name}`);
    put(groups, "transform", (v) => `translate(${at[v][0]},${at[v][1]})`);
    put(groups, "tabindex", (v) => (v === (chosen === null ? 0 : chosen) ? 0 : -1));
    put(groups, "aria-pressed", (v) => String(v === chosen || v === state.from[gi]));
    put(groups, "aria-label", (v) => describe(gi, v, colours));
    put(put(part("disc"), "r", r), "fill", (v) => tone(colours[v]));
    put(put(part("halo"), "r", r + 4.5), "display", shown((v) => colours[v] === first));
    put(put(part("mark"), "r", r + 1.5), "display", shown((v) => marks.has(v)));
    put(put(part("root"), "r", r + 4), "display", shown((v) => sub.root === v && !marks.has(v)));
    put(put(part("ring"), "r", r + 7.5), "display", shown((v) => v === chosen || v === state.from[gi]));
    put(put(put(part("number"), "text", (v) => String(colours[v] + 1)), "fill", (v) => inkOn(colours[v])), "font-size", (v) => r * (colours[v] > 98 ? 0.75 : 1.0));
    const labelled = graph.n <= 24;
    const outward = labelled ? at.map((point, v) => away(gi, v, at)) : null;
    const far = (v) => r + (v === chosen || v === state.from[gi] ? 19 : colours[v] === first || sub.root === v ? 15 : 12);
    for (const [name, size, when, text] of [["index", 11, () => labelled && !graph.symbols, String], ["symbol", 13, (v) => labelled && graph.symbols && graph.symbols[v] !== "C", (v) => (graph.symbols ? graph.symbols[v].slice(0, 6) : "")]]) {
      const label = put(put(put(part(name), "display", shown(when)), "text", text), "font-size", size);
      put(put(label, "x", (v) => (labelled ? outward[v][0] * far(v) : 0)), "y", (v) => (labelled ? outward[v][1] * far(v) : 0));
    }
    $(`sub-${gi}`).textContent = graph.subgraphs.length > 1 ? `${si + 1} of ${graph.subgraphs.length}: ${sub.short}` : sub.title;
    const held = histogram(ofSubgraph(gi, si));
    // The colour to look at comes first; where not all can be shown, the most frequent are.
    held.sort((a, b) => (b[0] === first) - (a[0] === first) || (held.length > 20 ? b[1] - a[1] : 0) || a[0] - b[0]);
    $(`chips-${gi}`).replaceChildren(...held.slice(0, 20).map(([number, often]) => el("span", { class: "chip" }, dot(number, number === first), `×${often}`)), held.length > 20 ? `and ${held.length - 20} more` : "");
    $(`edit-${gi}`).setAttribute("aria-pressed", String(state.edit[gi]));
    $(`bar-${gi}`).hidden = !state.edit[gi];
    $(`hint-${gi}`).textContent = state.from[gi] === null ? "Choose two nodes to join or part them." : `From node ${state.from[gi]}: choose the other one.`;
  }

  function away(gi, v, at) {
    // The middle of the widest gap between its edges; away from the middle of the drawing where it has none.
    const angles = neighbours(gi, v).map((w) => Math.atan2(at[w][1] - at[v][1], at[w][0] - at[v][0])).sort((a, b) => a - b);
    const outward = Math.atan2(at[v][1] - SIZE / 2 - 0.1, at[v][0] - SIZE / 2 + 0.1);
    let [best, widest] = [outward, 0];
    angles.forEach((angle, k) => {
      const next = k + 1 < angles.length ? angles[k + 1] : angles[0] + 2 * Math.PI;
      const middle = (angle + next) / 2;
      // Of two gaps that are about equal, the outer one.
      const width = next - angle + 0.2 * Math.cos(middle - outward);
      if (width > widest) [best, widest] = [middle, width];
    });
    return [Math.cos(best), Math.sin(best)];
  }

  function dragging(gi) {
    let from = null;
    return d3.drag().on("start", (event) => { from = [event.x, event.y]; })
      .subject((event, v) => { const [x, y] = project(gi).out(places(gi)[v]); return { x, y }; })
      .on("drag", (event, v) => {
        if (from && Math.hypot(event.x - from[0], event.y - from[1]) < 3) return;
        from = null;
        moveNode(gi, v, [event.x, event.y]);
      })
      .on("end", (event, v) => { if (from) choose(gi, v); else { saveHash(); drawThumbs(gi); } from = null; });
  }

  function moveNode(gi, v, point) {
    const [x, y] = project(gi).back(point);
    state.moved[gi] = places(gi).map((old, w) => (w === v ? [Math.min(Math.max(x, 0), 1), Math.min(Math.max(y, 0), 1)] : old));
    drawFocus(gi);
  }

  function choose(gi, v) {
    if (state.edit[gi]) {
      if (state.from[gi] === null) state.from[gi] = v;
      else { const u = state.from[gi]; state.from[gi] = null; if (u !== v) { toggleEdge(gi, u, v); return; } }
    }
    state.node = state.node && state.node[0] === gi && state.node[1] === v && !state.edit[gi] ? null : [gi, v];
    render();
    saveHash();
  }

  function nodeKey(event, gi, v) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step && event.altKey) {
      const [x, y] = project(gi).out(places(gi)[v]);
      moveNode(gi, v, [x + ({ ArrowRight: 10, ArrowLeft: -10 }[event.key] || 0), y + ({ ArrowDown: 10, ArrowUp: -10 }[event.key] || 0)]);
      saveHash();
    } else if (step) {
      const n = data.graphs[gi].n;
      focusNode(gi, (v + step + n) % n);
    } else if (event.key === "Enter" || event.key === " ") choose(gi, v);
    else if (state.edit[gi] && event.key === "Delete") { state.node = [gi, v]; removeNode(gi); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function focusNode(gi, v) {
    const groups = $(`svg-${gi}`).querySelectorAll("g.node");
    put(d3.selectAll(groups), "tabindex", (w) => (w === v ? 0 : -1));
    groups[v].focus();
  }

  // ---- editing --------------------------------------------------------------------------------------------------

  function toggleEdit(gi) {
    if (!setup.token) return;
    state.edit[gi] = !state.edit[gi];
    state.from[gi] = null;
    drawFocus(gi);
  }
  function edited(gi, n, edges, spots) {
    const joined = new Set(edges.flat());
    const alone = d3.range(n).filter((v) => !joined.has(v));
    const spec = "edges:" + [...edges.map(([u, v]) => `${u}-${v}`), ...alone].join(",");
    const graphs = state.graphs.slice();
    graphs[gi] = spec;
    state.moved[gi] = spots;
    const lost = data.graphs[gi].symbols ? "The labels of its nodes and edges are left out of the edited graph." : "";
    load({ graphs, test: state.test, policy: state.policy }, { round: state.round, keep: true, notice: lost });
  }
  function toggleEdge(gi, u, v) {
    const [a, b] = [Math.min(u, v), Math.max(u, v)];
    const rest = data.graphs[gi].edges.filter(([x, y]) => x !== a || y !== b);
    edited(gi, data.graphs[gi].n, rest.length < data.graphs[gi].edges.length ? rest : [...rest, [a, b]], places(gi).slice());
  }
  function addNode(gi, point = null) {
    const n = data.graphs[gi].n;
    const spot = point ? project(gi).back(point).map((x) => Math.min(Math.max(x, 0), 1)) : [0.5 + 0.42 * Math.cos(n * 2.4), 0.5 + 0.42 * Math.sin(n * 2.4)];
    edited(gi, n + 1, data.graphs[gi].edges, [...places(gi), spot]);
  }
  function removeNode(gi) {
    const v = state.node && state.node[0] === gi ? state.node[1] : state.from[gi];
    const hint = $(`hint-${gi}`);
    if (v === null || v === undefined) { hint.textContent = "Select the node to delete first."; return; }
    if (data.graphs[gi].n < 2) { hint.textContent = "A graph has at least one node."; return; }
    const shift = (w) => (w > v ? w - 1 : w);
    state.node = null;
    state.from[gi] = null;
    edited(gi, data.graphs[gi].n - 1, data.graphs[gi].edges.filter((edge) => !edge.includes(v)).map((edge) => edge.map(shift)), places(gi).filter((_, w) => w !== v));
  }
  function clearGraph(gi) { state.node = null; state.from[gi] = null; edited(gi, 1, [], [[0.5, 0.5]]); }
  function arrange(gi) {
    const graph = data.graphs[gi];
    const nodes = places(gi).map(([x, y]) => ({ x: x * 300, y: y * 300 }));
    d3.forceSimulation(nodes).force("link", d3.forceLink(graph.edges.map(([source, target]) => ({ source, target }))).distance(300 / Math.sqrt(graph.n)).strength(0.7))
      .force("charge", d3.forceManyBody().strength(-220)).force("centre", d3.forceCenter(150, 150)).force("near", d3.forceX(150).strength(0.04)).force("level", d3.forceY(150).strength(0.04)).stop().tick(160);
    const [x0, x1] = d3.extent(nodes, (one) => one.x);
    const [y0, y1] = d3.extent(nodes, (one) => one.y);
    const span = Math.max(x1 - x0, y1 - y0) || 1;
    state.moved[gi] = nodes.map((one) => [0.5 + (one.x - (x0 + x1) / 2) / span, 0.5 + (one.y - (y0 + y1) / 2) / span]);
    drawFocus(gi);
    drawThumbs(gi);
    saveHash();
  }

  // ---- what the selected node saw -------------------------------------------------------------------------------

  function spread(numbers, first = null, labels = null) {
    if (!numbers.length) return ["nothing"];
    const coded = labels ? numbers.map((one, k) => [one, labels[k]]) : null;
    if (coded) return runs(coded).slice(0, 40).map(([one, times]) => el("span", { class: "chip" }, dot(one[0], one[0] === first), el("span", { class: "times" }, `edge ${one[1] + 1}${times > 1 ? ` ×${times}` : ""}`)));
    const found = runs(numbers);
    const made = found.slice(0, 40).map(([one, times]) => el("span", { class: "chip" }, ...(Array.isArray(one) ? [dot(one[0]), dot(one[1])] : [dot(one, one === first)]), times > 1 ? el("span", { class: "times" }, `×${times}`) : null));
    return found.length > 40 ? [...made, `and ${found.length - 40} more`] : made;
  }

  function multiset(number, t, most = 12) {
    const held = copiesOf(number, t);
    return [...held.slice(0, most).map(([one, times]) => el("span", { class: "chip" }, dot(one), el("span", { class: "times" }, `×${times}`))), held.length > most ? `and ${held.length - most} more` : null];
  }

  function drawSeen() {
    const t = state.round;
    if (!state.node || !data.graphs[state.node[0]]) {
      $("seen").replaceChildren(el("p", { class: "soft" }, "Click a node, or go to one by keyboard and press Enter, to see what its colour stands for."));
      return;
    }
    const [gi, v] = state.node;
    const graph = data.graphs[gi];
    const si = state.sub[gi];
    const number = cells(gi)[cellOf(gi, si, v)];
    const rows = [];
    const row = (name, ...content) => rows.push(el("dt", {}, name), el("dd", {}, ...content));
    row("Colour", dot(number, number === witnessColour()), t ? ` in round ${t}` : " at the start");
    const found = meaning(number);
    if (found) {
      row("Was", dot(found.was));
      row("Saw", ...spread(found.saw, null, found.label));
    } else row("Because", data.graphs[gi].symbols ? `its label is ${graph.symbols[v]}` : graph.subgraphs[si].marks.length ? (graph.subgraphs[si].marks.includes(v) ? "it is marked" : "it is not marked") : "all nodes start alike");
    if (data.shares && t > 0) {
      const own = data.copies[t - 1].ofNode[gi][v];
      row("Copies", ...multiset(own, t - 1));
      const around = histogram(neighbours(gi, v).map((w) => data.copies[t - 1].ofNode[gi][w]));
      rows.push(el("dt", { class: "long" }, "Neighbours’ copies"), el("dd", { class: "long" }, ...(around.length ? around.slice(0, 4).map(([one, times]) => el("div", { class: "saw" }, `${times} ×`, ...multiset(one, t - 1, 6))) : ["none"]), around.length > 4 ? `and ${around.length - 4} more kinds` : ""));
    }
    const here = `Node ${v}${graph.symbols ? ` (${graph.symbols[v]})` : ""} of ${graph.name}, in the subgraph ${graph.subgraphs[si].title}.`;
    $("seen").replaceChildren(el("p", {}, data.couples ? `Couples that begin at node ${v} of ${graph.name}; its own couple (${v}, ${v}):` : here), el("dl", {}, ...rows));
  }

  // ---- subgraphs side by side -----------------------------------------------------------------------------------

  let watcher = null;
  // What the panel was built for: as long as that is shown, pictures are drawn again but nothing is built.
  let built = null;
  const visible = new Set();

  function shownSubgraphs(gi) {
    const every = d3.range(data.graphs[gi].subgraphs.length);
    if (!state.kinds) return every.map((si) => [si, 1]);
    const kinds = new Map();
    for (const si of every) {
      const colour = data.subgraphColours[state.round][gi][si];
      if (kinds.has(colour)) kinds.get(colour)[1] += 1;
      else kinds.set(colour, [si, 1]);
    }
    return [...kinds.values()];
  }

  function buildSubgraphs() {
    if (built === data && !state.kinds) { drawThumbs(); heads(); labelThumbs(); return; }
    built = state.kinds ? null : data;
    if (watcher) watcher.disconnect();
    visible.clear();
    watcher = new IntersectionObserver((entries) => {
      const paint = css();
      for (const entry of entries) {
        if (entry.isIntersecting) { visible.add(entry.target); drawThumb(entry.target, paint); } else visible.delete(entry.target);
      }
    }, { rootMargin: "80px" });
    const check = el("label", { class: "check" }, el("input", { type: "checkbox", id: "kinds", checked: state.kinds, onchange: (event) => { state.kinds = event.target.checked; built = null; buildSubgraphs(); saveHash(); } }), "One of each kind in this round");
    const columns = data.graphs.map((graph, gi) => {
      const shown = shownSubgraphs(gi);
      const only = differing(gi);
      const thumbs = shown.map(([si, times]) => {
        const canvas = el("canvas", { width: 92 * SHARP, height: 104 * SHARP, "aria-hidden": "true" });
        canvas.dataset.graph = gi;
        canvas.dataset.subgraph = si;
        return el("button", { type: "button", class: "thumb", "data-subgraph": si, "aria-pressed": String(si === state.sub[gi]), onclick: () => { state.sub[gi] = si; render(); saveHash(); } },
          canvas, el("span", {}, times > 1 ? `×${times} ${graph.subgraphs[si].short}` : graph.subgraphs[si].short));
      });
      const kinds = new Set(data.subgraphColours[state.round][gi]).size;
      return el("div", {}, el("div", { class: "headline" }, el("h3", {}, graph.name), el("span", { class: "soft" }, `${count(graph.subgraphs.length, "subgraph")} of ${count(kinds, "kind")}${only ? `, ${only} that ${data.graphs[1 - gi].name} lacks` : ""}`)),
        el("div", { class: "thumbs", id: `thumbs-${gi}` }, thumbs));
    });
    $("panel-subgraphs").replaceChildren(el("div", { class: "headline" }, el("p", { class: "soft" }, legend()), check), el("div", { class: "pair" }, columns));
    labelThumbs();
    const every = $("panel-subgraphs").querySelectorAll("canvas");
    // Many are drawn when they come into view; few at once.
    for (const canvas of every) { if (every.length > 48) watcher.observe(canvas); else visible.add(canvas); }
    drawThumbs();
  }

  function legend() {
    if (!data.policy) return "The test sees the graph alone.";
    const keeps = data.graphs[0].keeps;
    return (keeps ? "Deleted edges are dashed. " : "") + (data.graphs[0].subgraphs.some((sub) => sub.marks.length) ? "Marked nodes have a bold ring. " : data.graphs[0].subgraphs.some((sub) => sub.root !== null) ? "Roots have a dashed ring. " : "") + "The bar is the histogram of colours.";
  }

  function differing(gi) {
    if (data.graphs.length < 2) return 0;
    const other = new Set(data.subgraphColours[state.round][1 - gi]);
    return data.subgraphColours[state.round][gi].filter((colour) => !other.has(colour)).length;
  }

  // What readers of the screen hear of each subgraph; set after the picture, which is seen first.
  let labelling = null;
  function labelThumbs() {
    clearTimeout(labelling);
    for (const button of $("panel-subgraphs").querySelectorAll(".thumb")) {
      const { graph, subgraph } = button.firstChild.dataset;
      put(d3.select(button), "aria-pressed", String(Number(subgraph) === state.sub[Number(graph)]));
    }
    labelling = setTimeout(nameThumbs, 60);
  }
  function nameThumbs() {
    for (const button of $("panel-subgraphs").querySelectorAll(".thumb")) {
      const canvas = button.firstChild;
      const [gi, si] = [Number(canvas.dataset.graph), Number(canvas.dataset.subgraph)];
      const colours = histogram(ofSubgraph(gi, si)).slice(0, 12).map(([number, often]) => `${number + 1} ×${often}`).join(", ");
      put(d3.select(button), "aria-label", `${data.graphs[gi].subgraphs[si].title}. Colours ${colours}`);
    }
  }

  function drawThumb(canvas, paint) {
    const [gi, si] = [Number(canvas.dataset.graph), Number(canvas.dataset.subgraph)];
    const context = canvas.getContext("2d");
    context.setTransform(SHARP, 0, 0, SHARP, 0, 0);
    context.clearRect(0, 0, 92, 104);
    onCanvas(context, data.couples ? matrixParts(gi, si, { x: 2, y: 0, size: 88 }) : scene(gi, si, { x: 0, y: 0, size: 92 }, paint));
    onCanvas(context, histogramParts(ofSubgraph(gi, si), 4, 95, 84, 7));
  }

  function drawThumbs(only = null) {
    const paint = css();
    for (const canvas of visible) if (only === null || Number(canvas.dataset.graph) === only) drawThumb(canvas, paint);
  }

  // ---- colours --------------------------------------------------------------------------------------------------

  function drawColours() {
    const both = data.graphs.length > 1;
    const counts = data.graphs.map((_, gi) => new Map(histogram(cells(gi))));
    const total = data.totals[state.round];
    const rows = d3.range(total).map((number) => ({ number, often: counts.map((one) => one.get(number) || 0) }));
    const differs = (row) => both && row.often[0] !== row.often[1];
    rows.sort((a, b) => (a.number === witnessColour() ? -1 : 0) - (b.number === witnessColour() ? -1 : 0) || differs(b) - differs(a) || a.number - b.number);
    const most = d3.max(rows, (row) => d3.max(row.often)) || 1;
    const shown = state.all ? rows : rows.slice(0, 24);
    const first = witnessColour();
    const thing = data.couples ? "couples" : data.policy ? "pairs" : "nodes";
    const body = shown.map((row) => {
      const found = meaning(row.number);
      const meter = (often) => { const bar = el("i"); bar.style.width = `${(100 * often) / most}%`; return el("span", { class: "meter", "aria-hidden": "true" }, bar); };
      return el("tr", { class: differs(row) ? "differs" : "" }, el("th", { scope: "row" }, dot(row.number, row.number === first)),
        el("td", {}, found ? dot(found.was) : "–"), el("td", {}, found ? el("div", { class: "saw" }, ...spread(found.saw, null, found.label)) : "at the start"),
        ...(data.shares ? [el("td", {}, found && found.copies !== null ? el("div", { class: "saw" }, ...multiset(found.copies, state.round - 1, 6)) : "–")] : []),
        ...row.often.map((often) => el("td", { class: "num" }, `${often.toLocaleString("en")} `, meter(often))));
    });
    const head = el("tr", {}, ...["Colour", "Was", "Saw", ...(data.shares ? ["Copies of its node"] : [])].map((name) => el("th", { scope: "col" }, name)), ...data.graphs.map((graph) => el("th", { scope: "col", class: "num" }, `${thing} in ${graph.name}`)));
    const more = rows.length > shown.length ? el("p", { class: "words" }, el("button", { type: "button", onclick: () => { state.all = true; drawColours(); } }, `Show all ${rows.length.toLocaleString("en")} colours`)) : null;
    const apart = rows.filter(differs).length;
    const words = both ? `${count(total, "colour")} in round ${state.round}; ${apart ? `${apart} occur more often in one graph than in the other (marked)` : "all occur equally often in both graphs"}.` : `${count(total, "colour")} in round ${state.round}.`;
    $("panel-colours").replaceChildren(el("p", { class: "words" }, `${words} A round makes `, el("code", { class: "nowrap" }, data.rule), "."), el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of colours" }, el("table", { class: "list" }, el("thead", {}, head), el("tbody", {}, body))), ...(more ? [more] : []));
  }

  // ---- a matrix of node × subgraph ------------------------------------------------------------------------------

  const packs = new Map();
  function packed(colour) {
    if (!packs.has(colour)) { const { r, g, b } = d3.rgb(colour); packs.set(colour, ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0); }
    return packs.get(colour);
  }

  function matrix(gi, fill, label, extra = 0, label_ = null) {
    const graph = data.graphs[gi];
    const m = graph.subgraphs.length;
    const side = Math.max(Math.min(Math.floor(Math.min(520, window.innerWidth - 110) / (m + extra)), extra ? 24 : 30), 4);
    const gutter = 26;
    const [width, height] = [gutter + (m + extra) * side + (extra ? 8 : 0), graph.n * side + 18];
    const canvas = el("canvas", { width: SHARP * width, height: SHARP * height, role: "img", "aria-label": label });
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(SHARP, SHARP);
    const paint = css();
    const parts = [];
    const left = gutter + (extra ? extra * side + 8 : 0);
    // One pixel per cell, enlarged without smoothing: as fast for thousands of cells as for ten.
    const small = el("canvas", { width: m, height: graph.n });
    const dots = small.getContext("2d");
    const image = dots.createImageData(m, graph.n);
    const whole = new Uint32Array(image.data.buffer);
    for (let v = 0; v < graph.n; v += 1) for (let s = 0; s < m; s += 1) whole[v * m + s] = packed(fill(v, s));
    dots.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, left, 16, m * side, graph.n * side);
    context.fillStyle = paint.card;
    const line = side >= 8 ? 1 : 0.5;
    for (let s = 1; s <= m; s += 1) context.fillRect(left + s * side - line, 16, line, graph.n * side);
    for (let v = 1; v <= graph.n; v += 1) context.fillRect(left, 16 + v * side - line, m * side, line);
    const every = side >= 10 ? 1 : Math.ceil(12 / side);
    for (let v = 0; v < graph.n; v += 1) {
      const y = 16 + v * side;
      if (v % every === 0) parts.push({ k: "text", x: gutter - 12, y: y + side / 2, t: String(v), size: 10, c: paint.soft });
      if (label_ && side >= 13) for (let s = 0; s < m; s += 1) parts.push(...label_(v, s, left + s * side, y, side, paint));
      if (extra) parts.push({ k: "box", x: gutter, y, w: side - 1, h: side - 1, f: paint.soft });
    }
    for (let s = 0; s < m; s += Math.max(every, side < 16 ? 5 : 1)) parts.push({ k: "text", x: left + (s + 0.5) * side, y: 7, t: String(s + 1), size: 10, c: paint.soft });
    onCanvas(context, parts);
    if (state.node && state.node[0] === gi) { context.strokeStyle = paint.accent; context.lineWidth = 2; context.strokeRect(gutter - 1, 15 + state.node[1] * side, width - gutter, side + 1); }
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const v = Math.floor((event.clientY - box.top - 16) / side);
      const s = Math.floor((event.clientX - box.left - left) / side);
      if (v < 0 || v >= graph.n) return;
      state.node = [gi, v];
      if (s >= 0 && s < m) state.sub[gi] = s;
      render();
      saveHash();
    });
    return el("div", { class: "matrix", tabindex: "0", role: "group", "aria-label": label }, canvas);
  }

  function drawShared() {
    const words = data.couples ? "This test colours couples of nodes; copies are compared by DS and DSS tests on nodes."
      : data.shares ? "Each row is a node, each column a subgraph: a row holds the copies of one node. DSS-WL gives every copy the multiset of its row, and the multisets of the rows of its neighbours, before the next round."
        : data.policy ? "Each row is a node, each column a subgraph. DS-WL looks at one column at a time; it never compares the copies of a node along a row. DSS-WL does."
          : "The test sees the graph alone: there are no copies.";
    const columns = data.couples || !data.policy ? [] : data.graphs.map((graph, gi) => {
      const colours = cells(gi);
      const first = witnessColour();
      const fill = (v, s) => tone(colours[s * graph.n + v]);
      const letter = (v, s, x, y, side, paint) => {
        const number = colours[s * graph.n + v];
        const made = number === first ? [{ k: "box", x, y, w: side - 1, h: side - 1, f: paint.halo }, { k: "box", x: x + 2, y: y + 2, w: side - 5, h: side - 5, f: tone(number) }] : [];
        return [...made, { k: "text", x: x + (side - 1) / 2, y: y + side / 2, t: String(number + 1), size: side * (number > 98 ? 0.4 : 0.5), c: inkOn(number), bold: true }];
      };
      const classes = data.shares ? new Set(data.copies[state.round].ofNode[gi]).size : null;
      const label = `Colours of ${graph.name}: ${graph.n} nodes in rows, ${graph.subgraphs.length} subgraphs in columns`;
      return el("div", {}, el("div", { class: "headline" }, el("h3", {}, graph.name), el("span", { class: "soft" }, classes === null ? "" : `${count(classes, "kind")} of rows`)), matrix(gi, fill, label, 0, letter), rowWords(gi));
    });
    $("panel-shared").replaceChildren(el("p", { class: "words" }, words), el("div", { class: "pair" }, columns));
  }

  function rowWords(gi) {
    if (!data.shares) return null;
    const graph = data.graphs[gi];
    const v = state.node && state.node[0] === gi ? state.node[1] : 0;
    const say = (w) => multiset(data.copies[state.round].ofNode[gi][w], state.round, 8);
    const around = neighbours(gi, v).slice(0, 6);
    return el("table", { class: "list" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Node"), el("th", { scope: "col" }, "Its copies hold"))),
      el("tbody", {}, el("tr", {}, el("th", { scope: "row" }, `${v}`), el("td", {}, el("div", { class: "saw" }, say(v)))), around.map((w) => el("tr", {}, el("td", { class: "soft" }, `neighbour ${w}`), el("td", {}, el("div", { class: "saw" }, say(w)))))));
  }

  // ---- the compact bag ------------------------------------------------------------------------------------------

  function drawBag() {
    if (!data.bags) { $("panel-bag").replaceChildren(el("p", { class: "words" }, "The test sees the graph alone: choose a test on bags, such as DS-WL, and a policy.")); return; }
    const last = d3.max(data.bags, (bag) => bag.rows.length - 1);
    state.layer = Math.min(state.layer, last);
    const input = el("input", { type: "range", id: "layer", min: 0, max: last, step: 1, value: state.layer, oninput: (event) => { state.layer = Number(event.target.value); fillBag(); saveHash(); } });
    input.value = state.layer;
    $("panel-bag").replaceChildren(el("p", { class: "words" }, "The compact bag stores one row per node (the column on the left) and one per pair of node and subgraph that differs from it so far. All other pairs read the node’s own row, and the result is the same."),
      el("div", { class: "layer" }, el("label", { for: "layer", id: "layerlabel" }), input), el("div", { class: "pair", id: "bags" }));
    fillBag();
  }

  function fillBag() {
    const t = state.layer;
    $("layerlabel").textContent = `Layer ${t}`;
    const shades = d3.scaleSequential(d3.interpolateHsl("#0f5c9c", "#9cc7ea")).domain([0, 6]);
    $("bags").replaceChildren(...data.graphs.map((graph, gi) => {
      const bag = data.bags[gi];
      const at = Math.min(t, bag.rows.length - 1);
      const fill = (v, s) => {
        const level = bag.level[s * graph.n + v];
        return level >= 0 && level <= t ? (level === t && t > 0 ? "#e0752f" : shades(Math.min(level, 6))) : css().line;
      };
      const share = Math.round((100 * bag.rows[at]) / bag.literalRows);
      const size = bag.bytes[at] === null ? "" : `, ${bytes(bag.bytes[at])}`;
      const rows = bag.rows.map((stored, layer) => el("tr", { class: layer === at ? "differs" : "" }, el("td", { class: "num" }, String(layer)), el("td", { class: "num" }, `+${(layer ? stored - bag.rows[layer - 1] : stored).toLocaleString("en")}`), el("td", { class: "num" }, stored.toLocaleString("en")), el("td", { class: "num" }, bag.bytes[layer] === null ? "–" : bytes(bag.bytes[layer]))));
      return el("div", {}, el("h3", {}, graph.name), el("p", { class: "figure" }, el("b", {}, bag.rows[at].toLocaleString("en")), ` rows${size}, ${share} % of the ${bag.literalRows.toLocaleString("en")} rows (${bytes(bag.literalBytes)}) of the literal bag`),
        el("div", { class: "beside" }, matrix(gi, fill, `Rows of the compact bag of ${graph.name} up to layer ${at}: ${bag.rows[at]} of ${bag.literalRows}`, 1),
        el("table", { class: "list" }, el("thead", {}, el("tr", {}, ...["Layer", "New rows", "Rows", "Bytes"].map((name) => el("th", { scope: "col", class: "num" }, name)))), el("tbody", {}, rows))));
    }));
  }

  // ---- rounds ---------------------------------------------------------------------------------------------------

  function sentence() {
    const t = state.round;
    const last = data.rounds - 1;
    const colours = data.totals[t];
    const same = colours === 1 ? "the same colour" : `the same ${colours.toLocaleString("en")} colours`;
    const stable = t === last ? " Nothing changes any more." : "";
    if (!data.verdict) return `Round ${t}: ${count(colours, "colour")}.${stable}`;
    const { witness } = data.verdict;
    if (data.parted !== null) {
      if (t < data.parted) return `Round ${t}: ${data.graphs[0].name} and ${data.graphs[1].name} have ${same}.`;
      return t === data.parted ? witness.text : `Round ${t}: they have differed since round ${data.parted}. ${witness.text}`;
    }
    return t === last ? data.verdict.text : `Round ${t}: both graphs have ${same}.`;
  }

  function drawSteps() {
    const input = $("round");
    input.max = data.rounds - 1;
    input.value = state.round;
    input.setAttribute("aria-valuetext", `Round ${state.round} of ${data.rounds - 1}`);
    input.disabled = data.rounds < 2;
    $("roundlabel").textContent = `Round ${state.round}`;
    $("back").disabled = state.round === 0;
    $("next").disabled = $("play").disabled = state.round >= data.rounds - 1;
    if (timer !== null) $("play").disabled = false;
    $("sentence").textContent = sentence();
    const badge = $("badge");
    const verdict = data.verdict;
    const name = `${data.testName}${data.policy ? `, ${data.policy}` : ""}`;
    badge.textContent = !verdict ? name : verdict.separated ? `Separated in round ${data.verdict.witness.round}` : { identical: "Identical graphs", isomorphic: "Isomorphic graphs" }[verdict.relation] || "Not separated";
    badge.className = `badge ${!verdict ? "" : verdict.separated ? "good" : "warn"}`;
  }

  function drawMarks() {
    $("marks").replaceChildren(...d3.range(data.rounds).map((t) => {
      const mark = el("i", { class: t === data.parted ? "parted" : "" });
      mark.style.left = data.rounds > 1 ? `${(100 * t) / (data.rounds - 1)}%` : "0";
      return mark;
    }));
  }

  function goto(t) {
    const round = Math.min(Math.max(t, 0), data.rounds - 1);
    if (round === state.round) return;
    state.round = round;
    state.all = false;
    render();
    saveHash();
  }

  function play() {
    if (timer !== null) { stop(); return; }
    $("play").setAttribute("aria-pressed", "true");
    $("play").textContent = "Stop";
    timer = setInterval(() => { if (state.round >= data.rounds - 1) stop(); else goto(state.round + 1); }, 1200);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    $("play").setAttribute("aria-pressed", "false");
    $("play").textContent = "Play";
    if (data) drawSteps();
  }

  function pickSubgraph(gi, step) { pickSubgraphs([gi], step); }
  function pickSubgraphs(some, step) {
    for (const gi of some) { const m = data.graphs[gi].subgraphs.length; state.sub[gi] = (state.sub[gi] + step + m) % m; }
    render(true);
    saveHash();
  }

  // ---- the whole page -------------------------------------------------------------------------------------------

  // What stays as it is when only the subgraph is another one is not drawn again.
  function render(sameRound = false) {
    drawSteps();
    data.graphs.forEach((_, gi) => drawFocus(gi));
    drawSeen();
    if (state.tab === "subgraphs") {
      if (state.kinds || built !== data) buildSubgraphs();
      else { if (!sameRound) { drawThumbs(); heads(); } labelThumbs(); }
    } else if (state.tab !== "bag" && !(sameRound && state.tab === "colours")) drawTab();
    else if (state.tab === "bag" && data.bags && !sameRound) outline();
  }
  function heads() {
    data.graphs.forEach((graph, gi) => {
      const kinds = new Set(data.subgraphColours[state.round][gi]).size;
      const only = differing(gi);
      const head = $(`thumbs-${gi}`);
      if (head) head.previousSibling.lastChild.textContent = `${count(graph.subgraphs.length, "subgraph")} of ${count(kinds, "kind")}${only ? `, ${only} that ${data.graphs[1 - gi].name} lacks` : ""}`;
    });
  }
  function outline() { if (state.outlined !== String(state.node)) { state.outlined = String(state.node); fillBag(); } }
  function drawTab() { ({ subgraphs: buildSubgraphs, colours: drawColours, shared: drawShared, bag: drawBag })[state.tab](); }

  function openTab(name) {
    state.tab = name;
    for (const [key_] of TABS) {
      const chosen = key_ === name;
      $(`tab-${key_}`).setAttribute("aria-selected", String(chosen));
      $(`tab-${key_}`).setAttribute("tabindex", chosen ? "0" : "-1");
      $(`panel-${key_}`).hidden = !chosen;
    }
    const tab = $(`tab-${name}`);
    $("tabs").scrollLeft = tab.offsetLeft - ($("tabs").clientWidth - tab.offsetWidth) / 2;
    if (data) drawTab();
  }

  function showAll() {
    $("g").value = state.graphs[0] || "";
    $("h").value = state.graphs[1] || "";
    $("test").value = state.test;
    $("policy").value = state.policy || "";
    usePolicy();
    buildCards();
    drawMarks();
    openTab(state.tab);
    render();
    tell();
    document.body.dataset.ready = "true";
  }

  function usePolicy() {
    const takes = setup.tests.find((test) => test.name === $("test").value);
    $("policy").disabled = !setup.token || !(takes && takes.subgraphs);
    $("policy").placeholder = takes && !takes.subgraphs ? "none" : "ED";
  }

  function fail(errors) {
    for (const name of ["g", "h", "test", "policy", "view"]) {
      $(`${name}-error`).textContent = errors[name] || "";
      if (name !== "view") { if (errors[name]) $(name).setAttribute("aria-invalid", "true"); else $(name).removeAttribute("aria-invalid"); }
    }
  }

  async function ask(choice) {
    const known = views.get(key(choice));
    if (known) return { view: known };
    if (!setup.token) return { error: { field: "view", message: "Expected a choice whose results this page holds (got another). Choosing or editing graphs needs the server: run esan explore." } };
    try {
      const reply = await fetch("view", { method: "POST", headers: { "Content-Type": "application/json", "X-Esan-Token": setup.token }, body: JSON.stringify(choice), cache: "no-store" });
      return await reply.json();
    } catch (error) {
      return { error: { field: "view", message: "Expected the server to answer (got no reply). Is esan explore still running?" } };
    }
  }

  async function load(choice, look = {}) {
    stop();
    asked += 1;
    const mine = asked;
    const late = setTimeout(() => document.body.classList.add("busy"), 150);
    const reply = await ask(choice);
    clearTimeout(late);
    if (mine !== asked) return false;
    document.body.classList.remove("busy");
    if (reply.error) { fail({ [reply.error.field]: reply.error.message }); document.body.dataset.ready = "true"; return false; }
    fail(look.notice ? { view: look.notice } : {});
    data = reply.view;
    data.totals = data.colours.map((round) => d3.max(round, (numbers) => d3.max(numbers)) + 1);
    views.set(key(choice), data);
    if (views.size > 60) views.delete(views.keys().next().value);
    state.graphs = choice.graphs;
    state.test = choice.test;
    state.policy = choice.policy || null;
    const witness = data.verdict && data.verdict.witness;
    state.round = Math.min(look.round === undefined ? (data.parted === null ? 0 : data.parted) : look.round, data.rounds - 1);
    if (!look.keep) {
      state.moved = [null, null];
      state.edit = [false, false];
      state.from = [null, null];
      state.node = null;
      state.sub = [0, 0];
      state.kinds = false;
      if (witness && witness.subgraph !== null) {
        state.sub[witness.graph] = witness.subgraph;
        if (witness.nodes.length) state.node = [witness.graph, witness.nodes[0]];
      }
    }
    data.graphs.forEach((graph, gi) => {
      state.sub[gi] = Math.min(state.sub[gi], graph.subgraphs.length - 1);
      if (state.moved[gi] && state.moved[gi].length !== graph.n) state.moved[gi] = null;
      if (state.node && state.node[0] === gi && state.node[1] >= graph.n) state.node = null;
    });
    if (state.node && state.node[0] >= data.graphs.length) state.node = null;
    state.all = false;
    Object.assign(state, look.state || {});
    if (!look.silent) saveHash();
    showAll();
    return true;
  }

  function tell() {
    const story = setup.stories.find((one) => one.key === state.story);
    for (const button of $("stories").children) button.setAttribute("aria-pressed", String(button.dataset.story === state.story));
    $("tale").hidden = !story;
    if (!story) return;
    const at = key({ graphs: state.graphs, test: state.test, policy: state.policy });
    const looks = [story.look, ...story.others];
    $("tale").replaceChildren(el("p", {}, story.text), el("div", {}, looks.length < 2 ? null : looks.map((look) => el("button", { type: "button", "aria-pressed": String(key(look) === at), onclick: () => see(story, look) }, look.says))));
  }
  function see(story, look) {
    return load({ graphs: look.graphs, test: look.test, policy: look.policy }, { round: look.round, state: { story: story.key, tab: look.panel, layer: look.layer } });
  }

  // ---- links ----------------------------------------------------------------------------------------------------

  let saving = null;
  function saveHash() {
    // Browsers allow few changes a second; dragging makes many.
    clearTimeout(saving);
    saving = setTimeout(() => history.replaceState(null, "", hash()), 300);
  }
  function hash() {
    const words = new URLSearchParams();
    words.set("g", state.graphs[0]);
    if (state.graphs[1]) words.set("h", state.graphs[1]);
    words.set("test", state.test);
    if (state.policy) words.set("policy", state.policy);
    words.set("round", state.round);
    words.set("sub", state.sub.join("."));
    words.set("tab", state.tab);
    if (state.node) words.set("node", state.node.join("."));
    if (state.layer) words.set("layer", state.layer);
    if (state.story) words.set("story", state.story);
    if (state.kinds) words.set("kinds", "1");
    state.moved.forEach((spots, gi) => { if (spots && data.graphs[gi]) words.set(`at${gi}`, spots.map((spot) => spot.map((x) => Math.round(x * 1000)).join(".")).join("_")); });
    return `#${words}`;
  }
  function fromHash() {
    const words = new URLSearchParams(location.hash.slice(1));
    if (!words.get("g")) return null;
    const whole = (text, most = 1e6) => Math.min(Math.max(Number.parseInt(text, 10) || 0, 0), most);
    const pair = (text) => (text || "").split(".").map((part) => whole(part));
    const graphs = [words.get("g"), words.get("h")].filter((text) => text);
    const moved = [0, 1].map((gi) => { const text = words.get(`at${gi}`); return text ? text.split("_").map((spot) => pair(spot).slice(0, 2).map((x) => Math.min(x, 1000) / 1000)).filter((spot) => spot.length === 2) : null; });
    const tab = TABS.some(([name]) => name === words.get("tab")) ? words.get("tab") : "subgraphs";
    const sub = pair(words.get("sub"));
    return {
      choice: { graphs, test: words.get("test") || "dss", policy: words.get("policy") || null },
      look: { round: whole(words.get("round")), silent: true },
      view: { tab, layer: whole(words.get("layer"), 99), story: words.get("story"), sub: [sub[0] || 0, sub[1] || 0], node: words.get("node") ? pair(words.get("node")).slice(0, 2) : null, moved, kinds: words.get("kinds") === "1" },
    };
  }
  async function openHash() {
    const asked_ = fromHash();
    if (!asked_) return false;
    if (!(await load(asked_.choice, { ...asked_.look, state: { tab: asked_.view.tab, story: asked_.view.story } }))) {
      $("g").value = asked_.choice.graphs[0] || "";
      $("h").value = asked_.choice.graphs[1] || "";
      return false;
    }
    const found = asked_.view;
    data.graphs.forEach((graph, gi) => { found.sub[gi] = Math.min(found.sub[gi], graph.subgraphs.length - 1); if (found.moved[gi] && found.moved[gi].length !== graph.n) found.moved[gi] = null; });
    if (found.node && (!data.graphs[found.node[0]] || found.node.length < 2 || found.node[1] >= data.graphs[found.node[0]].n)) found.node = null;
    Object.assign(state, found);
    showAll();
    return true;
  }

  // ---- exports --------------------------------------------------------------------------------------------------

  function picture() {
    const parts = [];
    const columns = data.graphs.length;
    const width = columns * 440 + 40;
    let y = 34;
    const words = sentence();
    const title = `${data.graphs.map((graph) => graph.name).join(" and ")}: ${data.testName}${data.policy ? `, ${data.policy}` : ""}`;
    parts.push({ k: "text", x: 24, y, t: title, size: 17, c: LIGHT.ink, bold: true, left: true });
    for (const line of wrapped(words, Math.floor(width / 7.2))) { y += 22; parts.push({ k: "text", x: 24, y, t: line, size: 13, c: LIGHT.soft, left: true }); }
    y += 24;
    let end = y;
    data.graphs.forEach((graph, gi) => {
      const x = 30 + gi * 440;
      parts.push({ k: "text", x: x + 200, y: y + 10, t: `${graph.name}, ${graph.subgraphs[state.sub[gi]].title}`, size: 13, c: LIGHT.ink });
      parts.push(...scene(gi, state.sub[gi], { x: x + 10, y: y + 20, size: 380 }, LIGHT));
      const found = histogram(ofSubgraph(gi, state.sub[gi])).slice(0, 14);
      found.forEach(([number, often], k) => {
        const [cx, cy] = [x + 20 + (k % 7) * 56, y + 424 + Math.floor(k / 7) * 28];
        parts.push({ k: "disc", x: cx, y: cy, r: 10, f: tone(number), s: "#3c444e", w: 0.8 }, { k: "text", x: cx, y: cy, t: String(number + 1), size: 10, c: inkOn(number), bold: true }, { k: "text", x: cx + 14, y: cy, t: `×${often}`, size: 12, c: LIGHT.soft, left: true });
      });
      let low = y + 424 + Math.ceil(found.length / 7) * 28;
      if (graph.subgraphs.length > 1) {
        const shown = shownSubgraphs(gi).slice(0, 24);
        shown.forEach(([si, times], k) => {
          const [tx, ty] = [x + (k % 4) * 102, low + Math.floor(k / 4) * 124];
          parts.push(...(data.couples ? matrixParts(gi, si, { x: tx + 3, y: ty, size: 90 }) : scene(gi, si, { x: tx, y: ty, size: 96 }, LIGHT)), ...histogramParts(ofSubgraph(gi, si), tx + 6, ty + 98, 84, 6));
          parts.push({ k: "text", x: tx + 48, y: ty + 113, t: (times > 1 ? `×${times} ` : "") + graph.subgraphs[si].short, size: 9, c: LIGHT.soft });
        });
        low += Math.ceil(shown.length / 4) * 124;
      }
      end = Math.max(end, low);
    });
    return { width, height: end + 16, parts };
  }
  function wrapped(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) { if (lines[lines.length - 1].length + word.length > most) lines.push(""); lines[lines.length - 1] += (lines[lines.length - 1] ? " " : "") + word; }
    return lines;
  }
  const places2 = (x) => Number(x.toFixed(2));
  function asSvg({ width, height, parts }) {
    const root = document.implementation.createDocument("http://www.w3.org/2000/svg", "svg", null);
    const make = (name, given, text) => {
      const made = root.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [attribute, value] of Object.entries(given)) if (value !== undefined) made.setAttribute(attribute, typeof value === "number" ? places2(value) : value);
      if (text !== undefined) made.textContent = text;
      root.documentElement.append(made);
    };
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", role: "img" })) root.documentElement.setAttribute(name, value);
    make("title", {}, `${data.graphs.map((graph) => graph.name).join(" and ")}, round ${state.round}`);
    make("rect", { width, height, fill: LIGHT.card });
    for (const one of parts) {
      const dash = one.dash ? one.dash.map(places2).join(" ") : undefined;
      if (one.k === "line") make("line", { x1: one.x1, y1: one.y1, x2: one.x2, y2: one.y2, stroke: one.c, "stroke-width": one.w, "stroke-dasharray": dash });
      else if (one.k === "disc") make("circle", { cx: one.x, cy: one.y, r: one.r, fill: one.f || "none", stroke: one.s, "stroke-width": one.w, "stroke-dasharray": dash });
      else if (one.k === "box") make("rect", { x: one.x, y: one.y, width: one.w, height: one.h, fill: one.f });
      else make("text", { x: one.x, y: one.y, "font-size": one.size, fill: one.c, "font-weight": one.bold ? 600 : undefined, "text-anchor": one.left ? "start" : "middle", "dominant-baseline": "central" }, one.t);
    }
    return new XMLSerializer().serializeToString(root);
  }
  function asTikz({ height, parts }) {
    const escape = (text) => text.replace(/[\\{}$&#^_~%<>×–…’]/g, (letter) => ({ "\\": "\\textbackslash{}", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "<": "\\textless{}", ">": "\\textgreater{}", "×": "$\\times$", "–": "--", "…": "\\dots{}", "’": "'" })[letter] || `\\${letter}`);
    const names = new Map();
    const named = (colour) => { const hex = d3.color(colour).formatHex().slice(1).toUpperCase(); if (!names.has(hex)) names.set(hex, `esan${d3.range(26).map((k) => String.fromCharCode(97 + k))[names.size % 26]}${Math.floor(names.size / 26) || ""}`); return names.get(hex); };
    const at = (x, y) => `(${(x / 40).toFixed(3)},${((height - y) / 40).toFixed(3)})`;
    const body = parts.map((one) => {
      const dash = one.dash ? ", dashed" : "";
      if (one.k === "line") return `\\draw[${named(one.c)}, line width=${(one.w * 0.7).toFixed(2)}pt${dash}] ${at(one.x1, one.y1)} -- ${at(one.x2, one.y2)};`;
      if (one.k === "disc") return `\\path[${one.f ? `fill=${named(one.f)}` : ""}${one.s ? `${one.f ? ", " : ""}draw=${named(one.s)}, line width=${(one.w * 0.7).toFixed(2)}pt${dash}` : ""}] ${at(one.x, one.y)} circle[radius=${(one.r / 40).toFixed(3)}];`;
      if (one.k === "box") return `\\fill[${named(one.f)}] ${at(one.x, one.y)} rectangle ${at(one.x + one.w, one.y + one.h)};`;
      return `\\node[${named(one.c)}, inner sep=0pt, ${one.left ? "anchor=west, " : ""}font=\\fontsize{${(one.size * 0.7).toFixed(1)}}{${one.size.toFixed(1)}}\\selectfont${one.bold ? "\\bfseries" : ""}] at ${at(one.x, one.y)} {${escape(one.t)}};`;
    });
    const colours = [...names].map(([hex, name]) => `\\definecolor{${name}}{HTML}{${hex}}`);
    return ["% Needs \\usepackage{tikz} (with xcolor).", ...colours, "\\begin{tikzpicture}", ...body, "\\end{tikzpicture}", ""].join("\n");
  }
  function asCanvas({ width, height, parts }) {
    const canvas = el("canvas", { width: 2 * width, height: 2 * height });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    context.fillStyle = LIGHT.card;
    context.fillRect(0, 0, width, height);
    onCanvas(context, parts);
    return canvas;
  }
  function download(blob, name) {
    const link = el("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    $("said").textContent = `Saved ${name}.`;
  }
  async function copyLink() {
    history.replaceState(null, "", hash());
    try { await navigator.clipboard.writeText(location.href); $("said").textContent = "Link copied."; } catch (error) { $("said").textContent = "The address of this page is the link: copy it from the address bar."; }
  }

  // ---- start ----------------------------------------------------------------------------------------------------

  function setTheme(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    $("theme").textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
    $("theme").setAttribute("aria-label", `Colour scheme: ${{ auto: "automatic", light: "light", dark: "dark" }[theme]}`);
    repaint();
  }
  function repaint() {
    paints = null;
    if (data) render();
  }

  function start() {
    $("stories").replaceChildren(...setup.stories.map((story) => el("button", { type: "button", "data-story": story.key, "aria-pressed": "false", onclick: () => see(story, story.look) }, story.title)));
    $("test").replaceChildren(...setup.tests.map((test) => el("option", { value: test.name }, test.title)));
    $("names").replaceChildren(...setup.names.map((name) => el("option", { value: name })));
    $("policies").replaceChildren(...setup.policies.map((name) => el("option", { value: name })));
    $("tabs").replaceChildren(...TABS.map(([name, title]) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, onclick: () => { openTab(name); saveHash(); } }, title)));
    $("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      event.preventDefault();
      const place = TABS.findIndex(([name]) => name === state.tab);
      const [name] = TABS[(place + step + TABS.length) % TABS.length];
      openTab(name);
      $(`tab-${name}`).focus();
    });
    if (!setup.token) {
      $("offline").hidden = false;
      for (const name of ["g", "h", "test", "policy", "show"]) $(name).disabled = true;
    }
    $("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const test = setup.tests.find((one) => one.name === $("test").value);
      const graphs = [$("g").value.trim(), $("h").value.trim()].filter((text, place) => place === 0 || text);
      load({ graphs, test: test.name, policy: test.subgraphs ? $("policy").value.trim() || "ED" : null }, { state: { story: null } });
    });
    $("test").addEventListener("change", usePolicy);
    $("round").addEventListener("input", (event) => goto(Number(event.target.value)));
    $("back").addEventListener("click", () => goto(state.round - 1));
    $("next").addEventListener("click", () => goto(state.round + 1));
    $("play").addEventListener("click", play);
    $("help").addEventListener("click", () => $("keys").showModal());
    $("theme").addEventListener("click", () => setTheme({ undefined: "light", light: "dark", dark: "auto" }[document.documentElement.dataset.theme]));
    $("link").addEventListener("click", copyLink);
    $("svg").addEventListener("click", () => download(new Blob([asSvg(picture())], { type: "image/svg+xml" }), "esan.svg"));
    $("png").addEventListener("click", () => asCanvas(picture()).toBlob((blob) => download(blob, "esan.png")));
    $("tikz").addEventListener("click", () => download(new Blob([asTikz(picture())], { type: "text/x-tex" }), "esan.tex"));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    window.addEventListener("hashchange", openHash);
    document.addEventListener("keydown", (event) => {
      if (!data || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=range]), select, dialog[open]")) return;
      const steps = { ArrowLeft: state.round - 1, ArrowRight: state.round + 1, Home: 0, End: data.rounds - 1 };
      // A slider of its own moves by itself, and scrolling with the arrows stays within what scrolls.
      if (event.key in steps && !event.target.closest("input, .thumbs, .scroll, .matrix")) goto(steps[event.key]);
      else if (event.key === " " && !event.target.closest("button, a, [role=button]")) play();
      else if (event.key === "s" || event.key === "S") pickSubgraphs(d3.range(data.graphs.length), event.shiftKey ? -1 : 1);
      else if (/^[1-6]$/.test(event.key) && setup.stories[Number(event.key) - 1]) see(setup.stories[Number(event.key) - 1], setup.stories[Number(event.key) - 1].look);
      else if ((event.key === "e" || event.key === "E") && setup.token) toggleEdit(state.node ? state.node[0] : 0);
      else if ((event.key === "n" || event.key === "N") && state.edit.includes(true)) addNode(state.edit[0] ? 0 : 1);
      else if (event.key === "Delete" && state.node && state.edit[state.node[0]]) removeNode(state.node[0]);
      else if (event.key === "?") $("keys").showModal();
      else return;
      event.preventDefault();
    });
    openTab("subgraphs");
    openHash().then((opened) => {
      if (opened || location.hash.length > 1 && data) return;
      if (setup.first) load(setup.first.choice, { ...(setup.first.round === null ? {} : { round: setup.first.round }), state: { story: setup.first.story, tab: setup.first.panel } });
    });
  }
  start();
})();
