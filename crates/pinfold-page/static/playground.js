// The playground: a machine, a configuration and pods on the left, pictures and reasons on the right.

import { announce, ask, count, debounced, el } from "./dom.js";
import { decisionView } from "./decision.js";
import { editor } from "./editor.js";
import { fromFragment, toFragment } from "./link.js";
import { highlight, picture } from "./picture.js";

const EMPTY = {
  as: "", machine: "", config: "", policy: "", scope: "", options_off: [], devices: [], pods: [], steps: "", bound: false, changes: [],
};
const LARGEST_FILE = 5 << 20;

let info;
let state = { question: { ...EMPTY }, compare: null };
let chosen = null;
let shown = 0;
let asked = null;
const parts = {};
const sides = [];

/** A state of a link or an example, with nothing in it that is not expected. */
function clean(from) {
  const question = { ...EMPTY };
  const given = from?.question ?? {};
  for (const key of Object.keys(EMPTY)) {
    if (typeof given[key] === typeof EMPTY[key] && Array.isArray(given[key]) === Array.isArray(EMPTY[key])) question[key] = given[key];
  }
  const isText = (one) => typeof one === "string";
  question.options_off = question.options_off.filter(isText);
  question.devices = question.devices.filter(isText);
  question.changes = question.changes.filter((one) => isText(one?.pod) && isText(one.resource) && Number.isSafeInteger(one.to))
    .map(({ pod, container, resource, manager, to }) => ({ pod, container: isText(container) ? container : null, resource, manager, to }));
  question.pods = question.pods.filter((file) => typeof file?.text === "string")
    .map((file) => ({ name: String(file.name ?? "pods.yaml"), text: file.text }));
  if (typeof given.machine_file?.base64 === "string") question.machine_file = { name: String(given.machine_file.name), base64: given.machine_file.base64 };
  const compare = from?.compare && { as: String(from.compare.as ?? ""), policy: String(from.compare.policy ?? ""), scope: String(from.compare.scope ?? "") };
  return { question, compare: compare ?? null };
}

function options(values, chosenValue, first) {
  const all = values.map(({ name, title }) => el("option", { value: name, selected: name === chosenValue }, title ?? name));
  return first === undefined ? all : [el("option", { value: "", selected: chosenValue === "" }, first), ...all];
}

const named = (names) => names.map((name) => ({ name }));

function select(label, values, value, first, onchange) {
  const id = `select-${select.next = (select.next ?? 0) + 1}`;
  const input = el("select", { id, onchange: () => onchange(input.value) }, options(values, value, first));
  return { root: el("div", { className: "field" }, el("label", { htmlFor: id }, label), input), input };
}

/** The selects for who decides, the policy and the scope. */
function ruleSelects(get, changed, prefix = "") {
  const rule = (key, label, values, first) => select(prefix + label, values, get()[key], first, (value) => {
    get()[key] = value;
    changed();
  });
  const own = {
    as: rule("as", "Who decides", info.deciders.map(({ name, title }) => ({ name, title: `${name}: ${title}` })), `the default: ${info.deciders[0].name}`),
    policy: rule("policy", "Topology policy", named(info.policies), "as configured"),
    scope: rule("scope", "Scope", named(info.scopes), "as configured"),
  };
  return {
    roots: [own.as.root, el("div", { className: "pair" }, own.policy.root, own.scope.root)],
    refresh: () => Object.entries(own).forEach(([key, { input }]) => { input.value = get()[key]; }),
  };
}

function form() {
  const q = () => state.question;
  const changed = () => update();
  const example = select("Example", info.examples, "", "choose an example…", (name) => {
    const found = info.examples.find((one) => one.name === name);
    if (found) load({ question: found.question });
    example.input.value = "";
  });
  parts.rules = ruleSelects(q, changed);
  const presets = el("datalist", { id: "presets" }, info.presets.map(({ name, title }) => el("option", { value: name }, title)), el("option", { value: "this" }, "this computer"));
  const machineFinding = el("div", { id: "machine-findings", className: "findings", role: "alert" });
  const machine = el("input", {
    id: "machine", type: "text", spellcheck: false, autocomplete: "off", "aria-describedby": "machine-hint machine-findings",
    oninput: () => {
      q().machine = machine.value;
      delete q().machine_file;
      refreshMachine();
      changed();
    },
  });
  machine.setAttribute("list", "presets");
  const file = el("p", { className: "file" });
  parts.machine = { machine, file, finding: machineFinding };
  parts.config = editor({ label: "Kubelet configuration", rows: 6, hint: "empty: static managers, single-numa-node", oninput: (text) => { q().config = text; changed(); } });
  parts.devices = editor({ label: "Devices of device plugins", rows: 2, hint: "nvidia.com/gpu=gpu0@0,gpu1@1", oninput: (text) => { q().devices = text.split("\n").map((line) => line.trim()).filter(Boolean); changed(); } });
  parts.files = el("div", { className: "tabs", role: "group", "aria-label": "Files with pods" });
  parts.pods = editor({ label: "Pods", rows: 16, hint: "Pods, Deployments, Jobs…: YAML or JSON", oninput: (text) => { podFile().text = text; changed(); } });
  parts.steps = editor({ label: "Steps", rows: 4, hint: "empty: every pod once, in the order of the files", oninput: (text) => { q().steps = text; changed(); } });
  parts.order = el("ol", { className: "order" });
  parts.changes = el("div", { className: "chips" });
  const bound = el("input", { id: "bound", type: "checkbox", onchange: () => { q().bound = bound.checked; changed(); } });
  parts.bound = bound;
  const pick = el("input", { type: "file", multiple: true, className: "unseen", tabIndex: -1, "aria-hidden": "true", onchange: () => take([...pick.files]) });
  return el("form", { className: "side", "aria-label": "Question", onsubmit: (event) => event.preventDefault() },
    example.root,
    ...parts.rules.roots,
    el("div", { className: "field" }, el("label", { htmlFor: "machine" }, "Machine"), machine, presets,
      el("p", { id: "machine-hint", className: "quiet small" }, "A preset, ‘this’, or a description such as ‘2 sockets, 8 cores, smt2’. Drop an hwloc XML, a recording or JSON."), file, machineFinding),
    el("div", { className: "field" }, parts.files, parts.pods.root),
    el("div", { className: "row" }, el("button", { type: "button", onclick: () => pick.click() }, "Add files…"), pick,
      el("label", { className: "check", title: "As static pods and pods with spec.nodeName" }, bound, " bound: leave kube-scheduler out")),
    parts.changes,
    el("details", {}, el("summary", {}, "Kubelet configuration and devices"), parts.config.root, parts.devices.root),
    el("details", {}, el("summary", {}, "Order of arrival"), parts.order, parts.steps.root));
}

let currentFile = 0;

function podFile() {
  const files = state.question.pods;
  if (files.length === 0) files.push({ name: "pods.yaml", text: "" });
  currentFile = Math.min(currentFile, files.length - 1);
  return files[currentFile];
}

function refreshFiles() {
  const files = state.question.pods;
  parts.pods.value = podFile().text;
  parts.files.hidden = files.length < 2;
  parts.files.replaceChildren(...files.map((file, index) => el("span", { className: "tab" },
    el("button", { type: "button", "aria-pressed": String(index === currentFile), onclick: () => { currentFile = index; refreshFiles(); showFindings(lastFindings); } }, file.name),
    el("button", { type: "button", className: "remove", "aria-label": `remove ${file.name}`, onclick: () => { files.splice(index, 1); refreshFiles(); update(); } }, "×"))));
}

function refreshMachine() {
  const file = state.question.machine_file;
  parts.machine.file.hidden = !file;
  parts.machine.machine.placeholder = file ? file.name : "";
  parts.machine.file.replaceChildren(...(file ? [`from the file ${file.name} `,
    el("button", { type: "button", className: "link", onclick: () => { delete state.question.machine_file; refreshMachine(); update(); } }, "leave it out")] : []));
}

function changeText(change) {
  const whose = change.container ? `container ${change.container}` : "the pod";
  return `${change.pod}: ${change.resource} of ${whose} is ${change.manager === "memory" ? `${change.to} B` : change.to}`;
}

function refreshChanges() {
  const { changes, options_off: off } = state.question;
  const chip = (text, remove) => el("span", { className: "chip" }, text,
    el("button", { type: "button", "aria-label": `undo: ${text}`, onclick: () => { remove(); refreshChanges(); update(); } }, "×"));
  parts.changes.replaceChildren(
    ...changes.map((change, index) => chip(changeText(change), () => changes.splice(index, 1))),
    ...off.map((option, index) => chip(`option ${option} is off`, () => off.splice(index, 1))));
}

function refreshOrder(pods) {
  const script = state.question.steps.trim();
  const lines = script === "" ? pods.map((name) => ({ name })) : script.split("\n").map((line) => ({ name: /^- add: ([-\w./]+)$/.exec(line.trim())?.[1], line }));
  const movable = lines.length > 1 && lines.length <= 100 && lines.every(({ name }) => name && /^[-\w./]+$/.test(name));
  parts.order.hidden = !movable;
  if (!movable) return;
  const move = (from, to) => {
    const order = lines.map(({ name }) => name);
    order.splice(to, 0, ...order.splice(from, 1));
    state.question.steps = order.map((name) => `- add: ${name}`).join("\n");
    parts.steps.value = state.question.steps;
    announce(`${order[to]} arrives as number ${to + 1}`);
    update(true).then(() => parts.order.children[to]?.querySelector("button:not([disabled])")?.focus());
  };
  parts.order.replaceChildren(...lines.map(({ name }, index) => el("li", {},
    el("span", {}, name),
    el("button", { type: "button", disabled: index === 0, "aria-label": `${name} earlier`, onclick: () => move(index, index - 1) }, "↑"),
    el("button", { type: "button", disabled: index === lines.length - 1, "aria-label": `${name} later`, onclick: () => move(index, index + 1) }, "↓"))));
}

/** Puts a whole state into the form. */
function load(from) {
  state = clean(from);
  chosen = null;
  currentFile = 0;
  refreshForm();
  return update(true);
}

function refreshForm() {
  const q = state.question;
  parts.rules.refresh();
  parts.machine.machine.value = q.machine;
  parts.config.value = q.config;
  parts.devices.value = q.devices.join("\n");
  parts.steps.value = q.steps;
  parts.bound.checked = q.bound;
  refreshFiles();
  refreshMachine();
  refreshChanges();
  parts.compare.checked = state.compare !== null;
  refreshCompare();
}

function refreshCompare() {
  parts.other.hidden = state.compare === null;
  if (state.compare) parts.otherRules.refresh();
}

let lastFindings = [];

function showFindings(findings) {
  lastFindings = findings;
  const of = (part) => findings.filter((one) => one.part === part);
  parts.config.show(of("config"));
  parts.devices.show(of("devices"));
  parts.steps.show(of("steps"));
  const file = podFile();
  parts.pods.show(of("pods").filter((one) => !one.file || one.file === file.name || state.question.pods.length === 1));
  const elsewhere = of("pods").filter((one) => one.file && one.file !== file.name && state.question.pods.length > 1);
  parts.machine.finding.replaceChildren(...of("machine").map((one) => el("p", {}, one.message)));
  parts.machine.machine.setAttribute("aria-invalid", String(of("machine").length > 0));
  for (const part of ["config", "devices", "steps"]) if (of(part).length > 0) parts[part].root.closest("details").open = true;
  return [...of("question"), ...elsewhere.map((one) => ({ ...one, message: `${one.file}${one.line ? `:${one.line}` : ""}: ${one.message}` }))];
}

const sideQuestion = (index) => (index === 0 ? state.question : { ...state.question, ...state.compare });

/** Asks again and shows the answers. */
async function answer() {
  asked?.abort();
  asked = new AbortController();
  const number = shown += 1;
  const used = state.compare ? [0, 1] : [0];
  const answers = await Promise.all(used.map((index) => ask("simulate", sideQuestion(index), asked.signal).catch((error) => error)));
  if (number !== shown || answers.some((one) => one.name === "AbortError")) return;
  const failed = answers.find((one) => one instanceof Error);
  const rest = showFindings(answers[0] instanceof Error ? answers[0].findings ?? [] : []);
  const warnings = answers[0].warnings ?? [];
  parts.warnings.replaceChildren(...warnings.map((one) => el("p", {}, `${[one.file, one.line].filter(Boolean).join(":")}: ${one.message}`)));
  parts.general.replaceChildren(...rest.map((one) => el("p", {}, one.message)), ...(failed && !failed.findings ? [el("p", {}, failed.message)] : []));
  parts.result.classList.toggle("stale", answers[0] instanceof Error);
  const events = answers.map((one) => (one instanceof Error ? [] : one.simulation.events));
  used.forEach((index) => showSide(index, answers[index], events));
  sides[1].root.hidden = state.compare === null;
  if (answers[0] instanceof Error) return;
  refreshOrder(answers[0].pods);
  const { admitted, rejected } = answers[0].simulation.counts;
  announce(`${count(admitted, "pod")} admitted, ${rejected} rejected`);
  if (chosen) await explain();
}

const laterAnswer = debounced(120, () => answer());
let written = 0;

/** Writes the state into the address. */
async function writeLink() {
  const number = written += 1;
  const fragment = await toFragment(state).catch(() => "");
  if (number !== written) return;
  history.replaceState(null, "", fragment || location.pathname);
  parts.linkNote.textContent = fragment ? "" : "This question is too large for a link.";
}

// Browsers limit how often an address changes.
const laterLink = debounced(250, writeLink);

/** Keeps the state in the address and asks again: at once, or when typing pauses. */
function update(isAtOnce = false) {
  if (isAtOnce) writeLink();
  else laterLink();
  return isAtOnce ? answer() : laterAnswer();
}

async function copyLink() {
  await writeLink();
  if (parts.linkNote.textContent) return;
  const link = location.href.replace(/\?[^#]*/, "");
  const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
  parts.linkNote.textContent = copied ? "Link copied." : "This browser does not let the page copy: the link is the address of this page.";
  announce(parts.linkNote.textContent);
}

function side(index) {
  const root = el("section", { className: "result-side", "aria-label": index === 0 ? "Result" : "Compared result", hidden: index === 1 });
  const head = el("p", { className: "described" });
  const pictures = el("div", { className: "pictures" });
  const pods = el("ul", { className: "pods", "aria-label": "Pods" });
  const notes = el("div", { className: "notes" });
  root.append(head, pictures, notes, pods);
  return { root, head, pictures, pods, notes };
}

const LETTERS = (index) => (index >= 26 ? LETTERS(Math.floor(index / 26) - 1) : "") + String.fromCharCode(65 + (index % 26));

function showSide(index, found, events) {
  const own = sides[index];
  if (found instanceof Error) {
    if (index === 1 || found.notStarting) {
      own.head.textContent = "No answer under these rules";
      own.pictures.replaceChildren();
      own.pods.replaceChildren();
      own.notes.replaceChildren(el("pre", { className: "text" }, (found.findings ?? [{ message: found.message }]).map((one) => one.message).join("\n")));
    }
    return;
  }
  const { simulation } = found;
  const { admitted, rejected } = simulation.counts;
  own.head.replaceChildren(el("strong", {}, `${count(admitted, "pod")} admitted, `), el("strong", { className: rejected ? "bad" : "" }, `${rejected} rejected`), `, ${found.described}`);
  own.pictures.replaceChildren(...found.pictures.map((text) => el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Picture of the machine" },
    picture(text, `The machine with its pods: ${count(admitted, "pod")} admitted, ${rejected} rejected. The list below says the same.`))));
  const notes = [];
  for (const one of simulation.as_pinfold?.differences ?? []) {
    const outcome = (value) => (typeof value === "string" ? value : value.admitted);
    notes.push(el("p", {}, "As pinfold: ", el("strong", {}, one.pod), ` would be ${outcome(one.pinfold) === "rejected" ? "rejected" : outcome(one.pinfold)}.`));
  }
  for (const { what, pods } of simulation.not_simulated ?? []) notes.push(el("p", { className: "quiet" }, `not simulated: ${what}${pods.length ? ` of ${pods.slice(0, 3).join(", ")}` : ""}`));
  own.notes.replaceChildren(...notes);
  const holders = simulation.occupancy?.holders ?? simulation.nodes?.[0]?.occupancy?.holders ?? [];
  const sign = new Map(holders.map((holder, at) => [holder.name, at]));
  const other = events.length > 1 ? events[1 - index] : null;
  let add = -1;
  const most = 500;
  own.pods.replaceChildren(...simulation.events.slice(0, most).map((event, at) => {
    if (event.step === "add") add += 1;
    const isRejected = Boolean(event.rejection || event.rejections?.length);
    const differs = other && other[at]?.message !== event.message;
    const held = !isRejected && sign.has(event.pod) ? sign.get(event.pod) : null;
    const place = add;
    const content = [
      el("span", { className: `sign ${held === null ? "" : `p${held % 12}`} ${isRejected ? "no" : ""}`, "aria-hidden": "true" }, isRejected ? "✗" : held === null ? { remove: "−", restart: "↻", start: "▸" }[event.step] ?? "·" : LETTERS(held)),
      el("span", { className: "pod-name" }, event.pod ?? event.step),
      differs ? el("span", { className: "differs" }, "differs") : null,
      el("span", { className: `reason ${isRejected ? "bad" : ""}` }, isRejected ? el("span", { className: "unseen" }, "rejected: ") : null, event.message),
    ];
    return el("li", {}, event.step === "add"
      ? el("button", { type: "button", className: "pod", "data-add": place, "aria-expanded": "false", onclick: () => choose(index, place, held) }, content)
      : el("div", { className: "pod" }, content));
  }));
  if (simulation.events.length > most) own.pods.append(el("li", { className: "quiet" }, `and ${count(simulation.events.length - most, "more step")}`));
  for (const svg of own.pictures.querySelectorAll("svg")) {
    svg.addEventListener("click", (event) => {
      const pod = event.target.closest?.("[data-pod]")?.dataset.pod;
      if (pod === undefined) return;
      const at = simulation.events.findLastIndex((one) => one.step === "add" && one.pod === holders[pod]?.name && !one.rejection);
      if (at >= 0) choose(index, simulation.events.slice(0, at + 1).filter((one) => one.step === "add").length - 1, Number(pod));
    });
  }
}

function choose(index, add, held) {
  const same = chosen && chosen.index === index && chosen.add === add;
  chosen = same ? null : { index, add, held };
  return explain();
}

async function explain() {
  for (const own of sides) for (const open of own.pods.querySelectorAll(".explanation")) open.remove();
  for (const own of sides) for (const button of own.pods.querySelectorAll("button.pod")) button.setAttribute("aria-expanded", "false");
  for (const svg of document.querySelectorAll("svg.machine")) highlight(svg, null);
  if (!chosen) return;
  const { index, add, held } = chosen;
  const button = sides[index].pods.querySelector(`button[data-add="${add}"]`);
  if (!button) return;
  button.setAttribute("aria-expanded", "true");
  if (held !== null) sides[index].pictures.querySelectorAll("svg").forEach((svg) => highlight(svg, held));
  let found;
  try {
    found = await ask("explain", { question: sideQuestion(index), add });
  } catch (error) {
    found = { text: error.message, remedies: [], hints: [], explanation: {} };
  }
  if (!chosen || chosen.add !== add || chosen.index !== index || !button.isConnected) return;
  button.parentElement.querySelector(".explanation")?.remove();
  const buttons = found.remedies.map((remedy) => el("li", {}, remedy.apply
    ? el("button", { type: "button", onclick: () => apply(index, remedy) }, remedy.text)
    : remedy.text));
  button.after(el("div", { className: "explanation" },
    found.remedies.length ? el("div", { className: "remedies" }, el("h4", {}, "What would fit"), el("ul", {}, buttons)) : null,
    decisionView(found.explanation.decision, found.hints),
    el("details", { open: !found.explanation.decision }, el("summary", {}, "As text"), el("pre", { className: "text", tabIndex: 0 }, found.text))));
}

/** Applies a remedy: fields of the question with their new values. */
function apply(index, remedy) {
  for (const [key, value] of Object.entries(remedy.apply)) {
    if (index === 1 && key in state.compare) state.compare[key] = value;
    else if (Array.isArray(state.question[key])) state.question[key] = [...state.question[key], ...value];
    else state.question[key] = value;
  }
  announce(`applied: ${remedy.text}`);
  refreshForm();
  return update(true);
}

/** Takes dropped files: a machine, a configuration, or pods. */
async function take(files) {
  const pods = [];
  for (const file of files) {
    if (file.size > LARGEST_FILE) {
      parts.general.replaceChildren(el("p", {}, `${file.name} is larger than ${LARGEST_FILE >> 20} MiB`));
      continue;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const text = new TextDecoder().decode(bytes);
    const start = text.trimStart();
    const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
    if (/\.(machine|xml)$/i.test(file.name) || isPacked || start.startsWith("<") || (start.startsWith("{") && /"(hardware|kubelet_view)"/.test(start.slice(0, 4000)))) {
      let binary = "";
      for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
      state.question.machine_file = { name: file.name, base64: btoa(binary) };
      state.question.machine = "";
    } else if (/^kind:\s*KubeletConfiguration/m.test(text)) state.question.config = text;
    else pods.push({ name: file.name, text });
  }
  if (pods.length) {
    const known = state.question.pods.filter((file) => file.text.trim() !== "" && !pods.some((other) => other.name === file.name));
    state.question.pods = [...known, ...pods];
    currentFile = state.question.pods.length - 1;
    state.question.steps = "";
    state.question.changes = [];
  }
  chosen = null;
  announce(`${count(files.length, "file")} added`);
  refreshForm();
  return update(true);
}

/** The files of a drop, those of directories included. */
async function dropped(transfer) {
  const found = [];
  async function walk(entry, depth) {
    if (found.length >= 200 || depth > 8) return;
    if (entry.isFile) {
      if (depth === 0 || /\.(ya?ml|json)$/i.test(entry.name)) found.push(await new Promise((done, failed) => entry.file(done, failed)));
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((done, failed) => reader.readEntries(done, failed));
      if (some.length === 0) return;
      for (const one of some.sort((a, b) => (a.name < b.name ? -1 : 1))) await walk(one, depth + 1);
    }
  }
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return [...transfer.files];
  for (const entry of entries) await walk(entry, 0);
  return found;
}

/** Shows the playground. */
export async function show(view, tools, page) {
  info = page;
  parts.linkNote = el("span", { className: "quiet small" });
  parts.compare = el("input", { id: "compare", type: "checkbox", onchange: () => {
    state.compare = parts.compare.checked ? { as: state.question.as, policy: "best-effort", scope: state.question.scope } : null;
    refreshCompare();
    update();
  } });
  parts.otherRules = ruleSelects(() => state.compare ?? { as: "", policy: "", scope: "" }, () => update(), "Compared: ");
  parts.other = el("div", { className: "compare-with", hidden: true }, ...parts.otherRules.roots);
  tools.append(
    el("label", { className: "check" }, parts.compare, " Compare"),
    el("button", { type: "button", onclick: copyLink }, "Copy link"), parts.linkNote);
  parts.general = el("div", { className: "findings", role: "alert" });
  parts.warnings = el("div", { className: "warnings" });
  sides.push(side(0), side(1));
  parts.result = el("div", { className: "results" }, parts.general, parts.other, parts.warnings, el("div", { className: "result-sides" }, sides.map((own) => own.root)));
  view.className = "playground";
  view.append(form(), parts.result);
  // Text that is dragged within an editor is the editor's.
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    view.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) view.classList.remove("dropping"); });
  document.addEventListener("drop", async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    view.classList.remove("dropping");
    try {
      await take(await dropped(event.dataTransfer));
    } catch (error) {
      parts.general.replaceChildren(el("p", {}, `The files cannot be read: ${error.message}`));
    }
  });
  addEventListener("hashchange", async () => {
    const linked = await fromFragment(location.hash);
    if (linked) load(linked);
  });
  const linked = await fromFragment(location.hash);
  state = clean(linked ?? { question: info.examples[0].question });
  refreshForm();
  await answer();
}
