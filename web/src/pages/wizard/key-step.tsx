// The API key that the runtime joins with. It is shown once, and kept in no store of
// the browser.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { explain } from "../../api/errors";
import { type CreateKeyResponse, Scope } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { Button } from "../../ui/button";
import { Note } from "../../ui/page";
import { toast } from "../../ui/toast";
import { save } from "../runtimes/logs";
import { keyFile } from "./install-command";

// An installation does not take longer; the runtime has its own credential then.
const lifetime = { seconds: 86_400n };

export function KeyStep({ name }: { name: string }) {
  const [made, setMade] = useState<CreateKeyResponse | null>(null);
  const [shown, setShown] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const make = async () => {
    setBusy(true);
    setFailure("");
    try {
      setMade(await platform.keys.createKey({ name: `runtime ${name}`, scopes: [Scope.RUNTIME_REGISTER], lifetime }));
      setShown(false);
    } catch (error) {
      setFailure(explain(error));
    } finally {
      setBusy(false);
    }
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(made?.secret ?? "");
      toast("Key copied.");
    } catch {
      // Without a secure origin there is no clipboard: it has to be marked by hand.
      setShown(true);
    }
  };
  return (
    <div className="stack">
      <p className="muted">
        This key can only register runtimes. It is valid for a day; after it joins, the runtime has its own credential.
        The commands read the key from the file <code>{keyFile(name)}</code>, so that it is in no shell history. An API
        key of an admin works too.
      </p>
      {made ? (
        <>
          <div className="wizard-secret">
            <code data-testid="secret">{shown ? made.secret : `${made.key?.prefix ?? ""}${"•".repeat(20)}`}</code>
            <Button small onPress={() => setShown(!shown)} aria-label={shown ? "Hide the key" : "Show the key"}>
              {shown ? "Hide" : "Show"}
            </Button>
            <Button small onPress={() => void copy()} aria-label="Copy the key">
              Copy
            </Button>
            <Button small variant="primary" onPress={() => save(keyFile(name), [made.secret], "text/plain")}>
              {`Download ${keyFile(name)}`}
            </Button>
          </div>
          <Note tone="warn">
            It is shown only once.
            {made.key?.expiresAt && ` It is valid until ${timestampDate(made.key.expiresAt).toLocaleString()}.`} Delete
            the file after the installation.
          </Note>
        </>
      ) : (
        <div>
          <Button variant="primary" onPress={() => void make()} isPending={busy}>
            Generate an API key
          </Button>
        </div>
      )}
      {failure && <Note tone="bad">{failure}</Note>}
    </div>
  );
}
