// One node: its picture now or at a moment of its journal, and the timeline.

import { announce, ask, count, debounced, el, scrollable } from "./dom.js";
import { decisionView } from "./decision.js";
import { picture } from "./picture.js";
import { timeline } from "./timeline.js";

/** Shows a node. */
export async function show(view, tools, info) {
  view.className = "node-view";
  let moment = null;
  const facts = el("p", { className: "facts-line", "aria-live": "off" });
  const problems = el("div", { className: "problems", role: "alert" });
  const frame = scrollable("Picture of the machine");
  const details = el("section", { className: "card", "aria-label": "Journal entry" }, el("p", { className: "quiet" }, "Click a span or a mark to see its decision."));

  async function showMoment() {
    let found;
    try {
      found = await ask(moment === null ? "node" : `node?entry=${moment}`);
    } catch (error) {
      problems.replaceChildren(el("p", {}, error.message));
      return;
    }
    problems.replaceChildren(...(found.status?.problems ?? []).map((text) => el("p", {}, text)));
    const { occupancy } = found;
    const place = frame.scrollLeft;
    frame.replaceChildren(picture(found.picture, `The machine with ${count(occupancy.holders.length, "pod")}, ${lines.cursorText()}`));
    frame.scrollLeft = place;
    facts.replaceChildren(...[
      el("span", {}, el("strong", {}, lines.cursorText())),
      el("span", {}, `${count(occupancy.holders.length, "pod")} with exclusive resources`),
      el("span", {}, `shared pool: CPUs ${occupancy.shared || "none"}`),
      found.status && el("span", {}, `mode ${found.status.mode}, runtime ${found.status.runtime_connected === false ? "not connected" : "connected"}`),
      found.status && el("span", { className: found.status.problems.length ? "bad" : "good" }, found.status.problems.length ? count(found.status.problems.length, "problem") : "healthy"),
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

  const lines = timeline({ lanes: info.lanes, onentry: showEntry, onmoment: (entry) => { moment = entry; now.disabled = entry === null; later(); } });
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
        el("button", { type: "button", onclick: lines.fit }, "All"), total),
      lines.root,
      el("p", { className: "legend" },
        el("span", {}, el("i", { className: "swatch-rejected" }), "rejected"), el("span", {}, el("i", { className: "swatch-settings" }), "settings changed"),
        el("span", {}, el("i", { className: "swatch-devices" }), "devices changed"), el("span", {}, el("i", { className: "swatch-cursor" }), "cursor"),
        el("span", {}, "drag to pan, wheel to zoom, click for the decision"))),
    el("div", { className: "split" }, frame, details));

  async function more() {
    lines.add(await ask(`timeline?after=${lines.last()}`));
    total.textContent = `${lines.count().toLocaleString("en")} entries`;
  }
  await more();
  await showMoment();
  if (!info.live) return;
  const live = document.getElementById("live");
  let busy = false;
  const source = new EventSource("api/events");
  source.onmessage = async () => {
    if (busy) return;
    busy = true;
    try {
      await more();
      if (moment === null) await showMoment();
    } catch (error) {
      problems.replaceChildren(el("p", {}, error.message));
    }
    busy = false;
  };
  source.onopen = () => { live.textContent = "live"; live.className = "good small"; };
  source.onerror = () => { live.textContent = "not connected"; live.className = "bad small"; };
}
