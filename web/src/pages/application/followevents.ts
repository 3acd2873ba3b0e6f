// Kubernetes events of an application, or of one of its resources, followed at
// its runtime.

import { Code, ConnectError } from "@connectrpc/connect";
import { useCallback, useEffect, useState } from "react";
import type { ObjectEvent } from "../../api/gen/slipway/runtime/v1/application_pb";
import { runtime } from "../../api/runtime";
import { type FollowState, followStream } from "../../api/stream";
import type { Place } from "./follow";
import { type ResourceName, writeObject } from "./resourcename";

export interface LiveEvents {
  /** null until they are loaded. */
  events: ObjectEvent[] | null;
  state: FollowState;
  error: ConnectError | null;
  /** retry refetches now. */
  retry: () => void;
}

type Known = Omit<LiveEvents, "retry">;

const nothing: Known = { events: null, state: "connecting", error: null };
// Poll interval for runtimes without the stream.
const oldPace = 5_000;

/** useEvents follows the events of an application or of one of its resources while its runtime is online. */
export function useEvents(place: Place, object: ResourceName | undefined, online: boolean): LiveEvents {
  const about = object ? writeObject(object) : "";
  const key = `${place.runtime}/${place.namespace}/${place.name}/${about}`;
  const [known, setKnown] = useState<{ key: string; events: Known }>({ key, events: nothing });
  const [attempt, setAttempt] = useState(0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key identifies the object, and another attempt is another stream.
  useEffect(() => {
    if (!online) return;
    const stop = new AbortController();
    const set = (change: (before: Known) => Known) =>
      setKnown((before) => ({ key, events: change(before.key === key ? before.events : nothing) }));
    void followStream(
      {
        open: (signal) => told(place, object, signal),
        take(events) {
          if (events) set(() => ({ events, state: "live", error: null }));
          return false;
        },
        turn: (state, error) => set((before) => ({ ...before, state, error })),
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [key, online, attempt]);

  const retry = useCallback(() => setAttempt((before) => before + 1), []);
  return { ...(known.key === key ? known.events : nothing), retry };
}

// told yields all events whenever they change; undefined is a keepalive.
async function* told(
  place: Place,
  object: ResourceName | undefined,
  signal: AbortSignal,
): AsyncGenerator<ObjectEvent[] | undefined> {
  const client = runtime(place.runtime).applications;
  const asked = { ref: { namespace: place.namespace, name: place.name }, ...(object ? { object } : {}) };
  try {
    for await (const message of client.watchEvents(asked, { signal })) yield message.list?.events;
    return;
  } catch (error) {
    if (ConnectError.from(error).code !== Code.Unimplemented) throw error;
  }
  while (!signal.aborted) {
    yield (await client.listEvents(asked, { signal })).events;
    await new Promise((resolve) => setTimeout(resolve, oldPace));
  }
}
