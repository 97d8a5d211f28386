// The timeline: one lane per CPU below its L3 cache and NUMA node, which can be collapsed; spans of containers, marks of
// entries, a cursor. Drawn on a canvas from sorted arrays, so that a frame costs what is visible and not what the journal
// has.

import { el, idList } from "./dom.js";

const LABELS = 104;
const MARKS = 34;
const AXIS = 22;
const LANE = 12;
const LEAST_LANE = 2;
const HEAD = 14;
const MOST_HEIGHT = 640;
const COLOURS = ["#5fafff", "#ffaf00", "#5fd787", "#ff87ff", "#d7d75f", "#ff875f", "#5fd7d7", "#afafff", "#afd787", "#ffafaf", "#d7af5f", "#d7afff"];
/** Events that stand out, the least important one first. */
const RANKS = ["", "limited", "restarted", "devices", "settings", "rejected"];
/** What the page saw of a running agent that is no entry of its journal. */
const NOTES = { drift: ["#d2418c", "drift: a control group differed from the journal"], back: ["--accent", "the agent answered again"] };
const MARK_COLOURS = { limited: "#2f9e9e", restarted: "--good", devices: "--warn", settings: "#8250df", rejected: "--bad" };

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
export function timeline({ lanes, isLive, onmoment, onentry, onfold }) {
  const canvas = el("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "timeline",
    "aria-label": "Timeline of the journal. Left and right move in time, plus and minus zoom, Page Up and Page Down go from entry to entry, Enter shows the entry, Escape returns to now. Up and down choose a NUMA node or L3 cache, Space folds it." });
  const tip = el("div", { className: "tip", hidden: true });
  const root = el("div", { className: "canvas-frame" }, canvas, tip);
  const context = canvas.getContext("2d");
  let events = [];
  let pods = [];
  let marks = [];
  let notes = [];
  let view = { from: 0, to: 1 };
  let cursor = null;
  let grouping = "cpu";
  let rows = [];
  let rowOf = new Map();
  const folded = new Set();
  let head = null;
  let epoch = 0;
  let revision = 0;
  let width = 0;
  let height = 0;
  let lane = LANE;
  let colours = {};
  let pending = 0;
  let follows = true;
  const spans = [];

  /** How far lanes are split: each level has the key and the name of a CPU's lane. */
  const LEVELS = {
    numa: [([, node]) => `${node}`, ([, node]) => `NUMA node ${node}`],
    l3: [([, node, cache]) => `${node}/${cache}`, ([,, cache]) => `L3 ${cache}`],
    core: [([, node, cache, core]) => `${node}/${cache}/${core}`, ([,,, core]) => `core ${core}`],
    cpu: [([cpu]) => `cpu ${cpu}`, ([cpu]) => `CPU ${cpu}`],
  };

  /** Rows by the grouping and what is folded: a head for each group of lanes, and the lanes. */
  function layOut() {
    const several = new Map();
    for (const one of lanes) several.set(one[1], (several.get(one[1]) ?? new Set()).add(one[2]));
    const hasCaches = [...several.values()].some((caches) => caches.size > 1);
    const heads = { numa: [], l3: ["numa"], core: hasCaches ? ["numa", "l3"] : ["numa"], cpu: hasCaches ? ["numa", "l3"] : ["numa"] }[grouping];
    const byKey = new Map();
    rowOf = new Map();
    const row = (level, one, depth, isHead) => {
      const [key, name] = LEVELS[level];
      const own = `${level} ${key(one)}`;
      if (!byKey.has(own)) byKey.set(own, { key: own, label: name(one), node: one[1], depth, isHead, isFolded: folded.has(own), spans: [], longest: 0, y: 0, height: 0 });
      return byKey.get(own);
    };
    for (const one of lanes) {
      const above = heads.map((level, depth) => [level, depth]);
      const end = above.findIndex(([level]) => folded.has(`${level} ${LEVELS[level][0](one)}`));
      const shown = end < 0 ? above : above.slice(0, end + 1);
      const groups = shown.map(([level, depth]) => row(level, one, depth, true));
      rowOf.set(one[0], end < 0 ? row(grouping, one, heads.length, false) : groups.at(-1));
    }
    rows = [...byKey.values()];
    for (const span of spans) if (span) place(span);
    rows.forEach(finish);
    if (head !== null && !byKey.has(head)) head = null;
    size();
  }

  /** Adds a span to its rows, and returns those. */
  function place(span) {
    const touched = new Set(idList(span.cpus).map((cpu) => rowOf.get(cpu)).filter(Boolean));
    for (const row of touched) row.spans.push(span);
    return touched;
  }

  function finish(row) {
    row.spans.sort((one, other) => one.from - other.from);
    row.longest = row.spans.reduce((most, span) => Math.max(most, (span.to ?? Infinity) - span.from), 0);
  }

  function size() {
    const ratio = globalThis.devicePixelRatio || 1;
    width = root.clientWidth || 800;
    const heads = rows.filter((row) => row.isHead).length;
    const room = MOST_HEIGHT - AXIS - MARKS - heads * HEAD;
    lane = Math.max(LEAST_LANE, Math.min(grouping === "cpu" ? LANE : LANE + 6, Math.floor(room / Math.max(1, rows.length - heads))));
    let y = AXIS + MARKS;
    for (const row of rows) {
      row.y = y;
      row.height = row.isHead ? HEAD : lane;
      y += row.height;
    }
    height = Math.ceil(y + 4);
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  /** Folds a group of lanes into one lane, or unfolds it. */
  function fold(key) {
    if (!folded.delete(key)) folded.add(key);
    layOut();
    const row = rows.find((one) => one.key === key);
    if (row) onfold(`${row.label} is ${row.isFolded ? "folded into one lane" : "unfolded"}`);
  }

  /** Chooses the next or previous head. */
  function chooseHead(by) {
    const heads = rows.filter((row) => row.isHead);
    if (heads.length === 0) return;
    const at = heads.findIndex((row) => row.key === head);
    const next = at < 0 ? (by > 0 ? 0 : heads.length - 1) : Math.max(0, Math.min(heads.length - 1, at + by));
    head = heads[next].key;
    onfold(`${heads[next].label}, ${heads[next].isFolded ? "folded" : "unfolded"}`);
    draw();
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    colours = Object.fromEntries(["--paper", "--panel", "--line", "--line-strong", "--text", "--quiet", "--accent", "--good", "--bad", "--warn"].map((name) => [name, value(name)]));
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
    // Labels of lanes that are too low to have one each.
    let labelled = 0;
    for (const row of rows) {
      if (row.isHead && row.depth === 0) {
        context.fillStyle = colours["--line-strong"];
        context.fillRect(0, row.y, width, 1);
      }
      if (!row.isHead || row.isFolded) paintSpans(row);
      if (row.isHead) paintHead(row);
      else if (row.y >= labelled) {
        paintLabel(row);
        labelled = row.y + 10;
      }
    }
  }

  function paintLabel(row) {
    context.fillStyle = colours["--quiet"];
    context.fillText(row.label, 14 + row.depth * 8, row.y + Math.max(row.height, 10) / 2 + 1);
  }

  function paintHead(row) {
    if (!row.isFolded) {
      context.fillStyle = colours["--panel"];
      context.fillRect(0, row.y + 1, width, row.height - 1);
    }
    const middle = row.y + row.height / 2 + 0.5;
    const left = 4 + row.depth * 8;
    context.fillStyle = row.key === head ? colours["--accent"] : colours["--text"];
    context.beginPath();
    if (row.isFolded) {
      context.moveTo(left + 1, middle - 4);
      context.lineTo(left + 6, middle);
      context.lineTo(left + 1, middle + 4);
    } else {
      context.moveTo(left, middle - 2.5);
      context.lineTo(left + 7, middle - 2.5);
      context.lineTo(left + 3.5, middle + 3);
    }
    context.fill();
    context.fillText(row.label, left + 10, middle + 0.5);
    if (row.key === head) {
      context.strokeStyle = colours["--accent"];
      context.strokeRect(1, row.y + 1, LABELS - 3, row.height - 1);
    }
  }

  function paintSpans(row) {
    const gap = row.height >= 4 ? 1 : 0;
    // Of spans that are narrower than this many pixels one is drawn.
    const least = row.spans.length > 4 * width ? 2 : 1;
    let drawn = LABELS;
    let at = Number.isFinite(row.longest) ? lowerBound(row.spans, view.from - row.longest, (span) => span.from) : 0;
    for (; at < row.spans.length; at += 1) {
      const span = row.spans[at];
      if (span.from > view.to) break;
      const right = Math.min(width, x(span.to ?? view.to));
      if (right <= drawn && drawn > LABELS) {
        // What is left of here is drawn: go on with the span before the first one that begins right of it.
        at = Math.max(at, lowerBound(row.spans, timeAt(drawn), (one) => one.from) - 2);
        continue;
      }
      if (right <= LABELS) continue;
      const left = Math.max(drawn, Math.floor(x(span.from)));
      const wide = Math.max(least, Math.round(right) - left);
      context.fillStyle = COLOURS[span.pod % COLOURS.length];
      context.fillRect(left, row.y + gap, wide, row.height - gap);
      drawn = left + wide;
      if (row.height >= 10 && wide > 48 && !row.isHead) {
        context.fillStyle = "#1f2328";
        context.save();
        context.beginPath();
        context.rect(left, row.y, wide - 2, row.height);
        context.clip();
        context.fillText(pods[span.pod] ?? "", left + 4, row.y + row.height / 2 + 1);
        context.restore();
      }
    }
  }

  /** Marks of entries; where there are several at a pixel, a bar as high as they are many, red as far as they are rejections. */
  function paintMarks() {
    const columns = new Map();
    let most = 1;
    for (let at = lowerBound(marks, view.from, (mark) => mark.time); at < marks.length && marks[at].time <= view.to; at += 1) {
      const column = Math.round(x(marks[at].time));
      const own = columns.get(column) ?? { all: 0, rejected: 0, rank: 0 };
      const rank = Math.max(0, RANKS.indexOf(events[marks[at].event]));
      own.all += 1;
      if (RANKS[rank] === "rejected") own.rejected += 1;
      else own.rank = Math.max(own.rank, rank);
      most = Math.max(most, own.all);
      columns.set(column, own);
    }
    const colourOf = (name) => {
      const colour = MARK_COLOURS[name] ?? "--line-strong";
      return colour.startsWith("--") ? colours[colour] : colour;
    };
    const bottom = AXIS + MARKS - 4;
    for (const [column, { all, rejected, rank }] of columns) {
      const isBar = most > 3;
      const tall = isBar ? 4 + 20 * Math.sqrt(all / most) : rejected || rank ? 24 : 8;
      const red = isBar ? tall * (rejected / all) : rejected ? tall : 0;
      const wide = isBar || !(rejected || rank) ? 1 : 2;
      context.fillStyle = colourOf(RANKS[rank]);
      context.fillRect(column, bottom - tall, rank ? 2 : wide, tall - red);
      context.fillStyle = colourOf("rejected");
      if (red) context.fillRect(column, bottom - red, wide, red);
    }
    for (const [time, name] of notes) {
      if (time < view.from || time > view.to) continue;
      const [colour] = NOTES[name] ?? ["--text"];
      context.fillStyle = colour.startsWith("--") ? colours[colour] : colour;
      context.fillRect(Math.round(x(time)) - 1, AXIS + 2, 3, MARKS - 6);
    }
  }

  function bounds() {
    const first = Math.min(marks[0]?.time ?? Infinity, spans.reduce((least, span) => Math.min(least, span?.from ?? Infinity), Infinity));
    const last = Math.max(marks.at(-1)?.time ?? first, isLive ? Date.now() : -Infinity);
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

  /** The row at a height; rows are sorted by it. */
  function rowAt(py) {
    const row = rows[lowerBound(rows, py + 0.001, (one) => one.y) - 1];
    return row && py < row.y + row.height ? row : null;
  }

  function spanAt(px, py) {
    const row = rowAt(py);
    if (!row || (row.isHead && !row.isFolded)) return null;
    const time = timeAt(px);
    const slack = (view.to - view.from) / width;
    // The last span that began before: of a folded group several may be here.
    for (let at = lowerBound(row.spans, time + slack, (span) => span.from) - 1; at >= 0; at -= 1) {
      const span = row.spans[at];
      if (span.from < time - row.longest - slack) break;
      if ((span.to ?? Infinity) >= time - slack) return { row, span };
    }
    return null;
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
      const note = notes.find(([time]) => Math.abs(x(time) - px) < 4);
      if (note) text = `${NOTES[note[1]]?.[1] ?? note[1]} · ${new Date(note[0]).toISOString().slice(11, 23)}`;
      else if (at !== null) text = `${events[marks[at].event]} ${pods[marks[at].pod] ?? ""} · entry ${marks[at].number} · ${new Date(marks[at].time).toISOString().slice(11, 23)}`;
    } else if (px > LABELS) {
      const found = spanAt(px, py);
      if (found) text = [`${found.row.label}: ${pods[found.span.pod]}`, found.span.container, `CPUs ${found.span.cpus}`].filter(Boolean).join(" · ");
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
    const clicked = drag && !drag.moved;
    drag = null;
    if (!clicked) return;
    const group = rowAt(event.offsetY);
    if (group?.isHead && (event.offsetX <= LABELS || !group.isFolded)) return fold(group.key);
    if (event.offsetX <= LABELS || marks.length === 0) return;
    const inMarks = event.offsetY > AXIS && event.offsetY <= AXIS + MARKS;
    const near = inMarks ? markAt(event.offsetX) : null;
    const found = inMarks ? null : spanAt(event.offsetX, event.offsetY);
    moveTo(near ?? Math.max(0, entryAt(timeAt(event.offsetX))));
    const number = found ? found.span.entry : near === null ? null : marks[near].number;
    if (number) onentry(number);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
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
      ArrowUp: () => chooseHead(-1), ArrowDown: () => chooseHead(1), " ": () => { if (head !== null) fold(head); },
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
      const isFirst = found.epoch !== epoch;
      if (isFirst) {
        pods = [];
        marks = [];
        notes = [];
        spans.length = 0;
        cursor = null;
      }
      notes = [...notes, ...found.notes].slice(-1000);
      ({ events, epoch, revision } = found);
      pods.length = found.first_pod;
      for (const name of found.pods) pods.push(name);
      // A clock that was set back must not put entries out of order.
      for (const [number, time, event, pod] of found.entries) marks.push({ number, time: Math.max(time, marks.at(-1)?.time ?? time), event, pod });
      const touched = new Set();
      for (const [index, pod, container, cpus, from, to, entry] of found.spans) {
        const known = spans[index];
        const span = Object.assign(known ?? {}, { pod, container, cpus, from, to, entry });
        spans[index] = span;
        if (isFirst) continue;
        const own = known ? idList(cpus).map((cpu) => rowOf.get(cpu)).filter(Boolean) : place(span);
        for (const row of own) touched.add(row);
      }
      if (isFirst) layOut();
      else touched.forEach(finish);
      if (follows) fit();
      else draw();
    },
    /** What the server need not say again. */
    known: () => `epoch=${epoch}&after=${marks.at(-1)?.number ?? 0}&pods=${pods.length}&revision=${revision}`,
    /** Folds every NUMA node into one lane, or unfolds all. */
    foldAll(isFolded) {
      folded.clear();
      if (isFolded) for (const [, node] of lanes) folded.add(`numa ${node}`);
      layOut();
    },
  };
}
