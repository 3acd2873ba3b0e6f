import { queryOptions } from "@tanstack/react-query";
import { platform } from "../../api/transport";

/** factorsQuery is the second factors of the user. */
export const factorsQuery = queryOptions({ queryKey: ["factors"], queryFn: () => platform.factors.listFactors({}) });
