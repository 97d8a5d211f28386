// Finds out what the server shows, and shows it.

import { announce, ask, el } from "./dom.js";
import { addPictureStyle } from "./picture.js";

const VIEWS = {
  playground: () => import("./playground.js"),
  node: () => import("./node.js"),
  cluster: () => import("./cluster.js"),
};

async function start() {
  const view = document.getElementById("view");
  try {
    const info = await ask("info");
    addPictureStyle(info.picture_style);
    const module = await VIEWS[info.mode]();
    view.replaceChildren();
    await module.show(view, document.getElementById("tools"), info);
  } catch (error) {
    const text = error.status === 401
      ? "Open the address with the token that the program printed once in this browser; then this page and every link to it work."
      : error.message;
    view.replaceChildren(el("div", { className: "notice" }, el("h2", {}, "Nothing to show yet"), el("p", {}, text)));
    announce(text);
  }
}

start();
