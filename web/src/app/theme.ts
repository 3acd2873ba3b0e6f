/** nextTheme goes from the system's colours to the other ones, and back. */
export function nextTheme(): void {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const other = dark ? "light" : "dark";
  if (root.dataset["theme"] === other) {
    delete root.dataset["theme"];
    localStorage.removeItem("slipway.theme");
    return;
  }
  root.dataset["theme"] = other;
  localStorage.setItem("slipway.theme", other);
}
