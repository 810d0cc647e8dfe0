// Loads the parts of a page, searches as one types, and copies commands. Without it, every part is a link.
"use strict";

const slow = 4; // seconds before a part says how long it has waited

async function fetched(address, signal) {
  const answer = await fetch(address, { headers: { "X-Part": "1" }, signal, credentials: "omit" });
  const made = document.createElement("template");
  made.innerHTML = await answer.text(); // the server escapes every text, and the policy runs no script from here
  return made.content;
}

async function load(place, address) {
  if (place.dataset.busy) return;
  place.dataset.busy = "1";
  const stop = new AbortController();
  const began = Date.now() - 1000 * (place.dataset.waited || 0);
  const words = document.createElement("p");
  words.className = "waiting";
  words.setAttribute("role", "status");
  words.textContent = "Loading …";
  const before = [...place.childNodes].filter((node) => !node.classList?.contains("waiting"));
  place.replaceChildren(words);
  const said = document.createElement("span");
  const button = document.createElement("button"); // made once: a new one every second would lose the focus
  button.type = "button";
  button.textContent = "Stop waiting";
  button.addEventListener("click", () => stop.abort());
  const tell = () => {
    const seconds = Math.round((Date.now() - began) / 1000);
    if (seconds < slow) return;
    said.textContent = `The store has not answered for ${seconds} s. `;
    if (!said.isConnected) words.replaceChildren(said, button);
  };
  const clock = setInterval(tell, 1000);
  try {
    const found = await fetched(address, stop.signal);
    const first = place.classList.contains("later") ? place.parentNode : place;
    if (place.classList.contains("later")) place.replaceWith(found);
    else place.replaceChildren(found);
    const title = place.dataset.page && document.querySelector("h1");
    if (title) document.title = title.textContent;
    begin(first);
  } catch (fault) {
    words.textContent = stop.signal.aborted ? "Stopped. " : "This page's server does not answer: is the command still running? ";
    place.append(...before);
    delete place.dataset.busy;
  } finally {
    clearInterval(clock);
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    load(entry.target, entry.target.dataset.load);
  }
}, { rootMargin: "300px" });

function begin(root) {
  for (const input of root.querySelectorAll("[data-live]:not([data-known])")) {
    input.dataset.known = "1";
    search(input);
  }
  for (const place of root.querySelectorAll("[data-load]:not([data-known])")) {
    place.dataset.known = "1";
    if (place.dataset.ask) {
      place.addEventListener("click", (event) => {
        if (!event.target.closest("a")) return;
        event.preventDefault();
        load(place, place.dataset.load);
      });
    } else seen.observe(place);
  }
}

function search(input) {
  let timer, stop;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (stop) stop.abort();
      stop = new AbortController();
      const address = new URL(input.dataset.live, location.href);
      address.searchParams.set("q", input.value);
      const place = document.getElementById("tables");
      try {
        place.replaceChildren(await fetched(address, stop.signal));
        begin(place);
      } catch (fault) {
        if (!stop.signal.aborted) place.textContent = "This page's server does not answer: is the command still running?";
      }
    }, 150);
  });
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(copy.dataset.copy);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  }
  const into = event.target.closest("a[data-into]");
  if (into) {
    const place = into.closest("section");
    if (!place) return;
    event.preventDefault();
    const title = place.querySelector("h2");
    const fresh = document.createElement("div");
    place.replaceChildren(...(title ? [title] : []), fresh);
    load(fresh, into.href);
  }
});

// A merge may take minutes: what was pressed once says so, and cannot be pressed twice.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.do")) return;
  const button = event.target.querySelector("button");
  button.disabled = true;
  button.textContent = "Merging …";
});
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const input = document.querySelector("[data-search]");
  if (!input) return;
  event.preventDefault();
  input.focus();
  input.select();
});

// A picture that the browser cannot read says what it is instead.
document.addEventListener("error", (event) => {
  if (event.target instanceof HTMLImageElement) {
    const words = document.createElement("span");
    words.className = "bytes";
    words.textContent = `${event.target.alt}; it cannot be shown`;
    event.target.replaceWith(words);
  }
}, true);

begin(document);
