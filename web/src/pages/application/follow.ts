// One application, followed at its runtime. What was read stays while the
// connection is lost.

import type { ConnectError } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { runtime } from "../../api/runtime";
import { type FollowState, followStream } from "../../api/stream";
import { type ApplicationManifest, readManifest } from "./manifest";

export interface Place {
  runtime: string;
  namespace: string;
  name: string;
}

export interface Detail {
  manifest: ApplicationManifest | null;
  /** Changes with each state that arrived. */
  version: string;
  state: FollowState;
  error: ConnectError | null;
}

const nothing: Detail = { manifest: null, version: "", state: "connecting", error: null };

/**
 * useApplicationDetail follows an application. online is whether its runtime is:
 * when it reconnects the application is refetched immediately. uid comes from the platform:
 * an application that was deleted and created again has another one.
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
    const ref = { namespace, name: application };
    void followStream(
      {
        open: (signal) => runtime(name).applications.watchApplication({ ref }, { signal }),
        take(message) {
          if (message.deleted) return true;
          const bytes = message.application?.manifest;
          if (!bytes) return false;
          const manifest = readManifest(bytes);
          const version = manifest.metadata?.resourceVersion ?? String(Date.now());
          set(() => ({ manifest, version, state: "live", error: null }));
          return false;
        },
        turn: (state, error) => set((before) => ({ ...before, state, error })),
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [key, name, namespace, application, online]);

  return known.key === key ? known.detail : nothing;
}
