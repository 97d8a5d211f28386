// Elements from text: names of pods and nodes never become markup.

/** Creates an element. Attributes that begin with "on" are listeners; children are elements or text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list" && key !== "form") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Says something to screen readers. */
export function announce(text) {
  document.getElementById("announce").textContent = text;
}

/** The most bytes of a question; the server rejects larger ones. */
const LARGEST = 8 << 20;

/** An answer of the server; throws an error with `findings` if there are some. */
export async function ask(path, body, signal) {
  let options = { signal };
  if (body !== undefined) {
    const bytes = new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
    if (bytes.length > LARGEST) throw new Error(`The question has ${bytes.length} bytes, of at most ${LARGEST}. pinfold simulate takes larger files.`);
    options = { method: "POST", body: bytes, signal };
  }
  let response;
  let answer;
  try {
    response = await fetch(`api/${path}`, options);
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The program that serves this page does not answer. Does it still run?");
  }
  if (!response.ok) {
    const error = new Error(answer.error ?? "the question has no answer");
    Object.assign(error, { status: response.status, findings: answer.findings, notStarting: answer.not_starting });
    throw error;
  }
  return answer;
}

/** Calls back once, some time after the last of several calls. */
export function debounced(time, callback) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => callback(...values), time);
  };
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** `64 GiB`. */
export function bytes(amount) {
  let unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${amount >= 100 || Number.isInteger(amount) ? Math.floor(amount) : amount.toFixed(1)} ${UNITS[unit]}`;
}

/** An amount of a manager: CPUs, bytes or devices. */
export const amount = (manager, value) => (manager === "memory" ? bytes(value) : String(value));

/** `1 pod`, `2 pods`. */
export const count = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;

/** The ids of a list such as `0-3,8`: CPUs or NUMA nodes. */
export function idList(text) {
  const ids = [];
  for (const part of (text ?? "").split(",").filter(Boolean)) {
    const [first, last = first] = part.split("-").map(Number);
    for (let id = first; id <= last; id += 1) ids.push(id);
  }
  return ids;
}

/** Makes an element that scrolls reachable by keyboard. */
export function scrollable(label, ...children) {
  return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, ...children);
}
