// What a page does beyond being read: light or dark as chosen, arrow keys to turn pages, the events behind an entry, and what is new.
// Everything that is put into the page was escaped by the server.
"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => theme === "system" ? root.removeAttribute("data-theme") : root.setAttribute("data-theme", theme);
  let theme = themes.includes(stored()) ? stored() : "system";
  show(theme);

  function chooseTheme(button) {
    const name = () => { button.textContent = { system: "Auto", light: "Light", dark: "Dark" }[theme]; button.setAttribute("aria-label", `Colours: ${theme}. Change`); };
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      try { localStorage.setItem("theme", theme); } catch { /* a private window keeps it for this page only */ }
      show(theme);
      name();
    });
  }

  function turnPages(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target instanceof Element && event.target.closest("input, select, textarea, button, summary")) return;
    const way = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const link = way && document.querySelector(`link[rel="${way}"]`);
    if (link) location.assign(link.href);
  }

  async function fill(box) {
    const address = box.dataset.behind;
    if (!address || box.dataset.asked) return;
    box.dataset.asked = "yes";
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(String(answer.status));
      box.innerHTML = await answer.text();
    } catch {
      delete box.dataset.asked; // the link in it still leads there
    }
  }

  async function more(event) {
    const link = event.target instanceof Element && event.target.closest(".behind a.more");
    if (!link) return;
    event.preventDefault();
    const address = new URL(link.href);
    address.searchParams.set("part", "1");
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(String(answer.status));
      const rest = document.createElement("div");
      rest.innerHTML = await answer.text();
      link.closest("p").replaceWith(rest);
    } catch {
      location.assign(link.href);
    }
  }

  function follow(list) {
    const news = document.getElementById("news");
    let last = list.dataset.last, pause = 3000, elsewhere = 0;
    const look = async () => {
      if (document.visibilityState === "visible") {
        try {
          const answer = await fetch(`${list.dataset.live}?${new URLSearchParams({ after: last, day: list.dataset.day })}`);
          if (!answer.ok) throw new Error(String(answer.status));
          const found = await answer.json();
          pause = 3000;
          if (found.last) {
            last = found.last;
            const fresh = document.createElement("template");
            fresh.innerHTML = found.html;
            for (const entry of fresh.content.querySelectorAll(".entry")) { entry.classList.add("fresh"); listen(entry); }
            const shown = fresh.content.querySelectorAll(".entry").length;
            list.append(fresh.content);
            elsewhere += found.elsewhere;
            news.replaceChildren();
            if (elsewhere) {
              const link = document.createElement("a");
              link.href = found.href;
              link.textContent = elsewhere === 1 ? "One new entry on another day" : `${elsewhere} new entries on another day`;
              news.append(link);
            } else if (shown) {
              const words = document.createElement("span");
              words.textContent = shown === 1 ? "One new entry was added." : `${shown} new entries were added.`;
              words.className = "hidden";
              news.append(words);
            }
          }
        } catch {
          pause = Math.min(pause * 2, 60000);
        }
      }
      setTimeout(look, pause);
    };
    setTimeout(look, pause);
  }

  function listen(part) {
    for (const details of part.querySelectorAll("details.behind")) {
      details.addEventListener("toggle", () => { if (details.open) void fill(details.querySelector("[data-behind]")); });
    }
  }

  document.addEventListener("keydown", turnPages);
  document.addEventListener("click", (event) => void more(event));
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme");
    if (button) chooseTheme(button);
    listen(document);
    const list = document.querySelector("[data-live]");
    if (list) follow(list);
  });
})();
