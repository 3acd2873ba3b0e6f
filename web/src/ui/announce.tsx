// Announcements for screen readers without a focus change. React Aria's own
// announcer refers to elements, which may be gone before they are read: this one has text.

import { useSyncExternalStore } from "react";

let said = "";
const watchers = new Set<() => void>();

/** announce sends a text to screen readers, also while a dialog is open. */
export function announce(text: string): void {
  if (text === said) return;
  said = text;
  for (const watcher of watchers) watcher();
}

/** Announcer is the live region. There is one for the whole console. */
export function Announcer() {
  const text = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => said,
  );
  return (
    // React Aria leaves what is marked so as it is while it hides what is behind a dialog.
    <div
      className="visually-hidden"
      role="log"
      aria-label="Announcements"
      aria-live="polite"
      data-live-announcer="true"
    >
      {text}
    </div>
  );
}
