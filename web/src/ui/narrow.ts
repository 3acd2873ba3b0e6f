import { useSyncExternalStore } from "react";

const query = window.matchMedia("(max-width: 720px)");

function follow(watcher: () => void): () => void {
  query.addEventListener("change", watcher);
  return () => query.removeEventListener("change", watcher);
}

/** useNarrow is true on the screens where columns and pages are left narrow, as in ui.css. */
export function useNarrow(): boolean {
  return useSyncExternalStore(follow, () => query.matches);
}
