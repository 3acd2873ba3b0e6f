// How the console speaks to the platform, and through it to runtimes.

import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { ApplicationService, GitService, RuntimeService } from "./gen/slipway/platform/v1/fleet_pb";
import { AccountService, AuditService, AuthService, KeyService } from "./gen/slipway/platform/v1/identity_pb";
import { ApplicationService as RuntimeApplicationService } from "./gen/slipway/runtime/v1/application_pb";
import {
  ClusterService,
  GitSourceService,
  IntegrationService,
  RuntimeService as RuntimeOwnService,
} from "./gen/slipway/runtime/v1/runtime_pb";

// The token of the session. Scripts of other sites cannot read it, so a request
// that has it comes from here.
let csrfToken = "";
let signedOut: () => void = () => {};

/** setSession keeps the token that goes with every request. */
export function setSession(csrf: string): void {
  csrfToken = csrf;
}

/** onSignedOut is called when the platform does not know the session any longer. */
export function onSignedOut(callback: () => void): void {
  signedOut = callback;
}

const session: Interceptor = (next) => async (request) => {
  if (csrfToken !== "") request.header.set("X-Slipway-CSRF", csrfToken);
  try {
    return await next(request);
  } catch (error) {
    if (ConnectError.from(error).code === Code.Unauthenticated && csrfToken !== "") {
      csrfToken = "";
      signedOut();
    }
    throw error;
  }
};

function transport(baseUrl: string): Transport {
  return createConnectTransport({ baseUrl, interceptors: [session], useBinaryFormat: true });
}

const platformTransport = transport(window.location.origin);

function platformClient<T extends DescService>(service: T): Client<T> {
  return createClient(service, platformTransport);
}

/** platform has the clients of the platform's own services. */
export const platform = {
  auth: platformClient(AuthService),
  account: platformClient(AccountService),
  keys: platformClient(KeyService),
  audit: platformClient(AuditService),
  runtimes: platformClient(RuntimeService),
  git: platformClient(GitService),
  applications: platformClient(ApplicationService),
};

/** runtimeClient is the client of a service of one runtime, through the platform. */
export function runtimeClient<T extends DescService>(service: T, runtime: string): Client<T> {
  return createClient(
    service,
    transport(`${window.location.origin}/runtimes/${encodeURIComponent(runtime)}/app-proxy`),
  );
}

export interface RuntimeClients {
  applications: Client<typeof RuntimeApplicationService>;
  runtime: Client<typeof RuntimeOwnService>;
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
    applications: runtimeClient(RuntimeApplicationService, name),
    runtime: runtimeClient(RuntimeOwnService, name),
    gitSources: runtimeClient(GitSourceService, name),
    clusters: runtimeClient(ClusterService, name),
    integrations: runtimeClient(IntegrationService, name),
  };
  runtimes.set(name, clients);
  return clients;
}
