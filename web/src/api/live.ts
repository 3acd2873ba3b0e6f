// Collections that follow a stream of the platform. They keep what they had while
// the connection is lost, and report that state.

import type { ConnectError } from "@connectrpc/connect";
import { useCallback, useSyncExternalStore } from "react";
import { followStream } from "./stream";

export type LiveState = "connecting" | "live" | "lost";

/** Change is what one message of a stream does to a collection. */
export type Change<T> = { put: T[] } | { remove: string } | { synced: true } | { nothing: true };

export interface Snapshot<T> {
  items: ReadonlyMap<string, T>;
  /** Everything that there is has arrived at least once. */
  synced: boolean;
  state: LiveState;
  error: ConnectError | null;
}

export interface LiveOptions<M, T> {
  open(signal: AbortSignal): AsyncIterable<M>;
  read(message: M): Change<T>;
  /** keyOf returns the key of an item. */
  keyOf(item: T): string;
}

// Changes that come together are shown together.
const gather = 50;
// A collection without subscribers is kept a little longer: the next page may need it.
const linger = 5_000;

// drawn waits for the next frame: while messages are decoded, the browser draws none. The timer is for hidden pages,
// which have no frames.
function drawn(): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, gather);
    requestAnimationFrame(() => {
      clearTimeout(timer);
      setTimeout(resolve);
    });
  });
}

const active = new Set<LiveCollection<unknown, unknown>>();
const watchers = new Set<() => void>();
let overall: LiveState = "live";

function judge(): void {
  const states = [...active].map((collection) => collection.snapshot().state);
  const next: LiveState = states.includes("lost") ? "lost" : states.includes("connecting") ? "connecting" : "live";
  if (next === overall) return;
  overall = next;
  for (const watcher of watchers) watcher();
}

/** useConnection is the state of everything that is followed now. */
export function useConnection(): LiveState {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => overall,
  );
}

/** reconnect tries lost connections now. */
export function reconnect(): void {
  for (const collection of active) collection.retryNow();
}

window.addEventListener("online", reconnect);

export class LiveCollection<M, T> {
  private listeners = new Set<() => void>();
  private current: Snapshot<T> = { items: new Map(), synced: false, state: "connecting", error: null };
  private items = new Map<string, T>();
  private stop: AbortController | null = null;
  private lingering: ReturnType<typeof setTimeout> | undefined;
  private pending: ReturnType<typeof setTimeout> | undefined;
  private wake: () => void = () => {};

  constructor(private readonly options: LiveOptions<M, T>) {}

  snapshot = (): Snapshot<T> => this.current;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    clearTimeout(this.lingering);
    if (!this.stop) this.start();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.lingering = setTimeout(() => this.end(), linger);
    };
  };

  /** warm opens the stream before the page that needs it. */
  warm(): void {
    this.subscribe(() => {})();
  }

  retryNow(): void {
    this.wake();
  }

  private start(): void {
    this.stop = new AbortController();
    active.add(this as LiveCollection<unknown, unknown>);
    void this.follow(this.stop.signal);
  }

  private end(): void {
    this.stop?.abort();
    this.stop = null;
    active.delete(this as LiveCollection<unknown, unknown>);
    judge();
  }

  // What a stream does not name until it has sent everything is gone.
  private follow(signal: AbortSignal): Promise<void> {
    let named = new Set<string>();
    let complete = false;
    return followStream(
      {
        open: (stream) => {
          named = new Set();
          complete = false;
          return this.options.open(stream);
        },
        take: (message) => {
          const change = this.options.read(message);
          if ("put" in change) {
            for (const item of change.put) {
              const key = this.options.keyOf(item);
              this.items.set(key, item);
              if (!complete) named.add(key);
            }
          } else if ("remove" in change) {
            this.items.delete(change.remove);
          } else if ("synced" in change) {
            complete = true;
            for (const key of this.items.keys()) if (!named.has(key)) this.items.delete(key);
            this.publish({ state: "live", error: null, synced: true });
            return false;
          }
          if (complete) this.publishSoon();
          // The first items are shown at once, and the rest together.
          else if (this.current.items.size === 0 && this.items.size > 0) {
            this.publish({});
            return drawn().then(() => false);
          }
          return false;
        },
        turn: (_, error) => this.publish({ state: "lost", error }),
        waits: (wake) => {
          this.wake = wake;
        },
      },
      signal,
    );
  }

  private publishSoon(): void {
    this.pending ??= setTimeout(() => this.publish({}), gather);
  }

  private publish(change: Partial<Snapshot<T>>): void {
    clearTimeout(this.pending);
    this.pending = undefined;
    this.current = { ...this.current, ...change, items: new Map(this.items) };
    judge();
    for (const listener of this.listeners) listener();
  }
}

/** useLive gives what a collection has, and follows it. */
export function useLive<M, T>(collection: LiveCollection<M, T>): Snapshot<T> {
  const subscribe = useCallback((listener: () => void) => collection.subscribe(listener), [collection]);
  return useSyncExternalStore(subscribe, collection.snapshot);
}
