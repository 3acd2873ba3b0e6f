// The second step of a sign-in: a passkey, or the code of the second factor.

import { Code, ConnectError } from "@connectrpc/connect";
import { type FormEvent, useState } from "react";
import { explain } from "../../api/errors";
import type { SecondFactorChallenge, SignInResponse } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { Note } from "../../ui/page";
import { provePasskey } from "./passkey";

interface Props {
  challenge: SecondFactorChallenge;
  onSignedIn: (response: SignInResponse) => Promise<void>;
  /** Back to the password, with the reason. */
  onBack: (reason: string) => void;
}

export function SecondStep({ challenge, onSignedIn, onBack }: Props) {
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const hasPasskey = challenge.passkey !== "";
  const complete = async (prove: () => Promise<{ code: string } | { passkey: string }>) => {
    setBusy(true);
    setProblem("");
    try {
      await onSignedIn(await platform.auth.completeSignIn({ ticket: challenge.ticket, ...(await prove()) }));
    } catch (error) {
      // The ticket has expired: there is nothing to retry here.
      if (ConnectError.from(error).code === Code.FailedPrecondition) onBack(explain(error));
      else setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (code.trim() === "") setProblem("Enter a code.");
    else void complete(async () => ({ code }));
  };
  return (
    <form onSubmit={submit} noValidate>
      {hasPasskey && (
        <>
          <Button
            variant="primary"
            onPress={() => void complete(async () => ({ passkey: await provePasskey(challenge.passkey) }))}
            isPending={busy}
          >
            Use a passkey
          </Button>
          <div className="gate-or">or with a code</div>
        </>
      )}
      <TextField
        label={challenge.totp ? "Code" : "Recovery code"}
        value={code}
        onChange={setCode}
        autoComplete="one-time-code"
        description={hintOf(challenge)}
        autoFocus={!hasPasskey}
      />
      {problem && <Note tone="bad">{problem}</Note>}
      <div className="row">
        <Button variant={hasPasskey ? "secondary" : "primary"} type="submit" isPending={busy}>
          Sign in
        </Button>
        <Button variant="ghost" onPress={() => onBack("")}>
          Back
        </Button>
      </div>
    </form>
  );
}

// hintOf is what the code is of. A user with neither has passkeys, at a
// platform that cannot use them.
function hintOf(challenge: SecondFactorChallenge): string | undefined {
  if (challenge.totp) return "Of your authenticator app, or a recovery code.";
  return challenge.passkey === "" ? "Your passkeys do not work at this address of the platform." : undefined;
}
