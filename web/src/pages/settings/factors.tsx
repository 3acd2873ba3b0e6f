// The second factors of the user, and the recovery codes.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Factor, FactorKind } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { Button, buttonClass } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Failure, Loading, Note, Panel } from "../../ui/page";
import type { Column } from "../../ui/table";
import { Time } from "../../ui/time";
import { toast } from "../../ui/toast";
import { factorsQuery } from "./factors-query";
import { List } from "./list";

/** fewCodes is when the panel shows that recovery codes run out. */
const fewCodes = 3;

export function FactorsPanel() {
  const queries = useQueryClient();
  const factors = useQuery(factorsQuery);
  const [removing, setRemoving] = useState<Factor | null>(null);
  const [renewing, setRenewing] = useState(false);
  const [codes, setCodes] = useState<string[]>([]);
  const again = () => queries.invalidateQueries({ queryKey: factorsQuery.queryKey });
  const columns: Column<Factor>[] = [
    { id: "name", header: "Second factor", width: "minmax(160px, 2fr)", cell: (factor) => factor.name },
    {
      id: "kind",
      header: "Kind",
      width: "100px",
      wideOnly: true,
      cell: (factor) => (factor.kind === FactorKind.PASSKEY ? "Passkey" : "App"),
    },
    { id: "made", header: "Added", width: "140px", wideOnly: true, cell: (factor) => <Time at={factor.createdAt} /> },
    { id: "used", header: "Last used", width: "140px", cell: (factor) => <Time at={factor.lastUsedAt} /> },
    {
      id: "remove",
      header: "Actions",
      width: "110px",
      cell: (factor) => (
        <Button small onPress={() => setRemoving(factor)} aria-label={`Remove ${factor.name}`}>
          Remove
        </Button>
      ),
    },
  ];
  if (factors.isPending) return <Loading lines={4} />;
  if (factors.isError) return <Failure error={factors.error} retry={() => void factors.refetch()} />;
  const some = factors.data.factors.length > 0;
  return (
    <Panel
      title="Second factor"
      flush={some}
      actions={
        <>
          {some && (
            <Button small onPress={() => setRenewing(true)}>
              New recovery codes
            </Button>
          )}
          <Link className={buttonClass("primary", true)} to="/second-factor">
            Add a second factor
          </Link>
        </>
      }
    >
      {some ? (
        <>
          <List label="Second factors" columns={columns} rows={factors.data.factors} rowKey={(factor) => factor.id} />
          {factors.data.recoveryCodes < fewCodes && (
            <Note tone="warn">{`You have ${factors.data.recoveryCodes} recovery codes left.`}</Note>
          )}
        </>
      ) : (
        <p className="sentence muted">
          You sign in with the password only. With a second factor, your password alone is of no use to others.
        </p>
      )}
      {removing && (
        <PasswordDialog
          title={`Remove ${removing.name}`}
          submitLabel="Remove it"
          onClose={() => setRemoving(null)}
          onSubmit={async (password) => {
            await platform.factors.removeFactor({ id: removing.id, password });
            await again();
            toast(`${removing.name} is removed.`);
          }}
        />
      )}
      {renewing && (
        <PasswordDialog
          title="New recovery codes"
          submitLabel="Create codes"
          onClose={() => setRenewing(false)}
          onSubmit={async (password) => {
            setCodes((await platform.factors.createRecoveryCodes({ password })).recoveryCodes);
            await again();
          }}
        >
          <p>The codes that you have become invalid.</p>
        </PasswordDialog>
      )}
      {codes.length > 0 && (
        <Dialog
          title="Recovery codes"
          isOpen
          onClose={() => {}}
          footer={
            <Button variant="primary" onPress={() => setCodes([])}>
              I have them
            </Button>
          }
        >
          <div className="stack">
            <p>Each signs you in once when the second factor is lost. They are not shown again.</p>
            <CopyBlock label="Recovery codes" text={codes.join("\n")} />
          </div>
        </Dialog>
      )}
    </Panel>
  );
}

interface PasswordDialogProps {
  title: string;
  submitLabel: string;
  onClose: () => void;
  onSubmit: (password: string) => Promise<unknown>;
  children?: React.ReactNode;
}

// PasswordDialog confirms a change with the password.
function PasswordDialog({ onSubmit, children, ...rest }: PasswordDialogProps) {
  const [password, setPassword] = useState("");
  return (
    <FormDialog {...rest} problem={password === "" ? "Enter your password." : ""} onSubmit={() => onSubmit(password)}>
      {children}
      <TextField
        label="Password"
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="current-password"
        autoFocus
      />
    </FormDialog>
  );
}
