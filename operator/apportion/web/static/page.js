// Renews the page in place: parts that did not change stay as they are, so that focus, selection and a screen reader's place stay, too.
"use strict";
(() => {
  const PACE = 5000; // milliseconds
  let paused = false;
  let running = false;

  const button = document.createElement("button");
  button.type = "button";
  button.id = "pause";
  const say = () => {
    button.textContent = paused ? "Go on updating" : "Pause updates";
  };
  button.addEventListener("click", () => {
    paused = !paused;
    say();
  });
  say();
  document.querySelector("header").append(button);

  const signature = (element) =>
    element.id || `${element.tagName} ${element.getAttribute("href") || ""} ${element.textContent}`;

  // The element in a part of the page that stands for the one that had the focus.
  const counterpart = (part, focused) =>
    [...part.querySelectorAll("a, button, summary, [tabindex]")].find(
      (each) => signature(each) === signature(focused),
    );

  const replace = (old, fresh) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const open = new Set([...old.querySelectorAll("details[open]")].map((each) => each.id));
    const made = document.importNode(fresh, true);
    for (const each of made.querySelectorAll("details")) each.open = open.has(each.id);
    old.replaceWith(made);
    if (focused) (counterpart(made, focused) || document.getElementById("main")).focus({ preventScroll: true });
  };

  const sync = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (!(old.hasAttribute("data-parts") && fresh.hasAttribute("data-parts"))) {
      replace(old, fresh);
      return;
    }
    const wanted = new Set([...fresh.children].map((each) => each.id));
    for (const each of [...old.children]) if (!wanted.has(each.id)) each.remove();
    let before = null;
    for (const each of fresh.children) {
      const own = [...old.children].find((child) => child.id === each.id);
      if (own) {
        sync(own, each);
      } else {
        old.insertBefore(document.importNode(each, true), before ? before.nextElementSibling : old.firstElementChild);
      }
      before = [...old.children].find((child) => child.id === each.id);
    }
  };

  const renew = async () => {
    if (paused || running || document.hidden) return;
    if (!document.getSelection().isCollapsed) return; // somebody copies text
    running = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      // A page that says why it has no answer takes the place of nothing.
      if (answer.ok || document.getElementById("message")) sync(document.getElementById("main"), fresh.getElementById("main"));
      sync(document.getElementById("source"), fresh.getElementById("source"));
    } catch {
      const age = document.getElementById("age");
      age.className = "stale";
      age.textContent = "The page cannot be reached; what it shows is old.";
    } finally {
      running = false;
    }
  };
  setInterval(renew, PACE);
})();
