// The timeline: one lane per CPU, spans of containers, marks of entries, a cursor. Drawn on a canvas from sorted arrays, so
// that a frame costs what is visible and not what the journal has.

import { cpuList, el } from "./dom.js";

const LABELS = 92;
const MARKS = 34;
const AXIS = 22;
const LANE = 12;
const LEAST_LANE = 2;
const MOST_HEIGHT = 640;
const COLOURS = ["#5fafff", "#ffaf00", "#5fd787", "#ff87ff", "#d7d75f", "#ff875f", "#5fd7d7", "#afafff", "#afd787", "#ffafaf", "#d7af5f", "#d7afff"];
const MARK_COLOURS = { rejected: "--bad", settings: "#8250df", devices: "--warn" };

/** The first index at which `of` is not below a value in a sorted array. */
function lowerBound(array, value, of) {
  let [low, high] = [0, array.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(array[middle]) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A timeline. `onmoment` gets the number of an entry, or null for now; `onentry` the entry that was clicked. */
export function timeline({ lanes, onmoment, onentry }) {
  const canvas = el("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "timeline",
    "aria-label": "Timeline of the journal. Left and right move in time, plus and minus zoom, Page Up and Page Down go from entry to entry, Enter shows the entry, Escape returns to now." });
  const tip = el("div", { className: "tip", hidden: true });
  const root = el("div", { className: "canvas-frame" }, canvas, tip);
  const context = canvas.getContext("2d");
  let events = [];
  let pods = [];
  let marks = [];
  let view = { from: 0, to: 1 };
  let cursor = null;
  let grouping = "cpu";
  let rows = [];
  let width = 0;
  let height = 0;
  let lane = LANE;
  let colours = {};
  let pending = 0;
  let follows = true;
  const spans = [];

  /** Rows by the grouping, and for each row its spans sorted by begin. */
  function layOut() {
    const key = { cpu: ([cpu]) => `c${cpu}`, core: ([, node, cache, core]) => `${node}/${cache}/${core}`, l3: ([, node, cache]) => `${node}/${cache}`, numa: ([, node]) => String(node) }[grouping];
    const label = { cpu: ([cpu]) => `CPU ${cpu}`, core: ([,,, core]) => `core ${core}`, l3: ([, , cache]) => `L3 ${cache}`, numa: ([, node]) => `NUMA node ${node}` }[grouping];
    const byKey = new Map();
    const rowOf = new Map();
    for (const one of lanes) {
      const own = key(one);
      if (!byKey.has(own)) byKey.set(own, { label: label(one), node: one[1], cpus: 0, spans: [], longest: 0 });
      byKey.get(own).cpus += 1;
      rowOf.set(one[0], byKey.get(own));
    }
    rows = [...byKey.values()];
    for (const span of spans) if (span) place(span, rowOf);
    for (const row of rows) finish(row);
    size();
  }

  function place(span, rowOf) {
    const touched = new Set(cpuList(span.cpus).map((cpu) => rowOf.get(cpu)).filter(Boolean));
    for (const row of touched) row.spans.push(span);
  }

  function finish(row) {
    row.spans.sort((one, other) => one.from - other.from);
    row.longest = row.spans.reduce((most, span) => Math.max(most, (span.to ?? Infinity) - span.from), 0);
  }

  function size() {
    const ratio = globalThis.devicePixelRatio || 1;
    width = root.clientWidth || 800;
    lane = Math.max(LEAST_LANE, Math.min(grouping === "cpu" ? LANE : LANE + 6, (MOST_HEIGHT - AXIS - MARKS) / Math.max(1, rows.length)));
    height = Math.ceil(AXIS + MARKS + rows.length * lane + 4);
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    colours = Object.fromEntries(["--paper", "--panel", "--line", "--line-strong", "--text", "--quiet", "--accent", "--bad", "--warn"].map((name) => [name, value(name)]));
  }

  const x = (time) => LABELS + ((time - view.from) / (view.to - view.from)) * (width - LABELS);
  const timeAt = (at) => view.from + ((at - LABELS) / (width - LABELS)) * (view.to - view.from);

  function draw() {
    if (pending) return;
    pending = requestAnimationFrame(() => {
      pending = 0;
      paint();
    });
  }

  function paint() {
    context.fillStyle = colours["--paper"];
    context.fillRect(0, 0, width, height);
    context.font = "10px ui-monospace, monospace";
    context.textBaseline = "middle";
    paintAxis();
    paintRows();
    paintMarks();
    context.fillStyle = colours["--panel"];
    context.fillRect(0, AXIS, LABELS, MARKS);
    context.fillStyle = colours["--quiet"];
    context.fillText("entries", 6, AXIS + MARKS / 2);
    if (cursor !== null) {
      const at = x(marks[cursor].time);
      context.fillStyle = colours["--accent"];
      if (at >= LABELS) context.fillRect(at - 1, 0, 2, height);
    }
  }

  function paintAxis() {
    const span = view.to - view.from;
    const steps = [1, 2, 5, 10, 50, 100, 500, 1e3, 5e3, 15e3, 6e4, 3e5, 9e5, 36e5, 108e5, 216e5, 864e5, 6048e5, 2592e6, 31536e6];
    const step = steps.find((one) => one >= (span / Math.max(2, width - LABELS)) * 110) ?? steps.at(-1);
    context.fillStyle = colours["--quiet"];
    context.strokeStyle = colours["--line"];
    context.beginPath();
    for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
      const at = Math.round(x(time)) + 0.5;
      context.moveTo(at, AXIS - 4);
      context.lineTo(at, height);
      const iso = new Date(time).toISOString();
      const text = step >= 864e5 ? iso.slice(0, 10) : step >= 6e4 ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : step >= 1000 ? iso.slice(11, 19) : iso.slice(11, 23);
      if (at + 90 < width) context.fillText(text, at + 3, AXIS / 2);
    }
    context.stroke();
    context.fillText("UTC", 6, AXIS / 2);
  }

  function paintRows() {
    const top = AXIS + MARKS;
    const every = Math.ceil(11 / lane);
    let node = null;
    rows.forEach((row, index) => {
      const y = top + index * lane;
      if (row.node !== node) {
        context.fillStyle = colours["--line-strong"];
        context.fillRect(0, y, width, 1);
        node = row.node;
      }
      const gap = lane >= 4 ? 1 : 0;
      // Spans narrower than a pixel are drawn once for each pixel.
      let drawn = -1;
      const first = Number.isFinite(row.longest) ? lowerBound(row.spans, view.from - row.longest, (span) => span.from) : 0;
      for (let at = first; at < row.spans.length; at += 1) {
        const span = row.spans[at];
        if (span.from > view.to) break;
        if ((span.to ?? Infinity) < view.from) continue;
        const left = Math.max(LABELS, x(span.from));
        const right = Math.min(width, x(span.to ?? view.to));
        if (right <= drawn) continue;
        context.fillStyle = COLOURS[span.pod % COLOURS.length];
        const wide = Math.max(1, right - left);
        context.fillRect(left, y + gap, wide, lane - gap);
        drawn = Math.floor(left + wide);
        if (lane >= 10 && wide > 48) {
          context.fillStyle = "#1f2328";
          context.save();
          context.beginPath();
          context.rect(left, y, wide - 2, lane);
          context.clip();
          context.fillText(pods[span.pod] ?? "", left + 4, y + lane / 2 + 1);
          context.restore();
        }
      }
      if (index % every === 0) {
        context.fillStyle = colours["--paper"];
        context.fillRect(0, y + 1, LABELS - 2, Math.max(lane * every, 11) - 1);
        context.fillStyle = colours["--quiet"];
        context.fillText(row.label, 6, y + Math.max(lane, 10) / 2 + 1);
      }
    });
  }

  function paintMarks() {
    const first = lowerBound(marks, view.from, (mark) => mark.time);
    const columns = new Map();
    for (let at = first; at < marks.length && marks[at].time <= view.to; at += 1) {
      const column = Math.round(x(marks[at].time));
      const name = events[marks[at].event];
      const rank = name === "rejected" ? 3 : name === "settings" ? 2 : name === "devices" ? 1 : 0;
      if ((columns.get(column) ?? -1) < rank) columns.set(column, rank);
    }
    for (const [column, rank] of columns) {
      const name = ["", "devices", "settings", "rejected"][rank];
      const colour = MARK_COLOURS[name] ?? "--line-strong";
      context.fillStyle = colour.startsWith("--") ? colours[colour] : colour;
      const tall = rank === 0 ? 8 : 24;
      context.fillRect(column, AXIS + MARKS - 4 - tall, rank === 0 ? 1 : 2, tall);
    }
  }

  function bounds() {
    const first = Math.min(marks[0]?.time ?? Infinity, spans.reduce((least, span) => Math.min(least, span?.from ?? Infinity), Infinity));
    const last = marks.at(-1)?.time ?? first;
    if (!Number.isFinite(first)) return { from: Date.now() - 6e4, to: Date.now() };
    const pad = Math.max(1000, (last - first) * 0.02);
    return { from: first - pad, to: last + pad };
  }

  function zoom(factor, middle) {
    const whole = bounds();
    const most = (whole.to - whole.from) * 1.2;
    const span = Math.min(most, Math.max(5, (view.to - view.from) * factor));
    const share = (middle - view.from) / (view.to - view.from);
    view = { from: middle - share * span, to: middle + (1 - share) * span };
    keepInside();
    follows = false;
    draw();
  }

  function keepInside() {
    const whole = bounds();
    const span = view.to - view.from;
    const pad = span * 0.5;
    if (view.from < whole.from - pad) view = { from: whole.from - pad, to: whole.from - pad + span };
    if (view.to > whole.to + pad) view = { from: whole.to + pad - span, to: whole.to + pad };
  }

  function pan(by) {
    view = { from: view.from + by, to: view.to + by };
    keepInside();
    follows = false;
    draw();
  }

  /** Moves the cursor to an entry by its index; null returns to now. */
  function moveTo(index) {
    cursor = index === null || marks.length === 0 ? null : Math.max(0, Math.min(marks.length - 1, index));
    if (cursor !== null) {
      const { time } = marks[cursor];
      if (time < view.from || time > view.to) pan(time - (view.from + view.to) / 2);
    }
    draw();
    onmoment(cursor === null ? null : marks[cursor].number);
  }

  /** The last entry at or before a time. */
  function entryAt(time) {
    const after = lowerBound(marks, time + 1, (mark) => mark.time);
    return after - 1;
  }

  function spanAt(px, py) {
    const row = rows[Math.floor((py - AXIS - MARKS) / lane)];
    if (!row || py < AXIS + MARKS) return null;
    const time = timeAt(px);
    const slack = (view.to - view.from) / width;
    let found = null;
    for (const span of row.spans) {
      if (span.from > time + slack) break;
      if ((span.to ?? Infinity) >= time - slack) found = span;
    }
    return found && { row, span: found };
  }

  function markAt(px) {
    let best = null;
    const time = timeAt(px);
    const slack = ((view.to - view.from) / width) * 5;
    for (let at = lowerBound(marks, time - slack, (mark) => mark.time); at < marks.length && marks[at].time <= time + slack; at += 1) {
      const distance = Math.abs(marks[at].time - time) - (events[marks[at].event] === "rejected" ? slack : 0);
      if (!best || distance < best.distance) best = { at, distance };
    }
    return best?.at ?? null;
  }

  function showTip(event) {
    const { offsetX: px, offsetY: py } = event;
    let text = "";
    if (px > LABELS && py > AXIS && py <= AXIS + MARKS) {
      const at = markAt(px);
      if (at !== null) text = `${events[marks[at].event]} ${pods[marks[at].pod] ?? ""} · entry ${marks[at].number} · ${new Date(marks[at].time).toISOString().slice(11, 23)}`;
    } else if (px > LABELS) {
      const found = spanAt(px, py);
      if (found) text = `${found.row.label}: ${pods[found.span.pod]} · ${found.span.container} · CPUs ${found.span.cpus}`;
    }
    tip.hidden = text === "";
    tip.textContent = text;
    tip.style.left = `${Math.min(px + 12, Math.max(0, width - 320))}px`;
    tip.style.top = `${py + 14}px`;
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, from: view.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return showTip(event);
    const by = event.offsetX - drag.x;
    if (Math.abs(by) > 3) drag.moved = true;
    if (!drag.moved) return;
    const span = view.to - view.from;
    const from = drag.from - (by / (width - LABELS)) * span;
    view = { from, to: from + span };
    keepInside();
    follows = false;
    tip.hidden = true;
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = drag && !drag.moved && event.offsetX > LABELS;
    drag = null;
    if (!clicked || marks.length === 0) return;
    const inMarks = event.offsetY > AXIS && event.offsetY <= AXIS + MARKS;
    const near = inMarks ? markAt(event.offsetX) : null;
    const found = inMarks ? null : spanAt(event.offsetX, event.offsetY);
    moveTo(near ?? Math.max(0, entryAt(timeAt(event.offsetX))));
    const number = found ? found.span.entry : near === null ? null : marks[near].number;
    if (number) onentry(number);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(((event.deltaX || event.deltaY) / width) * (view.to - view.from));
    else zoom(Math.exp(event.deltaY * 0.002), timeAt(Math.max(LABELS, event.offsetX)));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const span = view.to - view.from;
    const middle = cursor === null ? (view.from + view.to) / 2 : marks[cursor].time;
    const here = cursor ?? marks.length;
    const acts = {
      ArrowLeft: () => pan(-span * 0.15), ArrowRight: () => pan(span * 0.15), "+": () => zoom(0.6, middle), "-": () => zoom(1.7, middle),
      PageUp: () => moveTo(here - 1), PageDown: () => moveTo(here + 1), Home: () => moveTo(0), End: () => moveTo(marks.length - 1),
      Enter: () => { if (cursor !== null) onentry(marks[cursor].number); }, Escape: () => moveTo(null), 0: fit,
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  });

  function fit() {
    view = bounds();
    follows = true;
    draw();
  }

  readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  new ResizeObserver(size).observe(root);

  return {
    root,
    fit,
    moveTo,
    /** The number of the newest entry. */
    last: () => marks.at(-1)?.number ?? 0,
    count: () => marks.length,
    cursorText: () => (cursor === null ? "now" : `entry ${marks[cursor].number}, ${new Date(marks[cursor].time).toISOString().replace("T", " ").slice(0, 23)} UTC`),
    /** Jumps to the state before or after a time of the day or an ISO time. */
    jump(text) {
      const day = new Date(marks.at(-1)?.time ?? Date.now()).toISOString().slice(0, 10);
      const iso = /^\d{1,2}:\d{2}/.test(text) ? `${day}T${text.padStart(5, "0")}` : text.replace(" ", "T");
      const time = Date.parse(/[zZ]|[+-]\d{2}:\d{2}$/.test(iso) ? iso : `${iso}Z`);
      if (Number.isNaN(time)) return false;
      const at = entryAt(time);
      if (at < 0) return false;
      moveTo(at);
      return true;
    },
    /** Groups lanes by `cpu`, `core`, `l3` or `numa`. */
    group(by) {
      grouping = by;
      layOut();
    },
    /** Takes what the server says after the newest known entry. */
    add(found) {
      events = found.events;
      pods = found.pods;
      for (const [number, time, event, pod] of found.entries) marks.push({ number, time, event, pod });
      for (const [index, pod, container, cpus, from, to, entry] of found.spans) spans[index] = { pod, container, cpus, from, to, entry };
      const fresh = follows;
      layOut();
      if (fresh) fit();
    },
  };
}
