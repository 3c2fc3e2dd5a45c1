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
