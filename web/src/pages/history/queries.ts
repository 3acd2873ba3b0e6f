// What the platform keeps of the past. There are no streams of it, so the pages ask
// again while they are open.

import { createClient } from "@connectrpc/connect";
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { HistoryService } from "../../api/gen/slipway/platform/v1/history_pb";
import { transport } from "../../api/transport";
import { type HistoryFilter, lengthOf, requestOf } from "./filter";
import { type Grouping, groupOf } from "./words";

/** history is the client of the history: the first page of the console needs nothing of it. */
export const history = createClient(HistoryService, transport(window.location.origin));

// Runtimes report their traffic once a minute, and deployments are rarer.
const interval = 30_000;

export const doraQuery = (filter: HistoryFilter, by: Grouping) =>
  queryOptions({
    queryKey: ["history", "dora", filter, by],
    queryFn: ({ signal }) => {
      const now = Date.now();
      return history.getDora({ filter: requestOf(filter, now), groupBy: groupOf(by) }, { signal });
    },
    refetchInterval: interval,
    placeholderData: keepPreviousData,
  });

export const trafficQuery = (filter: HistoryFilter) =>
  queryOptions({
    queryKey: ["history", "traffic", filter],
    queryFn: ({ signal }) => {
      const { runtime, namespace, name, since } = requestOf(filter, Date.now());
      return history.getTrafficHistory({ runtime, namespace, application: name, since, limit: 200 }, { signal });
    },
    enabled: filter.runtime !== "" && lengthOf(filter.span) > 0,
    refetchInterval: interval,
    placeholderData: keepPreviousData,
  });
