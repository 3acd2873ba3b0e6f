// The console's client of the platform.

import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { ApplicationService, GitService, RuntimeService } from "./gen/slipway/platform/v1/fleet_pb";
import {
  AccountService,
  AuditService,
  AuthService,
  KeyService,
  SecondFactorService,
} from "./gen/slipway/platform/v1/identity_pb";

// The token of the session. Scripts of other sites cannot read it, so a request
// that has it comes from here.
let csrfToken = "";
let signedOut: () => void = () => {};

/** setSession keeps the token that goes with every request. */
export function setSession(csrf: string): void {
  csrfToken = csrf;
}

/** onSignedOut sets the callback for an expired session. */
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

/** transport reaches services below a URL, with the session. */
export function transport(baseUrl: string): Transport {
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
  factors: platformClient(SecondFactorService),
  keys: platformClient(KeyService),
  audit: platformClient(AuditService),
  runtimes: platformClient(RuntimeService),
  git: platformClient(GitService),
  applications: platformClient(ApplicationService),
};
