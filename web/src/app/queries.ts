import { QueryClient } from "@tanstack/react-query";
import { isPassing } from "../api/errors";

/** queries is the query cache. Transient errors are retried. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failures, error) => isPassing(error) && failures < 3,
      refetchOnWindowFocus: true,
      staleTime: 2_000,
    },
  },
});
