// What a runtime says about promotions. There is no stream of it, so the page asks
// again while it is open.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { PromotionService } from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { runtimeClient } from "../../api/runtime";
import { queries } from "../../app/queries";

export const promotionClient = (runtime: string) => runtimeClient(PromotionService, runtime);

/** promotionsQuery polls: a step takes seconds, and people wait for it. */
export const promotionsQuery = (runtime: string) =>
  queryOptions({
    queryKey: ["promotions", runtime],
    queryFn: ({ signal }) => promotionClient(runtime).listPromotions({}, { signal }),
    refetchInterval: 4_000,
    placeholderData: keepPreviousData,
  });

/** refreshPromotions asks at once, after an action. */
export const refreshPromotions = (runtime: string) =>
  queries.invalidateQueries({ queryKey: promotionsQuery(runtime).queryKey });
