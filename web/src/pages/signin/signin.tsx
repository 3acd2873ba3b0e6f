// Signing in: with email and password, or through the identity provider.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { explain } from "../../api/errors";
import type { SecondFactorChallenge, SignInResponse } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform, setSession } from "../../api/transport";
import { queries } from "../../app/queries";
import { methodsQuery, sessionQuery } from "../../app/session";
import { Button, buttonClass } from "../../ui/button";
import { TextField } from "../../ui/field";
import { Failure, Loading, Note } from "../../ui/page";
import { Gate } from "./gate";
import { safeNext, withReturn } from "./next";
import { SecondStep } from "./second-step";

const route = getRouteApi("/sign-in");

export function SignInPage() {
  const next = safeNext(route.useSearch().next);
  const router = useRouter();
  const methods = useQuery(methodsQuery);
  const session = useQuery(sessionQuery);
  const signedIn = Boolean(session.data);
  useEffect(() => {
    // Somebody who is signed in already has nothing to do here.
    if (signedIn) router.history.replace(next);
  }, [signedIn, router, next]);
  return (
    <Gate title="Sign in to Slipway" foot="GitOps delivery and ingress traffic for Kubernetes.">
      {methods.isPending || session.isPending ? (
        <div className="gate-wait">
          <Loading lines={6} />
        </div>
      ) : methods.isError ? (
        <Failure error={methods.error} retry={() => void methods.refetch()} />
      ) : (
        <>
          {methods.data.oidcUrl !== "" && (
            <a
              className={`${buttonClass(methods.data.password ? "secondary" : "primary")} wide`}
              href={withReturn(methods.data.oidcUrl, next)}
            >
              Sign in with {methods.data.oidcName || "the identity provider"}
            </a>
          )}
          {methods.data.oidcUrl !== "" && methods.data.password && <div className="gate-or">or with a password</div>}
          {methods.data.password && <PasswordForm />}
        </>
      )}
    </Gate>
  );
}

// signedIn keeps the session of a sign-in. Cached data of another user must not
// be shown. The page leaves when the session is loaded.
async function signedIn(response: SignInResponse) {
  setSession(response.csrfToken);
  queries.removeQueries({ predicate: (query) => !["session", "methods"].includes(String(query.queryKey[0])) });
  await queries.fetchQuery({ ...sessionQuery, staleTime: 0 });
}

function PasswordForm() {
  const [challenge, setChallenge] = useState<SecondFactorChallenge>();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (email.trim() === "" || password === "") {
      setProblem("Enter your email and password.");
      return;
    }
    setBusy(true);
    setProblem("");
    try {
      const response = await platform.auth.signIn({ email: email.trim(), password });
      if (response.secondFactor) setChallenge(response.secondFactor);
      else await signedIn(response);
    } catch (error) {
      setProblem(explain(error));
      setPassword("");
      form.current?.querySelector<HTMLInputElement>("input[type=password]")?.focus();
    } finally {
      setBusy(false);
    }
  };
  if (challenge) {
    const back = (reason: string) => {
      setChallenge(undefined);
      setPassword("");
      setProblem(reason);
    };
    return <SecondStep challenge={challenge} onSignedIn={signedIn} onBack={back} />;
  }
  return (
    <form ref={form} onSubmit={(event) => void submit(event)} noValidate>
      <TextField label="Email" type="email" value={email} onChange={setEmail} autoComplete="username" autoFocus />
      <TextField
        label="Password"
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="current-password"
      />
      {problem && <Note tone="bad">{problem}</Note>}
      <Button variant="primary" type="submit" isPending={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </Button>
    </form>
  );
}
