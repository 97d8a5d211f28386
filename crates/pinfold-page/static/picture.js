// Pictures of machines. The server's SVG is parsed, and only known elements and attributes are copied into the page.

const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set(["svg", "g", "rect", "text", "title"]);
const ATTRIBUTES = new Set([
  "x", "y", "width", "height", "rx", "viewBox", "transform", "class", "font-size", "font-weight", "font-family",
  "text-anchor", "data-pod",
]);

const policy = globalThis.trustedTypes?.createPolicy("picture", { createHTML: (text) => text });

function copy(from) {
  const to = document.createElementNS(SVG, from.localName);
  for (const { name, value } of from.attributes) if (ATTRIBUTES.has(name)) to.setAttribute(name, value);
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) {
      if (from.localName === "text" || from.localName === "title") to.append(child.data);
    } else if (child.namespaceURI === SVG && ELEMENTS.has(child.localName)) to.append(copy(child));
  }
  return to;
}

/** The picture as an element. `label` is its name for screen readers. */
export function picture(text, label) {
  // The page has the style sheet of pictures; its policy forbids those inside of documents.
  text = text.replace(/<style>[^<]*<\/style>/, "");
  const parsed = new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "image/svg+xml");
  const root = parsed.documentElement;
  if (root.localName !== "svg") return document.createTextNode("The picture cannot be read.");
  const svg = copy(root);
  svg.classList.add("machine");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return svg;
}

/** Shows the rectangles of one pod stronger than all others. */
export function highlight(svg, pod) {
  if (!(svg instanceof SVGElement)) return;
  svg.classList.toggle("has-chosen", pod !== null);
  for (const rect of svg.querySelectorAll("rect[data-pod]")) {
    rect.classList.toggle("chosen", rect.dataset.pod === String(pod));
  }
}

/** Adds the style sheet of pictures. Constructed sheets need no exception from the page's policy. */
export function addPictureStyle(text) {
  const sheet = new CSSStyleSheet();
  // The classes are short; outside of a picture they mean nothing.
  sheet.replaceSync(`svg.machine { ${text} }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
