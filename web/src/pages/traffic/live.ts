// The traffic of a runtime, followed while the page is open.

import { TrafficService, type WatchTrafficResponse } from "../../api/gen/slipway/runtime/v1/traffic_pb";
import { type Change, LiveCollection, type LiveState, useLive } from "../../api/live";
import { runtimeClient } from "../../api/runtime";
import { advance, type TrafficState } from "./model";

type Said = { message: WatchTrafficResponse } | { synced: true };

const only = "traffic";
const followed = new Map<string, LiveCollection<Said, TrafficState>>();

/** trafficClient is the client of a runtime's TrafficService. */
export function trafficClient(runtime: string) {
  return runtimeClient(TrafficService, runtime);
}

function collection(runtime: string, edge: string): LiveCollection<Said, TrafficState> {
  const key = JSON.stringify([runtime, edge]);
  const known = followed.get(key);
  if (known) return known;
  let state: TrafficState | undefined;
  const made = new LiveCollection<Said, TrafficState>({
    async *open(signal: AbortSignal) {
      let first = true;
      for await (const message of trafficClient(runtime).watchTraffic({ edge }, { signal })) {
        yield { message };
        // One message has everything that there is.
        if (first) yield { synced: true };
        first = false;
      }
    },
    read(said): Change<TrafficState> {
      if ("synced" in said) return { synced: true };
      state = advance(state, said.message);
      return { put: [state] };
    },
    keyOf: () => only,
  });
  followed.set(key, made);
  return made;
}

export interface Traffic {
  state: TrafficState | undefined;
  connection: LiveState;
  error: unknown;
}

/** useTraffic follows what the edges of a runtime serve; an empty edge is all of them. */
export function useTraffic(runtime: string, edge: string): Traffic {
  const live = useLive(collection(runtime, edge));
  return { state: live.items.get(only), connection: live.state, error: live.error };
}
