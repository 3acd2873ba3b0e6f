// How a stream is followed: opened again when it ends, with longer and longer pauses
// while it fails, until there is nothing left to watch. A hidden page follows
// nothing: browsers allow few streams, for all tabs together.

import { Code, ConnectError } from "@connectrpc/connect";

export type FollowState = "connecting" | "live" | "lost" | "gone" | "denied";

export interface Followed<M> {
  open(signal: AbortSignal): AsyncIterable<M>;
  /** take returns true when nothing can follow: what the stream is about is gone. The next message waits for its promise. */
  take(message: M): boolean | Promise<boolean>;
  /** turn is called with each state except live, which take sees first. */
  turn(state: "lost" | "gone" | "denied", error: ConnectError | null): void;
  /** waits is given what ends a pause early. */
  waits?(wake: () => void): void;
}

// A stream that is silent for this long may be dead.
const silence = 60_000;
const slowest = 10_000;
// How long a page may be hidden before its streams end.
const unseen = 10_000;

/** followStream follows a stream until the signal is aborted. */
export async function followStream<M>(followed: Followed<M>, signal: AbortSignal): Promise<void> {
  for (let tries = 0; !signal.aborted; tries++) {
    await seen(signal);
    const began = Date.now();
    const end = await once(followed, signal);
    if (signal.aborted || end === "final") return;
    if (Date.now() - began > slowest) tries = 0;
    // A stream that ended in good order is opened again at once.
    if (end === null && tries === 0) continue;
    followed.turn("lost", end);
    await pause(Math.min(slowest, 500 * 2 ** Math.min(tries, 5)) * (0.5 + Math.random() / 2), signal, followed);
  }
}

// once follows one stream to its end: null is a good one, "final" one after which
// there is nothing to ask for.
async function once<M>(followed: Followed<M>, signal: AbortSignal): Promise<ConnectError | null | "final"> {
  const stream = new AbortController();
  const abort = () => stream.abort();
  signal.addEventListener("abort", abort);
  let quiet = setTimeout(abort, silence);
  const forget = whenUnseen(abort);
  try {
    for await (const message of followed.open(stream.signal)) {
      clearTimeout(quiet);
      quiet = setTimeout(abort, silence);
      if (signal.aborted) return null;
      if (await followed.take(message)) {
        followed.turn("gone", null);
        return "final";
      }
    }
    return null;
  } catch (error) {
    const failure = ConnectError.from(error);
    if (signal.aborted) return null;
    switch (failure.code) {
      case Code.Canceled:
      case Code.Aborted:
        // It was quiet for long, or is as long as a stream may be.
        return null;
      case Code.NotFound:
        followed.turn("gone", failure);
        return "final";
      case Code.PermissionDenied:
        followed.turn("denied", failure);
        return "final";
      default:
        return failure;
    }
  } finally {
    clearTimeout(quiet);
    forget();
    signal.removeEventListener("abort", abort);
  }
}

// whenUnseen calls back when the page has been hidden for a while; what it returns
// ends that.
function whenUnseen(callback: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (hidden()) timer = setTimeout(callback, unseen);
  };
  look();
  page()?.addEventListener("visibilitychange", look);
  return () => {
    clearTimeout(timer);
    page()?.removeEventListener("visibilitychange", look);
  };
}

// seen waits until the page is visible.
function seen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (hidden() && !signal.aborted) return;
      page()?.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    page()?.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

// Without a browser there is no page, so it counts as visible.
const page = (): Document | undefined => globalThis.document;
const hidden = (): boolean => page()?.visibilityState === "hidden";

function pause<M>(milliseconds: number, signal: AbortSignal, followed: Followed<M>): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
    followed.waits?.(done);
  });
}
