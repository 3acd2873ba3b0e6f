// One application, followed at its runtime. What was read stays while the
// connection is lost.

import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { runtime } from "../../api/transport";
import { type ApplicationManifest, readManifest } from "./manifest";

export interface Place {
  runtime: string;
  namespace: string;
  name: string;
}

export type DetailState = "connecting" | "live" | "lost" | "gone" | "denied";

export interface Detail {
  manifest: ApplicationManifest | null;
  /** Changes with each state that arrived. */
  version: string;
  state: DetailState;
  error: ConnectError | null;
}

const nothing: Detail = { manifest: null, version: "", state: "connecting", error: null };
// A stream without a word for this long may be dead without anybody knowing.
const silence = 60_000;
const slowest = 10_000;

/**
 * useApplicationDetail follows an application. online is whether its runtime is:
 * when it comes back the application is asked for at once. uid is what the platform
 * knows: one that was deleted and made again is another.
 */
export function useApplicationDetail(place: Place, uid: string, online: boolean): Detail {
  const { runtime: name, namespace, name: application } = place;
  const key = `${name}/${namespace}/${application}/${uid}`;
  const [known, setKnown] = useState<{ key: string; detail: Detail }>({ key, detail: nothing });

  useEffect(() => {
    const stop = new AbortController();
    const set = (change: (before: Detail) => Detail) =>
      setKnown((before) => ({ key, detail: change(before.key === key ? before.detail : nothing) }));
    if (!online) {
      set((before) => ({ ...before, state: "lost" }));
      return;
    }
    void follow({ runtime: name, namespace, name: application }, stop.signal, set);
    return () => stop.abort();
  }, [key, name, namespace, application, online]);

  return known.key === key ? known.detail : nothing;
}

type Set = (change: (before: Detail) => Detail) => void;

async function follow(place: Place, signal: AbortSignal, set: Set): Promise<void> {
  for (let tries = 0; !signal.aborted; tries++) {
    const began = Date.now();
    const end = await once(place, signal, set);
    if (signal.aborted || end === "final") return;
    if (Date.now() - began > slowest) tries = 0;
    // A stream that ended in good order is opened again at once.
    if (end === null && tries === 0) continue;
    set((before) => ({ ...before, state: "lost", error: end }));
    await pause(Math.min(slowest, 500 * 2 ** Math.min(tries, 5)) * (0.5 + Math.random() / 2), signal);
  }
}

// once follows one stream to its end: null is a good one, "final" one after which
// there is nothing to ask for.
async function once(place: Place, signal: AbortSignal, set: Set): Promise<ConnectError | null | "final"> {
  const stream = new AbortController();
  const abort = () => stream.abort();
  signal.addEventListener("abort", abort);
  let quiet = setTimeout(abort, silence);
  try {
    const ref = { namespace: place.namespace, name: place.name };
    for await (const message of runtime(place.runtime).applications.watchApplication(
      { ref },
      { signal: stream.signal },
    )) {
      clearTimeout(quiet);
      quiet = setTimeout(abort, silence);
      if (message.deleted) {
        set((before) => ({ ...before, state: "gone", error: null }));
        return "final";
      }
      const bytes = message.application?.manifest;
      if (!bytes || signal.aborted) continue;
      const manifest = readManifest(bytes);
      const version = manifest.metadata?.resourceVersion ?? String(Date.now());
      set(() => ({ manifest, version, state: "live", error: null }));
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
        set((before) => ({ ...before, state: "gone", error: failure }));
        return "final";
      case Code.PermissionDenied:
        set((before) => ({ ...before, state: "denied", error: failure }));
        return "final";
      default:
        return failure;
    }
  } finally {
    clearTimeout(quiet);
    signal.removeEventListener("abort", abort);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
