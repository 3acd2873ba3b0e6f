// Collections that follow a stream of the platform. They keep what they had while
// the connection is lost, and say so.

import { Code, ConnectError } from "@connectrpc/connect";
import { useCallback, useSyncExternalStore } from "react";

export type LiveState = "connecting" | "live" | "lost";

/** Change is what one message of a stream does to a collection. */
export type Change<T> = { put: [string, T] } | { remove: string } | { synced: true } | { nothing: true };

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
}

// Changes that come together are shown together.
const gather = 50;
// A collection that nobody looks at is followed a little longer: pages change.
const linger = 5_000;
// A stream without a word for this long may be dead without anybody knowing.
const silence = 60_000;
const slowest = 10_000;

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

  private async follow(signal: AbortSignal): Promise<void> {
    for (let tries = 0; !signal.aborted; tries++) {
      const began = Date.now();
      const error = await this.once(signal);
      if (signal.aborted) return;
      if (Date.now() - began > slowest) tries = 0;
      // A stream that the platform ended in good order is opened again at once.
      if (error === null && tries === 0) continue;
      this.publish({ state: "lost", error });
      await this.pause(Math.min(slowest, 500 * 2 ** Math.min(tries, 5)) * (0.5 + Math.random() / 2));
    }
  }

  // once follows one stream to its end. What the stream does not name until it has
  // sent everything is gone.
  private async once(signal: AbortSignal): Promise<ConnectError | null> {
    const stream = new AbortController();
    const abort = () => stream.abort();
    signal.addEventListener("abort", abort);
    let quiet = setTimeout(abort, silence);
    const named = new Set<string>();
    let complete = false;
    try {
      for await (const message of this.options.open(stream.signal)) {
        clearTimeout(quiet);
        quiet = setTimeout(abort, silence);
        const change = this.options.read(message);
        if ("put" in change) {
          this.items.set(change.put[0], change.put[1]);
          if (!complete) named.add(change.put[0]);
        } else if ("remove" in change) {
          this.items.delete(change.remove);
        } else if ("synced" in change) {
          complete = true;
          for (const key of this.items.keys()) if (!named.has(key)) this.items.delete(key);
          named.clear();
          this.publish({ state: "live", error: null, synced: true });
          continue;
        }
        if (complete) this.publishSoon();
      }
      return null;
    } catch (error) {
      const failure = ConnectError.from(error);
      return stream.signal.aborted && failure.code === Code.Canceled ? null : failure;
    } finally {
      clearTimeout(quiet);
      signal.removeEventListener("abort", abort);
    }
  }

  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
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
