// One decision: what was asked, what each NUMA node had, the hints, how they merged, the rule, and the remedies.

import { amount, el, idList, scrollable } from "./dom.js";

const RULES = {
  "no-policy": "The policy is none: hints are ignored.",
  preferred: "Every resource prefers these NUMA nodes.",
  "best-width": "No NUMA nodes are preferred by all resources; these have the best width.",
  narrower: "No mask of the best width is reachable; this is the widest of the narrower ones.",
  wider: "No mask of the best width or narrower is reachable; this is the narrowest of the wider ones.",
  "no-common-node": "The resources have no NUMA node in common.",
};

/** The NUMA nodes of a mask as a list of numbers. A mask is a list such as `0-1`, null for any. */
function nodes(mask) {
  if (mask === null || mask === undefined) return null;
  return new Set(idList(String(mask)));
}

function maskName(mask) {
  return mask === null || mask === undefined ? "any NUMA node" : `NUMA ${String(mask).includes("-") || String(mask).includes(",") ? "nodes" : "node"} ${mask}`;
}

function maskRow(mask, all, marks = "") {
  const chosen = nodes(mask);
  return el("span", { className: `mask ${marks}`, title: maskName(mask), role: "img", "aria-label": maskName(mask) + (marks.includes("preferred") ? ", preferred" : "") },
    all.map((node) => el("i", { className: !chosen || chosen.has(node) ? "in" : "" }, String(node))));
}

function resourceTable(alignment, all) {
  const head = el("tr", {}, el("th", { scope: "col" }, "resource"), el("th", { scope: "col", className: "number" }, "requested"),
    el("th", { scope: "col", className: "number" }, "free in all"), all.map((node) => el("th", { scope: "col", className: "number" }, `node ${node}`)));
  const rows = alignment.resources.map((facts) => {
    const byNode = new Map(facts.nodes.map((one) => [one.node, one]));
    const cell = (node) => {
      const own = byNode.get(node);
      if (!own) return el("td", { className: "number quiet" }, "–");
      const enough = own.free >= facts.requested;
      return el("td", { className: `number ${enough ? "enough" : "short"}`, title: `${amount(facts.manager, own.free)} of ${amount(facts.manager, own.total)} free` },
        amount(facts.manager, own.free), el("span", { className: "unseen" }, enough ? " enough" : " too little"));
    };
    return el("tr", {}, el("th", { scope: "row" }, facts.resource), el("td", { className: "number strong" }, amount(facts.manager, facts.requested)),
      el("td", { className: "number" }, amount(facts.manager, facts.free)), all.map(cell));
  });
  return scrollable("What was requested, and what each NUMA node had", el("table", { className: "facts" }, el("thead", {}, head), el("tbody", {}, rows)));
}

function hintRows(listed, all) {
  return listed.resources.map((row) => {
    const masks = row.hints === null
      ? el("span", { className: "quiet" }, "no preference")
      : row.hints.length === 0
        ? el("span", { className: "bad" }, "fits on no NUMA nodes")
        : [row.hints.map((hint) => maskRow(hint.mask, all, hint.preferred ? "preferred" : "")), row.more ? el("span", { className: "quiet" }, " and more") : null];
    return el("div", { className: "hint-row" }, el("span", { className: "name" }, row.resource), el("span", { className: "masks" }, masks));
  });
}

function preference(reason, facts) {
  if (!reason) return "";
  const name = (index) => facts?.find((one) => one.merge_index === index)?.resource ?? "a resource";
  if (reason === "no-common-mask") return "Each resource prefers some NUMA nodes, but none are preferred by all.";
  if (reason === "budget-exhausted") return "No mask that all prefer was found within the step budget.";
  const [[kind, detail]] = Object.entries(reason);
  return {
    unsatisfiable: `${name(detail.resource)} fits on no NUMA nodes.`,
    "prefers-nothing": `${name(detail.resource)} prefers no NUMA nodes.`,
    "different-widths": `${name(detail.resource)} and ${name(detail.other)} prefer different numbers of NUMA nodes.`,
    "too-narrow": `${name(detail.resource)} would need more NUMA nodes now than on an empty machine.`,
  }[kind] ?? "";
}

function alignmentSection(alignment, listed, policy) {
  const all = [...new Set(alignment.resources.flatMap((facts) => facts.nodes.map((one) => one.node)))].sort((one, other) => one - other);
  const merged = alignment.hint.mask ? maskName(alignment.hint.mask) : "the merged hint";
  const verdict = alignment.admitted
    ? `${policy} admits ${merged}${alignment.hint.preferred ? "" : ", though not preferred"}.`
    : `${policy} rejects ${merged}: ${alignment.hint.preferred ? "it does not fit the policy" : "it is not preferred"}.`;
  return el("section", { className: "alignment" },
    el("h4", {}, alignment.container ? `Container ${alignment.container}` : "The pod as a whole"),
    resourceTable(alignment, all),
    listed ? el("div", { className: "hints" }, el("h5", {}, "Hints, preferred ones filled"), hintRows(listed, all)) : null,
    el("div", { className: "merge" },
      el("h5", {}, "Merged"), maskRow(alignment.hint.mask, all, alignment.hint.preferred ? "preferred" : ""),
      el("p", {}, RULES[alignment.merge.decided_by] ?? alignment.merge.decided_by, " ", preference(alignment.merge.no_preferred, alignment.resources)),
      el("p", { className: alignment.admitted ? "good" : "bad" }, verdict)));
}

/** The decision of `explain -o json` with its hints, as elements. */
export function decisionView(decision, hints = []) {
  const explanation = decision?.explanation;
  if (!explanation) return [];
  if (explanation.policy === "none") return [el("p", { className: "quiet" }, "The topology policy is none: nothing is aligned.")];
  return explanation.alignments.map((alignment, index) => alignmentSection(alignment, hints[index], explanation.policy));
}
