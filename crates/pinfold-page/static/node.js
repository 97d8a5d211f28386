// One node: its picture now or at a moment of its journal, and the timeline.

import { announce, ask, bytes, count, debounced, el, idList, scrollable } from "./dom.js";
import { decisionView } from "./decision.js";
import { picture } from "./picture.js";
import { timeline } from "./timeline.js";

/** What each NUMA node has: CPUs, memory, hugepages and devices. */
function numaTable(occupancy, lanes) {
  const nodeOf = new Map(lanes.map(([cpu, node]) => [cpu, node]));
  const rows = new Map();
  const row = (node) => {
    if (!rows.has(node)) rows.set(node, { exclusive: 0, shared: 0, reserved: 0, memory: new Map(), devices: new Map() });
    return rows.get(node);
  };
  for (const [, node] of lanes) row(node);
  const add = (list, kind) => idList(list).forEach((cpu) => { if (nodeOf.has(cpu)) row(nodeOf.get(cpu))[kind] += 1; });
  for (const holder of occupancy.holders) add(holder.cpus, "exclusive");
  add(occupancy.shared, "shared");
  add(occupancy.reserved, "reserved");
  for (const one of occupancy.memory) row(one.node).memory.set(one.resource, one);
  for (const device of occupancy.devices) {
    const near = idList(device.nodes);
    for (const node of near.length ? near : ["any"]) {
      const own = row(node).devices.get(device.resource) ?? { total: 0, free: 0, unhealthy: 0 };
      own.total += 1;
      if (!device.healthy) own.unhealthy += 1;
      else if (device.holder === null) own.free += 1;
      row(node).devices.set(device.resource, own);
    }
  }
  const kinds = [...new Set(occupancy.memory.map((one) => one.resource))];
  const resources = [...new Set(occupancy.devices.map((one) => one.resource))];
  const head = ["NUMA node", "exclusive CPUs", "shared", "of these reserved", ...kinds.map((kind) => `${kind} free`), ...resources.map((resource) => `${resource} free`)];
  const number = (text) => el("td", { className: "number" }, text);
  return scrollable("What each NUMA node has", el("table", { className: "facts" },
    el("thead", {}, el("tr", {}, head.map((text, index) => el("th", { scope: "col", className: index ? "number" : "" }, text)))),
    el("tbody", {}, [...rows].map(([node, own]) => el("tr", {},
      el("th", { scope: "row" }, String(node)), number(String(own.exclusive)), number(String(own.shared)), number(String(own.reserved)),
      kinds.map((kind) => {
        const memory = own.memory.get(kind);
        return number(memory ? `${bytes(memory.free)} of ${bytes(memory.allocatable)}` : "–");
      }),
      resources.map((resource) => {
        const device = own.devices.get(resource);
        return number(device ? `${device.free} of ${device.total}${device.unhealthy ? `, ${device.unhealthy} unhealthy` : ""}` : "–");
      }))))));
}

/** Shows a node. */
export async function show(view, tools, info) {
  view.className = "node-view";
  let moment = null;
  const facts = el("p", { className: "facts-line", "aria-live": "off" });
  const problems = el("div", { className: "problems", role: "alert" });
  const frame = scrollable("Picture of the machine");
  const table = el("div", {});
  let drawn = "";
  const details = el("section", { className: "card", "aria-label": "Journal entry" }, el("p", { className: "quiet" }, "Click a span or a mark to see its decision."));

  let asked = 0;
  let shown = "";

  /** Shows problems; screen readers read them again only if they changed. */
  function showProblems(texts) {
    if (texts.join("\n") === shown) return;
    shown = texts.join("\n");
    problems.replaceChildren(...texts.map((text) => el("p", {}, text)));
  }

  async function showMoment() {
    const number = asked += 1;
    let found;
    try {
      found = await ask(moment === null ? "node" : `node?entry=${moment}`);
    } catch (error) {
      showProblems([error.message]);
      return;
    }
    // The cursor was moved again meanwhile.
    if (number !== asked) return;
    showProblems(found.status?.problems ?? []);
    const { occupancy } = found;
    // Health, drift and load are those of now.
    const { status, load } = moment === null ? found : {};
    // A picture that did not change is left alone, with whatever points at it.
    if (found.picture !== drawn) {
      drawn = found.picture;
      const place = frame.scrollLeft;
      frame.replaceChildren(picture(found.picture, `The machine with ${count(occupancy.holders.length, "pod")}, ${lines.cursorText()}`));
      frame.scrollLeft = place;
      table.replaceChildren(numaTable(occupancy, info.lanes));
    }
    const busy = load && (load.busy_tenths / 10).toFixed(1);
    facts.replaceChildren(...[
      el("span", {}, el("strong", {}, lines.cursorText())),
      el("span", {}, `${count(occupancy.holders.length, "pod")} with exclusive resources, ${count(occupancy.shared_only_pods, "pod")} without`),
      el("span", {}, `shared pool: CPUs ${occupancy.shared || "none"}`),
      load && el("span", { className: load.busy_tenths > load.cpus * 9 ? "bad" : "" }, `of which ${busy} of ${load.cpus} busy`),
      load && load.waiting_percent !== null && el("span", {}, `processes waited for a CPU ${load.waiting_percent.toFixed(1)} % of 10 s`),
      status?.best_effort_cpus && el("span", {}, `best-effort pods: CPUs ${status.best_effort_cpus}`),
      status?.drift && el("span", { className: status.drift.driftedContainers ? "bad" : "" },
        `drift: ${count(status.drift.driftedContainers, "container")}, ${status.drift.repaired} repaired`),
      status && el("span", {}, `mode ${status.mode}${status.runtime_connected === null ? "" : `, runtime ${status.runtime_connected ? "connected" : "not connected"}`}`),
      status && el("span", { className: status.problems.length ? "bad" : "good" }, status.problems.length ? count(status.problems.length, "problem") : "healthy"),
    ].filter(Boolean));
  }
  const later = debounced(30, showMoment);

  async function showEntry(number) {
    let entry;
    try {
      entry = await ask(`entry?number=${number}`);
    } catch (error) {
      details.replaceChildren(el("p", { className: "bad" }, error.message));
      return;
    }
    const kind = typeof entry.event === "string" ? entry.event : Object.keys(entry.event)[0];
    details.replaceChildren(
      el("h3", {}, `Entry ${entry.number}: ${kind}${entry.podName ? ` ${entry.podName}` : ""}`),
      el("p", { className: "quiet" }, entry.time),
      el("p", { className: kind === "rejected" ? "bad" : "" }, entry.message),
      ...decisionView(entry.decision),
      el("details", {}, el("summary", {}, "As JSON"), el("pre", { className: "text", tabIndex: 0 }, JSON.stringify(entry, null, 1).slice(0, 50_000))));
    announce(`entry ${entry.number}: ${entry.message}`);
  }

  const lines = timeline({ lanes: info.lanes, isLive: info.live, onentry: showEntry, onfold: announce, onmoment: (entry) => { moment = entry; now.disabled = entry === null; later(); } });
  const now = el("button", { type: "button", disabled: true, onclick: () => lines.moveTo(null) }, info.live ? "Back to now" : "To the end");
  const group = el("select", { id: "group", onchange: () => lines.group(group.value) },
    [["cpu", "CPU"], ["core", "core"], ["l3", "L3 cache"], ["numa", "NUMA node"]].map(([value, text]) => el("option", { value }, text)));
  const jump = el("input", { id: "jump", type: "text", placeholder: "03:12", size: 12, autocomplete: "off" });
  const jumpForm = el("form", { className: "row", onsubmit: (event) => {
    event.preventDefault();
    const found = lines.jump(jump.value.trim());
    jump.setAttribute("aria-invalid", String(!found));
    announce(found ? lines.cursorText() : "no entry at that time");
  } }, el("label", { className: "check" }, "at (UTC) ", jump), el("button", {}, "Go"));
  const total = el("span", { className: "quiet small" });

  tools.append(el("span", {}, info.node), el("span", { className: info.live ? "good small" : "quiet small", id: "live" }, info.live ? "live" : "journal"));
  view.append(
    facts, problems,
    el("section", { "aria-label": "Timeline" },
      el("div", { className: "row" }, el("label", { className: "check" }, "lanes by ", group), jumpForm, now,
        el("button", { type: "button", onclick: lines.fit }, "All"),
        el("button", { type: "button", onclick: () => lines.foldAll(true) }, "Fold NUMA nodes"),
        el("button", { type: "button", onclick: () => lines.foldAll(false) }, "Unfold"), total),
      lines.root,
      el("p", { className: "legend" },
        el("span", {}, el("i", { className: "swatch-rejected" }), "rejected"), el("span", {}, el("i", { className: "swatch-settings" }), "settings changed"),
        el("span", {}, el("i", { className: "swatch-devices" }), "devices changed"), el("span", {}, el("i", { className: "swatch-restarted" }), "container restarted"),
        el("span", {}, el("i", { className: "swatch-limited" }), "best-effort pods limited"), info.live && el("span", {}, el("i", { className: "swatch-drift" }), "drift"), el("span", {}, el("i", { className: "swatch-cursor" }), "cursor"),
        el("span", {}, "drag to pan, wheel to zoom, click for the decision"))),
    el("div", { className: "split" }, el("div", { className: "results" }, frame, table), details));

  async function more() {
    lines.add(await ask(`timeline?${lines.known()}`));
    total.textContent = `${lines.count().toLocaleString("en")} entries`;
  }
  await more();
  await showMoment();
  if (!info.live) return;
  const live = document.getElementById("live");
  let isBusy = false;
  let isStale = false;
  const source = new EventSource("api/events");
  source.onmessage = async () => {
    isStale = true;
    if (isBusy) return;
    isBusy = true;
    while (isStale) {
      isStale = false;
      try {
        await more();
        if (moment === null) await showMoment();
      } catch (error) {
        showProblems([error.message]);
      }
    }
    isBusy = false;
  };
  source.onopen = () => { live.textContent = "live"; live.className = "good small"; };
  source.onerror = () => { live.textContent = "not connected"; live.className = "bad small"; };
}
