// The resources of one application, followed at its runtime. What was read stays
// while the connection is lost, and while the page is hidden.

import type { ConnectError } from "@connectrpc/connect";
import { useCallback, useEffect, useRef, useState } from "react";
import type { Node } from "../../api/gen/slipway/runtime/v1/application_pb";
import { runtime } from "../../api/runtime";
import { type FollowState, followStream } from "../../api/stream";
import { queries } from "../../app/queries";
import type { Place } from "./follow";
import { applicationKeyOf } from "./queries";
import { changedObjects } from "./tree";

export interface LiveTree {
  /** null until it is loaded. */
  nodes: Node[] | null;
  state: FollowState;
  error: ConnectError | null;
  /** retry refetches now. */
  retry: () => void;
}

type Known = Omit<LiveTree, "retry">;

const nothing: Known = { nodes: null, state: "connecting", error: null };

/** useTree follows the tree of an application while it is wanted. */
export function useTree(place: Place, uid: string, wanted: boolean): LiveTree {
  const { runtime: name, namespace, name: application } = place;
  const key = `${name}/${namespace}/${application}/${uid}`;
  const [known, setKnown] = useState<{ key: string; tree: Known }>({ key, tree: nothing });
  const [attempt, setAttempt] = useState(0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt is another stream.
  useEffect(() => {
    if (!wanted) return;
    const stop = new AbortController();
    const set = (change: (before: Known) => Known) =>
      setKnown((before) => ({ key, tree: change(before.key === key ? before.tree : nothing) }));
    const ref = { namespace, name: application };
    void followStream(
      {
        open: (signal) => runtime(name).applications.watchTree({ ref }, { signal }),
        take(message) {
          const tree = message.tree;
          if (tree) set(() => ({ nodes: tree.nodes, state: "live", error: null }));
          return message.deleted;
        },
        turn: (state, error) => set((before) => ({ ...before, state, error })),
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [key, name, namespace, application, wanted, attempt]);

  const retry = useCallback(() => setAttempt((before) => before + 1), []);
  return { ...(known.key === key ? known.tree : nothing), retry };
}

// Minimum interval between two requests for one resource: the runtime may
// have to render Git for it.
const leastGap = 1_000;

/** useFreshResources refetches open resources when the tree reports a change. */
export function useFreshResources(place: Place, nodes: Node[] | null): void {
  const before = useRef<Node[] | null>(null);
  const asking = useRef<Asking | null>(null);
  useEffect(() => {
    const current = new Asking(place);
    asking.current = current;
    before.current = null;
    return () => current.end();
  }, [place]);
  useEffect(() => {
    if (before.current && nodes) asking.current?.add(changedObjects(before.current, nodes));
    before.current = nodes;
  }, [nodes]);
}

// Asking refetches what changed: immediately after a quiet time, and otherwise
// with the gap. A request in flight is not repeated before its response, or
// fast changes would never let one arrive.
class Asking {
  private due = new Set<string>();
  private last = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly place: Place) {}

  add(changed: Set<string>): void {
    for (const each of changed) this.due.add(each);
    if (this.due.size > 0)
      this.timer ??= setTimeout(() => this.flush(), Math.max(0, this.last + leastGap - Date.now()));
  }

  end(): void {
    clearTimeout(this.timer);
  }

  private flush(): void {
    const about = this.about(this.due);
    if (queries.isFetching(about) > 0) {
      this.timer = setTimeout(() => this.flush(), leastGap / 4);
      return;
    }
    this.timer = undefined;
    this.last = Date.now();
    this.due = new Set();
    void queries.invalidateQueries(about);
  }

  private about(names: ReadonlySet<string>) {
    return {
      queryKey: applicationKeyOf(this.place),
      predicate: ({ queryKey }: { queryKey: readonly unknown[] }) =>
        queryKey[4] === "resource" && names.has(String(queryKey[5])),
    };
  }
}
