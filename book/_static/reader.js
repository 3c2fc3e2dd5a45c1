/* Reading first: one switch for the code of a page instead of a bar at every figure, and the parameters at its end.
   Without JavaScript the page stays as it was rendered. */
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article.bd-article"), title = article && article.querySelector("h1");
  const hidden = article ? article.querySelectorAll(".cell.tag_hide-input details.hide, .cell.tag_hide-cell details.hide") : [];
  if (!title || !hidden.length) return;
  document.documentElement.classList.add("reads-first");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "code-switch";
  const show = on => {
    document.documentElement.classList.toggle("shows-code", on);
    button.setAttribute("aria-pressed", on);
    button.textContent = on ? "Hide the code of this page" : "Show the code of this page";
    hidden.forEach(details => { details.open = on; });
  };
  button.addEventListener("click", () => show(button.getAttribute("aria-pressed") !== "true"));
  title.insertAdjacentElement("afterend", button);
  show(false);
  const parameters = article.querySelector(".cell.tag_parameters");
  if (!parameters) return;
  const folded = document.createElement("details");
  folded.className = "page-parameters";
  folded.innerHTML = "<summary>The parameters of this page, and what they may be</summary>";
  folded.append(parameters);
  article.append(folded);
});

/* A word of the glossary shows its entry when it is pointed at or in focus; a tap shows it, a second one goes there. */
document.addEventListener("DOMContentLoaded", () => {
  const words = document.querySelectorAll("a.term");
  if (!words.length) return;
  const box = document.createElement("div");
  box.id = "term-box";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  document.body.append(box);
  let shown = null;
  const hide = () => { shown = null; box.hidden = true; };
  const place = () => {
    if (!shown) return;
    const at = shown.getClientRects()[0], room = document.documentElement.clientWidth - box.offsetWidth - 8;
    box.style.left = `${Math.max(8, Math.min(at.left, room))}px`;
    const below = at.bottom + 6;
    box.style.top = `${below + box.offsetHeight > innerHeight ? at.top - box.offsetHeight - 6 : below}px`;
  };
  words.forEach(word => {
    const meaning = word.title;
    word.removeAttribute("title");
    word.setAttribute("aria-describedby", box.id);
    const show = () => {
      shown = word;
      box.textContent = meaning;
      box.hidden = false;
      place();
    };
    word.addEventListener("pointerenter", show);
    word.addEventListener("focus", show);
    word.addEventListener("pointerleave", hide);
    word.addEventListener("blur", hide);
    word.addEventListener("click", event => {
      if (!matchMedia("(hover: none)").matches || word.classList.contains("shown")) return;
      event.preventDefault();
      words.forEach(other => other.classList.toggle("shown", other === word));
      show();
    });
  });
  addEventListener("scroll", place, {passive: true});  // a word that comes into focus scrolls the page
  addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
});
