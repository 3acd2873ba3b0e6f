// What this tab remembers of a login that is with a Git provider. The state that comes
// back must be the one that this tab started with: a code that an attacker planted is
// not stored.

const place = "slipway.oauth";

/** PendingLogin is a login that is with the provider. */
export interface PendingLogin {
  state: string;
  runtime: string;
  /** A page of the console to go to afterwards, without /console. */
  back: string;
}

/** keepPending remembers a login. */
export function keepPending(storage: Pick<Storage, "setItem">, pending: PendingLogin): void {
  storage.setItem(place, JSON.stringify(pending));
}

/** takePending is the login that this browser began, if the state is its own. It is used once. */
export function takePending(storage: Pick<Storage, "getItem" | "removeItem">, state: string): PendingLogin | null {
  const text = storage.getItem(place);
  storage.removeItem(place);
  const pending = text === null ? null : readPending(text);
  return pending !== null && state !== "" && pending.state === state ? pending : null;
}

function readPending(text: string): PendingLogin | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const { state, runtime: name, back } = value as Record<string, unknown>;
  if (typeof state !== "string" || typeof name !== "string" || typeof back !== "string") return null;
  return { state, runtime: name, back };
}
