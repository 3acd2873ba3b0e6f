// Choosing a password: the first one, and another one later.

import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { explain } from "../../api/errors";
import { platform } from "../../api/transport";
import { queries } from "../../app/queries";
import { forgetSession, sessionQuery } from "../../app/session";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { Failure, Loading, Note } from "../../ui/page";
import { toast, toastError } from "../../ui/toast";
import { passwordProblem } from "./choice";
import { Gate } from "./gate";

export function ChangePasswordPage() {
  const session = useQuery(sessionQuery);
  if (session.isPending) {
    return (
      <Gate title="Change the password">
        <Loading lines={8} />
      </Gate>
    );
  }
  if (session.isError) {
    return (
      <Gate title="Change the password">
        <Failure error={session.error} retry={() => void session.refetch()} />
      </Gate>
    );
  }
  const user = session.data?.user;
  if (!user) return <Navigate to="/sign-in" search={{ next: undefined }} />;
  if (user.external) {
    return (
      <Gate title="Change the password" foot={<Link to="/runtimes">Back to the console</Link>}>
        <p>
          {user.email} signs in through the identity provider and has no password here. Change it with the provider.
        </p>
      </Gate>
    );
  }
  return <ChooseForm email={user.email} first={user.mustChangePassword} />;
}

function ChooseForm({ email, first }: { email: string; first: boolean }) {
  const navigate = useNavigate();
  const [old, setOld] = useState("");
  const [chosen, setChosen] = useState("");
  const [again, setAgain] = useState("");
  const [tried, setTried] = useState(false);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const weak =
    passwordProblem(chosen, email) || (chosen === old ? "Choose a password that differs from the current one." : "");
  const different = chosen === again ? "" : "The passwords do not match.";
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    setProblem("");
    if (old === "" || weak || different) return;
    setBusy(true);
    try {
      await platform.auth.changePassword({ oldPassword: old, newPassword: chosen });
      // The session is a new one, and so is its token.
      await queries.fetchQuery({ ...sessionQuery, staleTime: 0 });
      toast("The password is changed. Your other sessions and your API keys have ended.");
      await navigate({ to: "/runtimes" });
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };
  const signOut = async () => {
    try {
      await platform.auth.signOut({});
      forgetSession();
      await navigate({ to: "/sign-in", search: { next: undefined } });
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <Gate
      title={first ? "Choose a password" : "Change the password"}
      foot={first ? undefined : <Link to="/runtimes">Back to the console</Link>}
    >
      {first ? (
        <p>
          You signed in as {email} with a one-time password. Choose your own. Other users cannot see it, admins
          included.
        </p>
      ) : (
        <p className="muted">This ends your sessions in other browsers and revokes your API keys.</p>
      )}
      <form onSubmit={(event) => void submit(event)} noValidate>
        {/* Password managers find the user by this. */}
        <input type="email" value={email} readOnly hidden autoComplete="username" />
        <TextField
          label={first ? "The one-time password again" : "Old password"}
          type="password"
          value={old}
          onChange={setOld}
          autoComplete="current-password"
          error={tried && old === "" ? "Type it, please." : undefined}
          autoFocus
        />
        <TextField
          label="New password"
          type="password"
          value={chosen}
          onChange={setChosen}
          autoComplete="new-password"
          description="12 characters or more. A few words are easy to remember."
          error={(tried && weak) || undefined}
        />
        <TextField
          label="Repeat new password"
          type="password"
          value={again}
          onChange={setAgain}
          autoComplete="new-password"
          error={(tried && different) || undefined}
        />
        {problem && <Note tone="bad">{problem}</Note>}
        <div className="row">
          <Button variant="primary" type="submit" isPending={busy}>
            {first ? "Set password" : "Change it"}
          </Button>
          {first && (
            <Button variant="ghost" onPress={() => void signOut()}>
              Sign out
            </Button>
          )}
        </div>
      </form>
    </Gate>
  );
}
