// Live collections of the runtimes and applications of the platform.

import type { Application, Runtime } from "./gen/slipway/platform/v1/fleet_pb";
import { type Change, LiveCollection, type Snapshot, useLive } from "./live";
import { platform } from "./transport";

const runtimes = new LiveCollection({
  open: (signal: AbortSignal) => platform.runtimes.watchRuntimes({}, { signal }),
  keyOf: (item: Runtime) => item.name,
  read(message): Change<Runtime> {
    if (message.runtime) return { put: [message.runtime] };
    if (message.deleted !== "") return { remove: message.deleted };
    return message.synced ? { synced: true } : { nothing: true };
  },
});

/** applicationKey is the key of an application: runtime, namespace and name. */
export function applicationKey(application: { runtime: string; namespace: string; name: string }): string {
  return `${application.runtime}/${application.namespace}/${application.name}`;
}

const applications = new LiveCollection({
  open: (signal: AbortSignal) => platform.applications.watchApplications({ many: true }, { signal }),
  keyOf: (item: Application) => applicationKey(item),
  read(message): Change<Application> {
    if (message.applications.length > 0) return { put: message.applications };
    if (message.deleted) return { remove: applicationKey(message.deleted) };
    return message.synced ? { synced: true } : { nothing: true };
  },
});

/** warmRuntimes and warmApplications begin to follow before the page is there that shows them. */
export const warmRuntimes = (): void => runtimes.warm();
export const warmApplications = (): void => applications.warm();

/** useRuntimes is all runtimes of the account by name. */
export function useRuntimes(): Snapshot<Runtime> {
  return useLive(runtimes);
}

/** useApplications is all applications of the account by applicationKey. */
export function useApplications(): Snapshot<Application> {
  return useLive(applications);
}
