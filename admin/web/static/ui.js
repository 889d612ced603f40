// The pages work without this. With it: copy buttons, the reader's own time
// beside UTC, and "Refresh" that stays where it is.
(function () {
  "use strict";

  function copy(button) {
    navigator.clipboard.writeText(button.dataset.copy).then(function () {
      button.textContent = "Copied";
      setTimeout(function () { button.textContent = "Copy"; }, 2000);
    });
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    if (event.target.closest("[data-again]")) {
      event.preventDefault();
      location.reload();
    }
  });

  if (navigator.clipboard) {
    for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && zone !== "UTC") {
    for (const place of document.querySelectorAll(".local")) {
      const at = new Date(place.dataset.at);
      place.textContent = at.toLocaleTimeString("en-GB", { timeZone: zone }) + " " + zone.split("/").pop().replaceAll("_", " ");
    }
  }
})();
