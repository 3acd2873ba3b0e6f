// Adding a second factor. It is a page of its own and not a dialog: the first
// factor replaces the session, and with it all streams of the other pages end.

import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { explain } from "../../api/errors";
import type { BeginPasskeyResponse, BeginTOTPResponse } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { queries } from "../../app/queries";
import { sessionQuery } from "../../app/session";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { TextField } from "../../ui/field";
import { Failure, Loading, Note } from "../../ui/page";
import { toast } from "../../ui/toast";
import { factorsQuery } from "../settings/factors-query";
import { Gate } from "./gate";
import { createPasskey } from "./passkey";

const title = "Add a second factor";

export function SecondFactorPage() {
  const session = useQuery(sessionQuery);
  if (session.isPending) {
    return (
      <Gate title={title}>
        <Loading lines={8} />
      </Gate>
    );
  }
  if (session.isError) {
    return (
      <Gate title={title}>
        <Failure error={session.error} retry={() => void session.refetch()} />
      </Gate>
    );
  }
  const user = session.data?.user;
  if (!user) return <Navigate to="/sign-in" search={{ next: undefined }} />;
  if (user.external) {
    return (
      <Gate title={title} foot={<Link to="/runtimes">Back to the console</Link>}>
        <p>{user.email} signs in through the identity provider, which has second factors of its own.</p>
      </Gate>
    );
  }
  return <AddFactor email={user.email} required={session.data?.mustAddSecondFactor ?? false} />;
}

type Step =
  | { at: "password" }
  | { at: "scan"; begun: BeginTOTPResponse }
  | { at: "passkey"; begun: BeginPasskeyResponse }
  | { at: "codes"; codes: string[] };

function AddFactor({ email, required }: { email: string; required: boolean }) {
  const navigate = useNavigate();
  const [step, setStep] = useState<Step>({ at: "password" });
  const done = async (codes: string[]) => {
    // With the first factor the session is a new one, and so is its token.
    await queries.fetchQuery({ ...sessionQuery, staleTime: 0 });
    queries.removeQueries({ queryKey: factorsQuery.queryKey });
    if (codes.length > 0) setStep({ at: "codes", codes });
    else {
      toast("The second factor is added.");
      await navigate({ to: "/settings" });
    }
  };
  switch (step.at) {
    case "password":
      return <Confirm email={email} required={required} onBegun={setStep} />;
    case "scan":
      return <Scan begun={step.begun} onDone={done} onBack={() => setStep({ at: "password" })} />;
    case "passkey":
      return <Passkey begun={step.begun} onDone={done} onBack={() => setStep({ at: "password" })} />;
    case "codes":
      return (
        <Gate title="Recovery codes">
          <p>
            Keep these codes where you do not keep your device. Each signs you in once when the second factor is lost.
            They are not shown again.
          </p>
          <CopyBlock label="Recovery codes" text={step.codes.join("\n")} />
          <Button variant="primary" onPress={() => void navigate({ to: "/settings" })}>
            I have them
          </Button>
        </Gate>
      );
  }
}

interface ConfirmProps {
  email: string;
  required: boolean;
  onBegun: (next: Step) => void;
}

// Confirm requests the password: an open session is not enough to add a factor.
function Confirm({ email, required, onBegun }: ConfirmProps) {
  const [password, setPassword] = useState("");
  const { problem, busy, run } = useAttempt();
  const factors = useQuery(factorsQuery);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void run(async () => onBegun({ at: "scan", begun: await platform.factors.beginTOTP({ password }) }));
  };
  const addPasskey = () =>
    void run(async () => onBegun({ at: "passkey", begun: await platform.factors.beginPasskey({ password }) }));
  if (factors.isPending) {
    return (
      <Gate title={title}>
        <Loading lines={8} />
      </Gate>
    );
  }
  const noPasskeys = factors.data?.noPasskeys ?? "";
  return (
    <Gate title={title} foot={required ? undefined : <Link to="/settings">Back to the settings</Link>}>
      <p>
        {required
          ? "This platform requires a second factor besides the password. Add one to go on."
          : "You sign in with it besides the password. The first one ends your sessions in other browsers."}
      </p>
      <form onSubmit={submit} noValidate>
        <input type="email" value={email} readOnly hidden autoComplete="username" />
        <TextField
          label="Password"
          type="password"
          value={password}
          onChange={setPassword}
          autoComplete="current-password"
          autoFocus
        />
        {problem && <Note tone="bad">{problem}</Note>}
        <Button variant="primary" type="submit" isPending={busy}>
          Set up an authenticator app
        </Button>
        {noPasskeys ? (
          <p className="muted">No passkeys: {noPasskeys}.</p>
        ) : (
          <Button onPress={addPasskey} isPending={busy}>
            Set up a passkey
          </Button>
        )}
      </form>
    </Gate>
  );
}

interface SetUpProps<Begun> {
  begun: Begun;
  onDone: (codes: string[]) => Promise<void>;
  onBack: () => void;
}

// Scan shows the secret, and checks that the app has it.
function Scan({ begun, onDone, onBack }: SetUpProps<BeginTOTPResponse>) {
  const [code, setCode] = useState("");
  const { problem, busy, run } = useAttempt();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void run(async () => onDone((await platform.factors.finishTOTP({ ticket: begun.ticket, code })).recoveryCodes));
  };
  return (
    <Gate title="Set up an authenticator app">
      <p>Scan the code with the app, or type the key into it. Then enter the six digits that it shows.</p>
      <svg className="qr" viewBox={`0 0 ${begun.qrSize} ${begun.qrSize}`} role="img" aria-label="QR code for the app">
        <path d={begun.qrPath} />
      </svg>
      <CopyBlock label="Key" text={begun.secret} />
      <form onSubmit={submit} noValidate>
        <TextField label="Code" value={code} onChange={setCode} autoComplete="one-time-code" autoFocus />
        {problem && <Note tone="bad">{problem}</Note>}
        <div className="row">
          <Button variant="primary" type="submit" isPending={busy}>
            Add it
          </Button>
          <Button variant="ghost" onPress={onBack}>
            Back
          </Button>
        </div>
      </form>
    </Gate>
  );
}

// Passkey has the browser create a passkey, with a name for the list.
function Passkey({ begun, onDone, onBack }: SetUpProps<BeginPasskeyResponse>) {
  const [name, setName] = useState("Passkey");
  const { problem, busy, run } = useAttempt();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void run(async () => {
      const response = await createPasskey(begun.options);
      const { recoveryCodes } = await platform.factors.finishPasskey({ ticket: begun.ticket, name, response });
      await onDone(recoveryCodes);
    });
  };
  return (
    <Gate title="Set up a passkey">
      <p>It is kept by this device, by your password manager or on a security key. The browser asks which.</p>
      <form onSubmit={submit} noValidate>
        <TextField
          label="Name"
          value={name}
          onChange={setName}
          description="How you recognise it in the list, such as the name of the device."
          autoFocus
        />
        {problem && <Note tone="bad">{problem}</Note>}
        <div className="row">
          <Button variant="primary" type="submit" isPending={busy}>
            Create the passkey
          </Button>
          <Button variant="ghost" onPress={onBack}>
            Back
          </Button>
        </div>
      </form>
    </Gate>
  );
}

// useAttempt runs a request of a form, and keeps its error.
function useAttempt() {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const run = async (request: () => Promise<unknown>) => {
    setBusy(true);
    setProblem("");
    try {
      await request();
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };
  return { problem, busy, run };
}
