// The one-file book: light or dark by the system, and a filter over what is in it.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("filter"), told = document.getElementById("told");
  const plain = (text) => text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  const days = [...document.querySelectorAll(".day")].map((day) => ({ day, entries: [...day.querySelectorAll(".entry")].map((entry) => ({ entry, text: null })) }));
  let timer = 0;
  const filter = () => {
    const words = plain(field.value).split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { day, entries } of days) {
      let any = false;
      for (const one of entries) {
        one.text ??= plain(one.entry.textContent);
        const fits = words.every((word) => one.text.includes(word));
        one.entry.hidden = !fits;
        any ||= fits;
        shown += fits;
      }
      day.hidden = !any;
    }
    told.textContent = words.length ? `${shown} ${shown === 1 ? "entry has" : "entries have"} these words.` : "";
  };
  document.getElementById("filter-box").hidden = false;
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 150); });
});
