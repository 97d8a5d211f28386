// The cluster: a heat map with one cell per NUMA node, pending and rejected pods, what is wrong with nodes, and how many
// replicas of a shape start.

import { announce, ask, bytes, count, debounced, el, scrollable } from "./dom.js";
import { editor } from "./editor.js";
import { heatMap, isBytes, measureOf } from "./heatmap.js";
import { picture } from "./picture.js";

/** The most names in a list; further ones are counted. */
const MOST_NAMES = 12;
/** Checks of `kubectl pinfold doctor` whose findings have a place of their own. */
const REJECTIONS = ["prediction-failed", "rejected-pods"];
const REPORTS = ["report-stale", "report-invalid", "report-orphaned", "agent-silent", "agent-missing", "agent-not-ready"];
/** What nodes are filtered by, beside labels, policy and version. */
const STATES = [
  ["", "any"], ["findings", "with an error or warning"], ["report", "report stale, invalid or missing"], ["rejected", "rejected a pod in the last hour"],
  ["predicted", "prediction failed"], ["takes", "takes the counted pod"], ["lost", "takes it only by its sums"],
];

/** A selector such as `zone=a,gpu`: labels that a node must have. */
function matches(labels, selector) {
  return selector.split(",").map((one) => one.trim()).filter(Boolean).every((one) => {
    const [key, value] = one.split(/==?/);
    return Object.hasOwn(labels, key) && (value === undefined || labels[key] === value);
  });
}

const field = (label, id, input, wide) => el("div", { className: `field${wide ? " wide" : ""}` }, el("label", { htmlFor: id }, label), input);

/** Shows a cluster. */
export async function show(view, tools, info) {
  view.className = "cluster-view";
  let cluster = null;
  const detail = el("section", { className: "card", "aria-label": "Node or pod", "aria-live": "polite" }, el("p", { className: "quiet" }, "Choose a node of the map, or a pod."));
  const map = heatMap(openNode);
  const head = el("p", { className: "facts-line" });
  const notes = el("div", { className: "notes" });
  const pending = el("section", { className: "card", "aria-label": "Pending pods" });
  const replicas = el("div", {});
  const rejected = el("section", { className: "card", "aria-label": "Rejected pods" });
  const reports = el("section", { className: "card", "aria-label": "Findings" });
  let findings = { report: { findings: [], not_checked: [] }, versions: {} };
  let counted = new Map();
  const again = debounced(80, () => refresh());
  const measure = el("select", { id: "measure", onchange: () => refresh() });
  const sort = el("select", { id: "sort", onchange: () => refresh() }, [["name", "name"], ["free", "most free on one NUMA node"], ["full", "fullest first"]].map(([value, text]) => el("option", { value }, text)));
  const policy = el("select", { id: "policy", onchange: () => refresh() });
  const version = el("select", { id: "version", onchange: () => refresh() }, el("option", { value: "" }, "any"));
  const stateSelect = el("select", { id: "state", onchange: () => refresh() }, STATES.map(([value, text]) => el("option", { value }, text)));
  const selector = el("input", { id: "selector", type: "search", placeholder: "zone=a,gpu", oninput: again, autocomplete: "off" });
  const search = el("input", { id: "search", type: "search", placeholder: "part of the name", oninput: again, autocomplete: "off" });

  /** The nodes of some findings. */
  const nodesOf = (checks) => new Set(findings.report.findings.filter(checks).flatMap((one) => one.nodes));

  /** Whether a node is in the chosen state. */
  function stateFilter() {
    const inSet = (names) => (node) => names.has(node.usage.node);
    switch (stateSelect.value) {
      case "findings": return inSet(nodesOf((one) => one.severity !== "info"));
      case "report": return inSet(nodesOf((one) => REPORTS.includes(one.check)));
      case "rejected": return inSet(nodesOf((one) => REJECTIONS.includes(one.check)));
      case "predicted": return inSet(nodesOf((one) => one.check === "prediction-failed"));
      case "takes": return (node) => counted.get(node.usage.node) === "starts";
      case "lost": return (node) => counted.get(node.usage.node) === "lost";
      default: return () => true;
    }
  }

  function refresh() {
    const isInState = stateFilter();
    const of = measureOf(measure.value);
    const best = (node) => Math.max(0, ...node.usage.numa.map((numa) => of(numa).free));
    const free = (node) => {
      const sums = node.usage.numa.map(of).reduce((sum, own) => [sum[0] + own.free, sum[1] + own.total - own.reserved], [0, 0]);
      return sums[1] ? sums[0] / sums[1] : 0;
    };
    const found = cluster.nodes.filter((node) => (!policy.value || node.about?.policy === policy.value)
      && (!version.value || findings.versions[node.usage.node] === version.value) && isInState(node)
      && matches(node.about?.labels ?? {}, selector.value) && node.usage.node.includes(search.value));
    if (sort.value === "free") found.sort((one, other) => best(other) - best(one));
    if (sort.value === "full") found.sort((one, other) => free(one) - free(other));
    map.show(found, measure.value);
    const numa = found.flatMap((node) => node.usage.numa);
    const sums = numa.map(of).reduce((sum, own) => [sum[0] + own.free, sum[1] + own.total], [0, 0]);
    const text = (value) => (isBytes(measure.value) ? bytes(value) : value.toLocaleString("en"));
    head.replaceChildren(
      el("strong", {}, count(found.length, "node")), el("span", {}, count(numa.length, "NUMA node")),
      el("span", {}, `${text(sums[0])} of ${text(sums[1])} ${measure.selectedOptions[0]?.textContent ?? ""} free`),
      el("span", {}, `at most ${text(Math.max(0, ...numa.map((one) => of(one).free)))} on one NUMA node`),
      el("span", { className: "quiet" }, cluster.described));
  }

  async function openNode(name) {
    let found;
    try {
      found = await ask(`node?name=${encodeURIComponent(name)}`);
    } catch (error) {
      detail.replaceChildren(el("h3", {}, name), el("p", { className: "bad" }, error.message));
      return;
    }
    const about = cluster.nodes.find((node) => node.usage.node === name)?.about;
    detail.replaceChildren(
      el("h3", {}, `Node ${name}`),
      el("p", { className: "quiet" }, count(found.report.pods, "pod"), about?.policy ? `, ${about.policy}` : "", about?.unschedulable ? ", cordoned" : ""),
      scrollable("Picture of the node", picture(found.picture, `Node ${name} with ${count(found.report.occupancy.holders.length, "pod")}`)),
      el("details", {}, el("summary", {}, "Labels"), el("pre", { className: "text", tabIndex: 0 }, Object.entries(about?.labels ?? {}).map(([key, value]) => `${key}=${value}`).join("\n") || "none")));
    detail.scrollIntoView({ block: "nearest" });
  }

  async function openPod({ namespace, name }) {
    const query = `namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`;
    let found;
    try {
      found = await ask(`pod?${query}`);
    } catch (error) {
      found = { text: error.message };
    }
    detail.replaceChildren(
      el("h3", {}, `Pod ${namespace}/${name}`),
      el("button", { type: "button", onclick: () => showCapacity(`capacity?${query}`) }, "How many more of it would start?"),
      el("pre", { className: "text", tabIndex: 0 }, found.text));
    detail.scrollIntoView({ block: "nearest" });
  }

  function showCounted(found) {
    counted = found;
    map.mark(found);
    if (["takes", "lost"].includes(stateSelect.value)) refresh();
  }

  /** A list of names, of which the first ones are buttons. */
  function names(all, open) {
    const more = all.length - MOST_NAMES;
    return el("span", { className: "names" }, all.slice(0, MOST_NAMES).map((name) => el("button", { type: "button", className: "link", onclick: () => open(name) }, name)),
      more > 0 ? el("span", { className: "quiet" }, `and ${more.toLocaleString("en")} more`) : null);
  }

  function findingView(one) {
    return el("li", {},
      el("p", { className: one.severity === "info" ? "" : one.severity === "error" ? "bad" : "warn" }, el("strong", {}, one.severity), ` ${one.problem}`),
      one.pods.length ? el("p", {}, one.pods.length > MOST_NAMES ? `${one.pods.slice(0, MOST_NAMES).join(", ")} and ${one.pods.length - MOST_NAMES} more` : one.pods.join(", ")) : null,
      one.nodes.length ? el("p", {}, `${count(one.nodes.length, "node")}: `, names(one.nodes, openNode)) : null,
      one.remedy ? el("p", { className: "quiet" }, one.remedy) : null);
  }

  /** What `kubectl pinfold doctor` finds. */
  async function showFindings(isFresh = false) {
    try {
      findings = await ask(isFresh ? "findings?fresh=1" : "findings");
    } catch (error) {
      rejected.replaceChildren(el("p", { className: "quiet" }, "Rejected pods are not known."));
      reports.replaceChildren(el("h3", {}, "Findings"), el("p", { className: "bad" }, error.message));
      return;
    }
    const { report, versions } = findings;
    const all = [...new Set(Object.values(versions))].sort();
    const before = version.value;
    version.replaceChildren(el("option", { value: "" }, "any"), ...all.map((name) => el("option", { value: name, selected: name === before }, name)));
    const about = report.findings.filter((one) => REJECTIONS.includes(one.check));
    const others = report.findings.filter((one) => !REJECTIONS.includes(one.check));
    const pods = new Set(about.flatMap((one) => one.pods));
    rejected.replaceChildren(el("h3", {}, `${count(pods.size, "pod")} rejected in the last hour`),
      about.length ? scrollable("List of rejected pods", el("ul", { className: "list" }, about.map(findingView))) : el("p", { className: "quiet" }, "No node rejected a pod."));
    reports.replaceChildren(el("h3", {}, count(others.length, "finding")),
      others.length ? scrollable("List of findings", el("ul", { className: "list" }, others.slice(0, 50).map(findingView))) : el("p", { className: "quiet" }, "Reports are fresh, agents are ready."),
      report.not_checked.length ? el("details", {}, el("summary", {}, "Not checked"), el("ul", { className: "list" }, report.not_checked.map((text) => el("li", {}, text)))) : null);
    map.trouble(nodesOf((one) => one.severity !== "info"));
    refresh();
  }

  async function showCapacity(path, body) {
    let found;
    try {
      found = await ask(path, body);
    } catch (error) {
      replicas.replaceChildren(el("p", { className: "findings" }, error.message));
      showCounted(new Map());
      return;
    }
    const { capacity } = found;
    showCounted(new Map(capacity.nodes.filter((node) => node.promised > 0 || node.started > 0).map((node) => [node.node, node.started > 0 ? "starts" : "lost"])));
    const takes = capacity.nodes.filter((node) => node.started > 0).length;
    const lost = capacity.nodes.filter((node) => node.started === 0 && node.promised > 0).length;
    replicas.replaceChildren(
      el("p", {}, el("strong", {}, count(capacity.started, "replica")), ` of ${capacity.pod} would start on ${count(takes, "node")}; `,
        `the sums promise ${capacity.promised.toLocaleString("en")}. `,
        lost ? el("span", { className: "bad" }, `${count(lost, "node")} would take it by sums but not by NUMA.`) : null),
      el("p", { className: "legend" }, el("span", {}, "underlined in the map: takes it"), lost ? el("span", {}, "violet: only by its sums") : null),
      el("details", {}, el("summary", {}, "As text"), el("pre", { className: "text", tabIndex: 0 }, found.text)));
    announce(`${count(capacity.started, "replica")} would start`);
  }

  function showCluster(found) {
    cluster = found;
    const devices = new Set(found.nodes.flatMap((node) => node.usage.numa.flatMap((numa) => [...Object.keys(numa.devices ?? {}), ...Object.keys(numa.hugepages ?? {})])));
    const values = [["cpus", "CPUs"], ["memory", "memory"], ...[...devices].sort().slice(0, 60).map((name) => [name, name])];
    const before = measure.value;
    measure.replaceChildren(...values.map(([value, text]) => el("option", { value, selected: value === before }, text)));
    const policies = [...new Set(found.nodes.map((node) => node.about?.policy).filter(Boolean))].sort();
    const beforePolicy = policy.value;
    policy.replaceChildren(el("option", { value: "" }, "any"), ...policies.map((name) => el("option", { value: name, selected: name === beforePolicy }, name)));
    notes.replaceChildren(...found.notes.map((note) => el("p", { className: "quiet" }, `Note: ${note}`)));
    pending.replaceChildren(
      el("h3", {}, count(found.pending.length + found.more_pending, "pending pod")),
      ...(found.pending.length ? [el("ul", { className: "pods" }, found.pending.slice(0, 100).map((pod) => el("li", {}, el("button", { type: "button", className: "pod", onclick: () => openPod(pod) },
        el("span", { className: "pod-name" }, `${pod.namespace}/${pod.name}`), el("span", { className: "reason" }, pod.message ?? "not scheduled yet"))))), pendingMore(found)] : [el("p", { className: "quiet" }, "Every pod has a node.")]));
    refresh();
  }

  function pendingMore(found) {
    const more = found.pending.length + found.more_pending - 100;
    return more > 0 ? el("p", { className: "quiet" }, `and ${count(more, "more pod")}`) : "";
  }

  const typed = editor({ label: "Pod shape (YAML)", rows: 7, hint: "a Pod, a Deployment, a Job…", oninput: () => {} });
  tools.append(el("span", {}, info.cluster));
  if (info.live) {
    const button = el("button", { type: "button", onclick: async () => {
      button.disabled = true;
      try {
        showCluster(await ask("cluster?fresh=1"));
        await showFindings(true);
        announce("read again");
      } catch (error) {
        announce(error.message);
      }
      button.disabled = false;
    } }, "Read again");
    tools.append(button);
  }
  view.append(
    el("div", { className: "filters" }, field("Show", "measure", measure), field("Sort by", "sort", sort), field("Policy", "policy", policy),
      field("Kubelet version", "version", version), field("State", "state", stateSelect),
      field("Labels", "selector", selector, true), field("Name", "search", search, true)),
    head, map.root,
    el("p", { className: "legend" }, el("span", {}, "used up ", el("span", { className: "ramp", role: "img", "aria-label": "from red to green" }), " all free"), el("span", {}, "one cell is one NUMA node; grey has none"),
      el("span", {}, el("i", { className: "swatch-trouble" }), "red corner: has findings")),
    el("div", { className: "cards" }, pending, rejected, reports,
      el("section", { className: "card", "aria-label": "Fragmentation" }, el("h3", {}, "How many replicas start?"), typed.root,
        el("div", { className: "row" }, el("button", { type: "button", onclick: () => showCapacity("capacity", typed.value) }, "Count")), replicas)),
    detail, notes);
  for (const card of [rejected, reports]) card.replaceChildren(el("p", { className: "quiet" }, "Reading…"));
  showCluster(await ask("cluster"));
  await showFindings();
}
