// Runs before anything is drawn, so that the page does not flash in the other colours.
(() => {
  const theme = localStorage.getItem("slipway.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
