// The rights of the user on an application. The platform decides about each call
// by itself; this is for offering only what it would allow.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { platform } from "../../api/transport";
import type { Place } from "./follow";

const verbs = ["sync", "override", "rollback", "action", "logs", "delete"] as const;
export type Verb = (typeof verbs)[number];

export interface Rights {
  /** False until the platform has responded. */
  known: boolean;
  /** Whether the user has a right; all until it is known. */
  may: (verb: Verb) => boolean;
}

const rightsQuery = (place: Place, project: string) =>
  queryOptions({
    queryKey: ["rights", place.runtime, place.namespace, place.name, project],
    queryFn: async ({ signal }): Promise<ReadonlySet<Verb>> => {
      const checked = await Promise.all(
        verbs.map((verb) => platform.applications.checkAccess({ ...place, project, verb }, { signal })),
      );
      return new Set(verbs.filter((_, at) => checked[at]?.allowed));
    },
    staleTime: 60_000,
  });

/** useRights returns the rights on an application. If they cannot be read, the platform refuses the calls themselves. */
export function useRights(place: Place, project: string): Rights {
  const { data, isPending } = useQuery(rightsQuery(place, project));
  return { known: !isPending, may: (verb) => !data || data.has(verb) };
}
