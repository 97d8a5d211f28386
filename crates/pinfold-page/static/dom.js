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

/** An answer of the server; throws an error with `findings` if there are some. */
export async function ask(path, body, signal) {
  const options = body === undefined ? { signal } : { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body), signal };
  const response = await fetch(`api/${path}`, options);
  const answer = await response.json();
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

/** The CPUs of a list such as `0-3,8`. */
export function cpuList(text) {
  const cpus = [];
  for (const part of (text ?? "").split(",").filter(Boolean)) {
    const [first, last = first] = part.split("-").map(Number);
    for (let cpu = first; cpu <= last; cpu += 1) cpus.push(cpu);
  }
  return cpus;
}

/** Makes an element that scrolls reachable by keyboard. */
export function scrollable(label, ...children) {
  return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, ...children);
}
