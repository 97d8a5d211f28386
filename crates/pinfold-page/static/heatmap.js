// The heat map of a cluster: one cell per NUMA node, on a canvas, so that 5,000 nodes are drawn at once.

import { announce, bytes, el } from "./dom.js";

const MOST_HEIGHT = 620;

/** From full (red) over half to free (green). */
function ramp(share) {
  const stops = [[200, 85, 61], [232, 176, 74], [60, 157, 107]];
  const at = Math.max(0, Math.min(1, share)) * 2;
  const [low, high] = [stops[Math.floor(at)], stops[Math.min(2, Math.floor(at) + 1)]];
  return `rgb(${low.map((value, index) => Math.round(value + (high[index] - value) * (at % 1))).join(",")})`;
}

/** What a cell shows of a NUMA node. */
const MEASURES = {
  cpus: (numa) => numa.cpus,
  memory: (numa) => numa.memory,
};

/** The amounts of a NUMA node that a cell shows. */
export function measureOf(name) {
  return Object.hasOwn(MEASURES, name) ? MEASURES[name] : ((numa) => numa.devices?.[name] ?? numa.hugepages?.[name] ?? { total: 0, free: 0, reserved: 0 });
}

/** Whether a measure is in bytes. */
export const isBytes = (name) => name === "memory" || name.startsWith("hugepages-");

/** A heat map. `onopen` gets the name of a node that was chosen. */
export function heatMap(onopen) {
  const canvas = el("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "heat map",
    "aria-label": "Nodes of the cluster, one cell for each NUMA node. Arrow keys choose a node, Enter opens it." });
  const tip = el("div", { className: "tip", hidden: true });
  const root = el("div", { className: "canvas-frame" }, canvas, tip);
  const context = canvas.getContext("2d");
  let nodes = [];
  let measure = "cpus";
  let grid = { columns: 1, width: 10, height: 10, cell: 10 };
  let chosen = -1;
  let marks = new Map();
  let troubled = new Set();
  let colours = {};

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(["--paper", "--cell", "--text", "--quiet", "--accent", "--line", "--bad"].map((name) => [name, style.getPropertyValue(name).trim()]));
  }

  /** The largest cells with which all nodes fit. */
  function size() {
    const width = root.clientWidth || 800;
    const most = nodes.reduce((widest, node) => Math.max(widest, node.usage.numa.length), 1);
    let cell = 40;
    let columns = 1;
    for (; cell > 3; cell -= 1) {
      const own = most * cell + 4;
      columns = Math.max(1, Math.floor(width / own));
      if (Math.ceil(nodes.length / columns) * (cell + 3 + (cell >= 24 ? 12 : 0)) <= MOST_HEIGHT) break;
    }
    const named = cell >= 24;
    grid = { columns, cell, width: most * cell + 4, height: cell + 3 + (named ? 12 : 0), named };
    const height = Math.max(30, Math.ceil(nodes.length / columns) * grid.height + 4);
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  function draw() {
    const { columns, cell, width, height, named } = grid;
    const of = measureOf(measure);
    context.fillStyle = colours["--paper"];
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.font = "10px ui-monospace, monospace";
    context.textBaseline = "middle";
    nodes.forEach((node, index) => {
      const x = (index % columns) * width + 2;
      const y = Math.floor(index / columns) * height + 2;
      if (named) {
        context.fillStyle = colours["--quiet"];
        const letters = Math.max(3, Math.floor((width - 6) / 6));
        const name = node.usage.node;
        context.fillText(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, x, y + 5);
      }
      const top = y + (named ? 12 : 0);
      node.usage.numa.forEach((numa, at) => {
        const own = of(numa);
        const usable = own.total - own.reserved;
        context.fillStyle = usable > 0 ? ramp(own.free / usable) : colours["--cell"];
        const gap = cell > 8 ? 1 : 0;
        context.fillRect(x + at * cell, top, cell - gap, cell - gap);
        if (cell >= 24 && usable > 0 && !isBytes(measure)) {
          context.fillStyle = "#101418";
          context.fillText(String(own.free), x + at * cell + 3, top + cell / 2);
        }
      });
      const mark = marks.get(node.usage.node);
      if (mark) {
        context.fillStyle = mark === "lost" ? "#8250df" : colours["--text"];
        context.fillRect(x, top + cell - 3, node.usage.numa.length * cell - 1, 2);
      }
      if (troubled.has(node.usage.node)) {
        const side = Math.max(3, Math.min(7, cell / 4));
        const right = x + node.usage.numa.length * cell - (cell > 8 ? 1 : 0);
        context.fillStyle = colours["--bad"];
        context.beginPath();
        context.moveTo(right - side, top);
        context.lineTo(right, top);
        context.lineTo(right, top + side);
        context.fill();
      }
      if (index === chosen) {
        context.strokeStyle = colours["--accent"];
        context.lineWidth = 2;
        context.strokeRect(x - 1, top - 1, node.usage.numa.length * cell + 1, cell + 1);
      }
    });
  }

  function at(event) {
    const column = Math.floor((event.offsetX - 2) / grid.width);
    const row = Math.floor((event.offsetY - 2) / grid.height);
    return column < 0 || column >= grid.columns ? -1 : row * grid.columns + column;
  }

  function describe(node) {
    const of = measureOf(measure);
    const amount = (value) => (isBytes(measure) ? bytes(value) : String(value));
    const parts = node.usage.numa.map((numa) => `${numa.numa_node ?? "all"}: ${amount(of(numa).free)} of ${amount(of(numa).total)} free`);
    return [node.usage.node, ...parts, node.about?.policy, node.about?.unschedulable && "cordoned", troubled.has(node.usage.node) && "has findings"].filter(Boolean).join(" · ");
  }

  canvas.addEventListener("pointermove", (event) => {
    const node = nodes[at(event)];
    tip.hidden = !node;
    if (!node) return;
    tip.textContent = describe(node);
    tip.style.left = `${Math.min(event.offsetX + 12, Math.max(0, root.clientWidth - 320))}px`;
    tip.style.top = `${event.offsetY + 14}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => choose(at(event), true));
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, Home: -Infinity, End: Infinity }[event.key];
    if (by !== undefined) choose(Math.max(0, Math.min(nodes.length - 1, (chosen < 0 ? 0 : chosen) + by)), false);
    else if (event.key === "Enter" && nodes[chosen]) onopen(nodes[chosen].usage.node);
    else return;
    event.preventDefault();
  });

  function choose(index, opens) {
    if (!nodes[index]) return;
    chosen = index;
    draw();
    announce(describe(nodes[index]));
    if (opens) onopen(nodes[index].usage.node);
  }

  readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  new ResizeObserver(size).observe(root);
  return {
    root,
    show(all, by) {
      nodes = all;
      measure = by;
      chosen = -1;
      size();
    },
    /** Marks nodes with findings by a red corner. */
    trouble(found) {
      troubled = found;
      draw();
    },
    /** Marks nodes that take a shape (`starts`), or only by their sums (`lost`). */
    mark(found) {
      marks = found;
      draw();
    },
  };
}
