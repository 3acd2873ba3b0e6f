// Where a draft is kept until the tab is closed. There are no secrets in it.

import { type Draft, readDraft } from "./draft";

const place = "slipway.install";

/** hasDraft is true if the wizard has input in this tab. */
export function hasDraft(): boolean {
  return window.sessionStorage.getItem(place) !== null;
}

export function loadDraft(): Draft {
  return readDraft(window.sessionStorage.getItem(place));
}

export function storeDraft(draft: Draft): void {
  window.sessionStorage.setItem(place, JSON.stringify(draft));
}

/** forgetDraft clears the input after a runtime has joined. */
export function forgetDraft(name: string): void {
  if (loadDraft().name === name) window.sessionStorage.removeItem(place);
}
