"use strict";
(() => {
  const PERIOD_MS = 3000;
  const main = document.querySelector("main");
  const button = document.getElementById("pause");
  let isPaused = false;

  function localTimes(root) {
    for (const one of root.querySelectorAll("time")) {
      const at = new Date(one.dateTime);
      if (!isNaN(at)) {
        one.title = one.textContent;
        one.textContent = at.toLocaleString(undefined, {dateStyle: "short", timeStyle: "medium"});
      }
    }
  }

  function focusable() {
    return [...main.querySelectorAll("a, button, input, select, [tabindex]")];
  }

  // The end of a log stays in sight, unless somebody has scrolled up.
  const isAtEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  const toEnd = (log) => { log.scrollTop = log.scrollHeight; };
  const logs = () => [...main.querySelectorAll(".log")];

  async function refresh() {
    if (isPaused || document.hidden || main.dataset.live !== "yes") return;
    if (main.querySelector("input:focus, select:focus") || !getSelection().isCollapsed) return;
    try {
      const reply = await fetch(location.href, {cache: "no-store"});
      if (!reply.ok) throw new Error(String(reply.status));
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const next = page.querySelector("main");
      if (!next) throw new Error("no page");
      localTimes(next);
      // The head tells the state of what the page is about.
      const head = page.getElementById("top"), oldHead = document.getElementById("top");
      if (!oldHead.contains(document.activeElement)) oldHead.replaceChildren(...head.childNodes);
      // Who reads by keyboard or scrolls a table stays where they are.
      const focused = focusable().indexOf(document.activeElement);
      const scrolled = [...main.querySelectorAll(".wide")].map((one) => one.scrollLeft);
      const heights = logs().map((log) => isAtEnd(log) ? Infinity : log.scrollTop);
      main.replaceChildren(...next.childNodes);
      main.querySelectorAll(".wide").forEach((one, n) => { one.scrollLeft = scrolled[n] || 0; });
      logs().forEach((log, n) => heights[n] < Infinity ? log.scrollTop = heights[n] : toEnd(log));
      if (focused >= 0) focusable()[focused]?.focus({preventScroll: true});
      main.dataset.live = next.dataset.live;
      document.title = page.title;
      document.getElementById("lost").hidden = true;
    } catch {
      document.getElementById("lost").hidden = false;
    }
  }

  localTimes(document);
  logs().forEach(toEnd);
  button.hidden = main.dataset.live !== "yes";
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Resume updates" : "Pause updates";
  });
  setInterval(refresh, PERIOD_MS);
})();
