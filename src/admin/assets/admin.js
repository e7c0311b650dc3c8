/** What a page does by itself: dialogs, times that go on, forms that ask for nothing but a choice. No page needs it to be read. */
import { agoText, durationText } from "./ago.js";
import { loadAnew, startLive } from "./live.js";

const page = document.documentElement;
const base = page.dataset.base ?? "";
const lang = page.lang === "ja" ? "ja" : "en";
/** The server's clock less ours, in ms: how long ago something was is told by the clock that stamped it. */
const ahead_ms = Number(page.dataset.now) - Date.now();

tellZone();
startLive(base);
setInterval(tick, 1_000);
showWhere();

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : undefined;
  const opener = target?.closest("[data-opens]");
  if (opener instanceof HTMLElement) document.getElementById(opener.dataset.opens ?? "")?.showModal();
  const closer = target?.closest("[data-closes]");
  if (closer) closer.closest("dialog")?.close();
  if (target instanceof HTMLDialogElement) target.close(); // its backdrop
});

document.addEventListener("change", (event) => {
  const form = event.target instanceof Element ? event.target.closest("form[data-submits]") : undefined;
  form?.requestSubmit();
});

/** A slider and its number show the same. Before anybody else hears of it, so that what is sent is what is shown. */
document.addEventListener("input", ({ target }) => {
  const twin = target instanceof HTMLInputElement && document.getElementById(target.dataset.twin ?? "");
  if (twin) twin.value = target.value;
}, true);
/** A slider that has the focus keeps its place when somebody else moves the value; its number does not, and is right. */
function moveSliders() {
  for (const slider of document.querySelectorAll("input[type=range][data-twin]")) {
    slider.value = document.getElementById(slider.dataset.twin)?.value ?? slider.value;
  }
}

/** A filter's URL holds what was chosen, and nothing else. */
document.addEventListener("formdata", ({ target, formData }) => {
  if (target.method !== "get") return;
  for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
});

/** What a form sent by itself, such as a slider, and was not taken; live parts look after themselves. */
document.addEventListener("htmx:response:error", ({ target, detail }) => {
  if (target.matches("[data-live]")) return;
  if (detail.ctx.response.status === 401) return loadAnew(); // the login says why, and leads back
  document.getElementById("undone").hidden = false;
});

/** A second click would be a second act. */
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) return event.preventDefault();
  event.target.dataset.sent = "1";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

/** What is at its end stays at its end when lines are added; what was scrolled back stays there. */
const at_end = new Map();
document.addEventListener("htmx:before:swap", () => {
  for (const box of document.querySelectorAll("[data-tail]")) {
    at_end.set(box.id, box.scrollHeight - box.scrollTop - box.clientHeight < 24);
  }
});
document.addEventListener("htmx:after:swap", () => {
  tick();
  moveSliders();
  showEnds((box) => at_end.get(box.id) ?? true);
});
showEnds(() => true);

function showEnds(which) {
  for (const box of document.querySelectorAll("[data-tail]")) if (which(box)) box.scrollTop = box.scrollHeight;
}

function tick() {
  const now = Date.now() + ahead_ms;
  for (const spot of document.querySelectorAll("[data-ago]")) put(spot, agoText(now - Number(spot.dataset.ago), lang));
  for (const spot of document.querySelectorAll("[data-since]")) {
    put(spot, durationText(Math.floor((now - Number(spot.dataset.since)) / 1_000) * 1_000));
  }
}

function put(spot, text) {
  if (spot.textContent !== text) spot.textContent = text;
}

/** On a narrow screen the pages are in one row that scrolls: to the one that is open. */
function showWhere() {
  const row = document.querySelector("header nav");
  const here = row?.querySelector("[aria-current]");
  if (here) row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
}

/** The server writes times in the viewer's zone; of a first visit it knows it with the second page. */
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || page.dataset.zone === zone) return;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `dandori_zone=${zone}; path=${base || "/"}; max-age=31536000; samesite=strict${secure}`;
}
