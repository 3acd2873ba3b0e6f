// Where a Git provider sends the browser back to.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { explain } from "../../api/errors";
import { runtime } from "../../api/runtime";
import { buttonClass } from "../../ui/button";
import { Loading, Note, Page } from "../../ui/page";
import { toast } from "../../ui/toast";
import { safeNext } from "../signin/next";
import { takePending } from "./pending";

const route = getRouteApi("/inside/oauth/callback");

const errors: Record<string, string> = {
  access_denied: "Access was denied at the provider. Nothing was stored.",
  temporarily_unavailable: "The provider is unavailable. Try again later.",
};

export function OAuthCallbackPage() {
  const { state, code, error } = route.useSearch();
  const router = useRouter();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const finished = useQuery({
    queryKey: ["oauth", state],
    queryFn: async () => {
      const pending = takePending(window.sessionStorage, state ?? "");
      if (!pending) {
        throw new Error(
          "This sign-in was not started in this tab, or it is already completed. Start again in the settings.",
        );
      }
      if (error) throw new Error(errors[error] ?? `The provider refused it: ${error}.`);
      if (!code) throw new Error("The provider sent no code. Start again in the settings.");
      const answer = await runtime(pending.runtime).integrations.finishOAuth({ state: pending.state, code });
      return { ...pending, login: answer.status?.login ?? "" };
    },
    // A code is good once.
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const done = finished.data;
  useEffect(() => {
    if (!done) return;
    toast(done.login ? `The token of ${done.login} is stored in ${done.runtime}.` : "The token is stored.");
    void queries.invalidateQueries({ queryKey: ["integrations", done.runtime] });
    // The code does not stay in the history.
    router.history.replace(safeNext(`/console${done.back}`));
  }, [done, queries, router]);
  useEffect(() => {
    // Neither when it failed.
    if (finished.isError && code) void navigate({ to: "/oauth/callback", search: { state }, replace: true });
  }, [finished.isError, code, state, navigate]);
  return (
    <Page title="Git provider">
      {finished.isError ? (
        <div className="stack">
          <Note tone="bad">{explain(finished.error)}</Note>
          <div>
            <Link className={buttonClass("primary")} to="/settings" search={{ section: "git" }}>
              To the Git settings
            </Link>
          </div>
        </div>
      ) : (
        <>
          <p role="status">The runtime is requesting the token from the provider…</p>
          <Loading lines={4} />
        </>
      )}
    </Page>
  );
}
