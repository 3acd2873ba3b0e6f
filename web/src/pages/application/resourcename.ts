// How one object of a cluster is named.

import type { ObjectRef } from "../../api/gen/slipway/runtime/v1/application_pb";

/** ResourceName names one object; a version and a UID are not needed. */
export interface ResourceName {
  group: string;
  kind: string;
  namespace: string;
  name: string;
}

/** objectOf is the part of a reference that names the object. */
export function objectOf(ref: Partial<ObjectRef> | undefined): ResourceName {
  return { group: ref?.group ?? "", kind: ref?.kind ?? "", namespace: ref?.namespace ?? "", name: ref?.name ?? "" };
}

/** writeObject and readObject are an object in an address. Names of Kubernetes have no slash. */
export function writeObject(object: ResourceName): string {
  return [object.group, object.kind, object.namespace, object.name].join("/");
}
export function readObject(text: string | undefined): ResourceName | null {
  const parts = text?.split("/") ?? [];
  const [group = "", kind = "", namespace = "", name = ""] = parts;
  return parts.length === 4 && kind !== "" && name !== "" ? { group, kind, namespace, name } : null;
}
