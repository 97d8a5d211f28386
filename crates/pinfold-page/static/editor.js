// A text editor for YAML: line numbers, a mark at the line of each finding, Tab indents (Escape leaves).

import { el } from "./dom.js";

/** An editor with a label. `oninput` gets the text. */
export function editor({ label, value = "", rows = 10, oninput, hint = "" }) {
  const id = `editor-${editor.next = (editor.next ?? 0) + 1}`;
  const gutter = el("div", { className: "gutter", "aria-hidden": "true" });
  const area = el("textarea", {
    id, rows, value, spellcheck: false, wrap: "off", autocomplete: "off", "aria-describedby": `${id}-findings`, placeholder: hint,
  });
  const findings = el("div", { id: `${id}-findings`, className: "findings", role: "alert" });
  let marked = new Map();
  let leaves = false;

  function number() {
    const lines = area.value.split("\n").length;
    gutter.replaceChildren(...Array.from({ length: Math.min(lines, 5000) }, (_, at) => el(
      "div", { className: marked.has(at + 1) ? "marked" : "", title: marked.get(at + 1) ?? "" }, String(at + 1),
    )));
    gutter.scrollTop = area.scrollTop;
  }
  area.addEventListener("input", () => {
    number();
    oninput(area.value);
  });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leaves = true;
    else if (event.key === "Tab" && !event.shiftKey && !leaves && !event.ctrlKey) {
      event.preventDefault();
      area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
      area.dispatchEvent(new Event("input"));
    } else leaves = false;
  });
  area.addEventListener("blur", () => { leaves = false; });

  const root = el("div", { className: "field" },
    el("label", { htmlFor: id }, label),
    el("div", { className: "editor" }, gutter, area),
    findings);
  number();
  return {
    root,
    get value() { return area.value; },
    set value(text) {
      if (area.value === text) return;
      area.value = text;
      number();
    },
    /** Shows findings with their lines. */
    show(all) {
      marked = new Map(all.filter((one) => one.line).map((one) => [one.line, one.message]));
      area.setAttribute("aria-invalid", String(all.length > 0));
      findings.replaceChildren(...all.map((one) => el("p", {},
        one.line ? el("button", { type: "button", className: "link", onclick: () => this.go(one.line) }, `line ${one.line}`) : null,
        one.line ? ": " : null, one.message)));
      number();
    },
    /** Moves the cursor to a line. */
    go(line) {
      const at = area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      area.focus();
      area.setSelectionRange(at, at);
      area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / Math.max(1, area.value.split("\n").length)));
    },
  };
}
