// How the console speaks to runtimes, through the platform. It is apart from what
// speaks to the platform itself: the first page needs nothing of it.

import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { ApplicationService } from "./gen/slipway/runtime/v1/application_pb";
import { ReleaseService } from "./gen/slipway/runtime/v1/release_pb";
import {
  ClusterService,
  GitSourceService,
  IntegrationService,
  RuntimeService,
} from "./gen/slipway/runtime/v1/runtime_pb";
import { transport } from "./transport";

/** runtimeClient is the client of a service of one runtime, through the platform. */
export function runtimeClient<T extends DescService>(service: T, runtime: string): Client<T> {
  return createClient(
    service,
    transport(`${window.location.origin}/runtimes/${encodeURIComponent(runtime)}/app-proxy`),
  );
}

export interface RuntimeClients {
  applications: Client<typeof ApplicationService>;
  releases: Client<typeof ReleaseService>;
  runtime: Client<typeof RuntimeService>;
  gitSources: Client<typeof GitSourceService>;
  clusters: Client<typeof ClusterService>;
  integrations: Client<typeof IntegrationService>;
}

const runtimes = new Map<string, RuntimeClients>();

/** runtime has the clients of the services of one runtime. */
export function runtime(name: string): RuntimeClients {
  const known = runtimes.get(name);
  if (known) return known;
  const clients = {
    applications: runtimeClient(ApplicationService, name),
    releases: runtimeClient(ReleaseService, name),
    runtime: runtimeClient(RuntimeService, name),
    gitSources: runtimeClient(GitSourceService, name),
    clusters: runtimeClient(ClusterService, name),
    integrations: runtimeClient(IntegrationService, name),
  };
  runtimes.set(name, clients);
  return clients;
}
