// Queries to a runtime about one application. There are no streams for them, so
// they are refetched when the application or the resource changes.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { runtime } from "../../api/runtime";
import type { Place } from "./follow";
import { type ResourceName, writeObject } from "./resourcename";

const refOf = (place: Place) => ({ namespace: place.namespace, name: place.name });
const keyOf = (place: Place) => [place.runtime, place.namespace, place.name];

/** applicationKeyOf is the prefix of all query keys of an application. */
export const applicationKeyOf = (place: Place) => ["application", ...keyOf(place)];

/** isRendered is true for what the runtime has to render Git for. */
export function isRendered(key: readonly unknown[]): boolean {
  return key[4] === "diff" || key[4] === "resource";
}

/** resourceQuery: followed is set if the tree reports changes of the resource. */
export const resourceQuery = (place: Place, object: ResourceName, followed: boolean) =>
  queryOptions({
    queryKey: [...applicationKeyOf(place), "resource", writeObject(object)],
    queryFn: ({ signal }) => runtime(place.runtime).applications.getResource({ ref: refOf(place), object }, { signal }),
    refetchInterval: followed ? false : 10_000,
  });

/** actionsQuery: which actions have an effect depends on the state of the resource. */
export const actionsQuery = (place: Place, object: ResourceName) =>
  queryOptions({
    queryKey: [...applicationKeyOf(place), "actions", writeObject(object)],
    queryFn: ({ signal }) => runtime(place.runtime).applications.listActions({ ref: refOf(place), object }, { signal }),
  });

export const diffQuery = (place: Place, revision = "") =>
  queryOptions({
    queryKey: [...applicationKeyOf(place), "diff", revision],
    queryFn: ({ signal }) => runtime(place.runtime).applications.diff({ ref: refOf(place), revision }, { signal }),
    // It renders and reads each object from the API server.
    staleTime: 5_000,
    placeholderData: keepPreviousData,
  });

export const historyQuery = (place: Place) =>
  queryOptions({
    queryKey: [...applicationKeyOf(place), "history"],
    queryFn: ({ signal }) => runtime(place.runtime).applications.getHistory({ ref: refOf(place) }, { signal }),
  });

/** releasesQuery polls: the counts change all the time, and a rollback takes seconds. */
export const releasesQuery = (place: Place) =>
  queryOptions({
    queryKey: [...applicationKeyOf(place), "releases"],
    queryFn: ({ signal }) => runtime(place.runtime).releases.listReleases({ ref: refOf(place) }, { signal }),
    refetchInterval: 2_000,
    placeholderData: keepPreviousData,
  });
