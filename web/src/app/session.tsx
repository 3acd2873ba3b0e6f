// Who is signed in.

import { Code, ConnectError } from "@connectrpc/connect";
import { queryOptions, useSuspenseQuery } from "@tanstack/react-query";
import { type MeResponse, Role } from "../api/gen/slipway/platform/v1/identity_pb";
import { onSignedOut, platform, setSession } from "../api/transport";
import { queries } from "./queries";

/** sessionQuery loads the session; null if there is none. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<MeResponse | null> => {
    try {
      const me = await platform.auth.me({});
      setSession(me.csrfToken);
      return me;
    } catch (error) {
      if (ConnectError.from(error).code === Code.Unauthenticated) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** methodsQuery loads the ways to sign in. */
export const methodsQuery = queryOptions({
  queryKey: ["methods"],
  queryFn: () => platform.auth.methods({}),
  staleTime: 60_000,
});

export interface Session {
  userID: string;
  email: string;
  name: string;
  role: Role;
  isAdmin: boolean;
  /** May sync, and register a token of their own: operators and admins. */
  isOperator: boolean;
  accountID: string;
  accountName: string;
  platformVersion: string;
}

/** useSession is for pages behind the sign-in. */
export function useSession(): Session {
  const { data } = useSuspenseQuery(sessionQuery);
  return {
    userID: data?.user?.id ?? "",
    email: data?.user?.email ?? "",
    name: data?.user?.name || data?.user?.email || "",
    role: data?.user?.role ?? Role.UNSPECIFIED,
    isAdmin: data?.user?.role === Role.ADMIN,
    isOperator: data?.user?.role === Role.OPERATOR || data?.user?.role === Role.ADMIN,
    accountID: data?.account?.id ?? "",
    accountName: data?.account?.name ?? "",
    platformVersion: data?.platformVersion ?? "",
  };
}

/** forgetSession drops everything that was read for a user who is not signed in any longer. */
export function forgetSession(): void {
  setSession("");
  queries.clear();
}

onSignedOut(() => {
  // A whole new page: nothing of the user stays in memory.
  const here = window.location.pathname + window.location.search;
  window.location.assign(`/console/sign-in?next=${encodeURIComponent(here)}`);
});
