// A token of a Git provider by signing in there. The runtime begins and finishes it;
// the browser remembers in between which runtime that was, and what it began.

import { runtime } from "../../api/runtime";
import { keepPending } from "./pending";

export interface OAuthWish {
  runtime: string;
  integration: string;
  /** For the runtime itself instead of the calling user. Admins only. */
  runtimeToken?: boolean;
  /** Where to go afterwards, such as /settings?section=git. */
  back: string;
}

/** beginOAuth leaves the console for the provider. */
export async function beginOAuth(wish: OAuthWish): Promise<void> {
  const answer = await runtime(wish.runtime).integrations.beginOAuth({
    integration: wish.integration,
    redirectUrl: `${window.location.origin}/console/oauth/callback`,
    runtimeToken: wish.runtimeToken ?? false,
  });
  const to = new URL(answer.url);
  if (to.protocol !== "https:" && to.protocol !== "http:") throw new Error("The provider's URL is not a web page.");
  keepPending(window.sessionStorage, { state: answer.state, runtime: wish.runtime, back: wish.back });
  window.location.assign(to.toString());
}
