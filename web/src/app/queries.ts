import { QueryClient } from "@tanstack/react-query";
import { isPassing } from "../api/errors";

/** queries keeps what was asked. What only time mends is asked again. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failures, error) => isPassing(error) && failures < 3,
      refetchOnWindowFocus: true,
      staleTime: 2_000,
    },
  },
});
