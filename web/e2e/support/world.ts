// What test/console has started, and what it does for a spec.

export interface World {
  url: string;
  control: string;
  /** Folder for the pictures of all pages. */
  images: string;
  /** Folder for those that docs/ shows; empty when they are not to be written. */
  documents: string;
  admin: { email: string; oneTime: string; password: string };
  user: { email: string; password: string };
  git: { api: string; shared: string; apps: string; runtimeToken: string; userToken: string };
  /** Host at which the edge serves the application web. */
  host: string;
  /** URL of the gateway of a service mesh. */
  mesh: string;
  /** Namespace that applications go to. */
  target: string;
  /** What no page may ever show. */
  hidden: string;
  /** An identity provider, for platforms that are started with it. Everybody is Carol there. */
  provider: { issuer: string; clientID: string; clientSecret: string };
  /** Certificate of the Git provider. */
  authorities: string;
}

function read(): World {
  const text = process.env["CONSOLE_WORLD"];
  if (!text) throw new Error("There is no platform: run `go test ./test/console`, which starts one and these specs.");
  return JSON.parse(text) as World;
}

export const world: World = read();

async function ask<T>(path: string, body: object = {}): Promise<T> {
  const answer = await fetch(world.control + path, { method: "POST", body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${text}`);
  return JSON.parse(text) as T;
}

/** install runs the command that the wizard shows, as a person would, with the key. */
export function install(command: string, key: string): Promise<{ name: string; namespace: string }> {
  return ask("/install", { command, key });
}

/** policy replaces the rules about rights in argocd-rbac-cm, which the runtime watches. */
export function policy(rules: string): Promise<void> {
  return ask("/policy", { rules });
}

/** apply creates objects in the namespace of the runtime, as a person with kubectl would. */
export const apply = (manifests: string): Promise<unknown> => ask("/apply", { manifests });

/** push commits another value to an application and sends the webhooks; it returns the commit. */
export async function push(folder: string, value: string, message: string): Promise<string> {
  const { commit } = await ask<{ commit: string }>("/push", { folder, value, message });
  return commit;
}

/** pushFiles commits files to the repository of the applications and sends the webhooks; it returns the commit. */
export async function pushFiles(files: Record<string, string>, message: string): Promise<string> {
  const { commit } = await ask<{ commit: string }>("/files", { files, message });
  return commit;
}

/** refresh commits another value without a webhook. */
export async function refresh(folder: string, value: string, message: string): Promise<string> {
  const { commit } = await ask<{ commit: string }>("/refresh", { namespace: "slipway", folder, value, message });
  return commit;
}

/** valueInCluster returns the value of the application's ConfigMap in the cluster. */
export async function valueInCluster(folder: string): Promise<string> {
  const { value } = await ask<{ value: string }>("/value", { folder });
  return value;
}

export const stopPlatform = (): Promise<unknown> => ask("/platform/stop");
/** startPlatform starts the platform, with options besides those that it always has. */
export const startPlatform = (...options: string[]): Promise<unknown> => ask("/platform/start", { options });
/** startLoad sends requests to a host of the edge, by default that of the application web. */
export const startLoad = (host = ""): Promise<unknown> => ask("/load/start", { host });
export const stopLoad = (): Promise<{ answered: number; failed: number }> => ask("/load/stop");

/** gather has a runtime report many applications. */
export const gather = (runtime: string, count: number): Promise<unknown> => ask("/crowd", { runtime, count });

/** gatherFleet has many runtimes report applications. */
export const gatherFleet = (runtimes: number, count: number): Promise<unknown> => ask("/fleet", { runtimes, count });

/** changeFleet has a runtime of the fleet report an application, a new one or with another health. */
export const changeFleet = (runtime: number, name: string, health: string): Promise<unknown> =>
  ask("/fleet/change", { runtime, name, health });

/** reportPast has a runtime report deployments and requests of the last weeks. */
export const reportPast = (runtime: string): Promise<unknown> => ask("/past", { runtime });

/** deletePods deletes the Pods of an application with Kubernetes alone; the cluster makes others. */
export async function deletePods(folder: string): Promise<string[]> {
  const { names } = await ask<{ names: string[] }>("/pods/delete", { folder });
  return names;
}
