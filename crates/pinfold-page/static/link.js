// The state of the playground in the fragment of the address: compressed JSON in base64url.

const MOST = 200_000;

async function through(stream, bytes) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  const reader = piped.getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    // A short link must not become a very large state.
    if (size > 16 << 20) throw new Error("the link is too large");
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The fragment of a state; empty if it would be too long for an address. */
export async function toFragment(state) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(state)));
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  const fragment = btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return fragment.length > MOST ? "" : `#q=${fragment}`;
}

/** The state of a fragment; null if there is none. */
export async function fromFragment(fragment) {
  const match = /^#q=([\w-]+)$/.exec(fragment);
  if (!match) return null;
  try {
    const text = atob(match[1].replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
    return state && typeof state === "object" ? state : null;
  } catch {
    return null;
  }
}
