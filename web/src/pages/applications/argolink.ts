// Addresses of Argo CD's console: /applications/<namespace>/<name>, and
// /applications/<name> of versions before 2.5.

import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";

/** ArgoLink is what an address of Argo CD's console names. */
export interface ArgoLink {
  /** The namespace is that of Argo CD's Application; an old address has none. */
  namespace?: string | undefined;
  name: string;
}

/**
 * linked returns the applications that an address may mean. A runtime has an
 * application that was moved from Argo CD under the same name in its own
 * namespace, so that the name alone decides if the namespace fits none.
 */
export function linked(all: Iterable<Application>, link: ArgoLink): Application[] {
  const named = [...all].filter((application) => application.name === link.name);
  const exact = named.filter((application) => application.namespace === link.namespace);
  return exact.length > 0 ? exact : named;
}

/**
 * openedResource returns the object that an address opens, as the page of an
 * application writes it: group/kind/namespace/name. Argo CD has it in node, with
 * the number of a container behind it; its resource is a filter such as kind:Pod.
 */
export function openedResource(search: {
  node?: string | undefined;
  resource?: string | undefined;
}): string | undefined {
  for (const value of [search.node, search.resource]) {
    const parts = value?.split("/") ?? [];
    if (parts.length === 4 || (parts.length === 5 && value === search.node)) return parts.slice(0, 4).join("/");
  }
  return undefined;
}
