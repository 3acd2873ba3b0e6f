// The account, and who you are in it.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { platform } from "../../api/transport";
import { roleChoice } from "../../app/roles";
import { sessionQuery, useSession } from "../../app/session";
import { Button, buttonClass } from "../../ui/button";
import { TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Facts, Failure, Loading, Panel } from "../../ui/page";
import { Time } from "../../ui/time";
import { toast } from "../../ui/toast";
import { FactorsPanel } from "./factors";

const accountKey = ["account"];

export function AccountSection() {
  const session = useSession();
  const account = useQuery({ queryKey: accountKey, queryFn: () => platform.account.getAccount({}) });
  const me = useQuery(sessionQuery);
  const [renaming, setRenaming] = useState(false);
  if (account.isPending) return <Loading lines={8} />;
  if (account.isError) return <Failure error={account.error} retry={() => void account.refetch()} />;
  const found = account.data.account;
  return (
    <div className="stack">
      <Panel
        title="Account"
        actions={
          session.isAdmin && (
            <Button small onPress={() => setRenaming(true)}>
              Rename
            </Button>
          )
        }
      >
        <Facts
          items={[
            ["Name", found?.name],
            ["Id", <code key="id">{found?.id}</code>],
            ["Made", <Time key="made" at={found?.createdAt} />],
            ["Platform", <code key="version">{session.platformVersion}</code>],
          ]}
        />
      </Panel>
      <Panel title="You">
        <div className="stack">
          <Facts
            items={[
              ["Name", session.name],
              ["Email", session.email],
              ["Role", roleChoice(session.role).title],
              ["Last sign-in", <Time key="last" at={me.data?.user?.lastSignInAt} />],
            ]}
          />
          {me.data?.user?.external ? (
            <p className="sentence muted">You sign in through the identity provider. Your password is changed there.</p>
          ) : (
            <>
              <p className="sentence muted">
                A session ends after 12 hours without use, and after 7 days in any case. Changing the password ends your
                sessions in all other browsers and revokes your API keys.
              </p>
              <div>
                <Link className={buttonClass()} to="/change-password">
                  Change the password
                </Link>
              </div>
            </>
          )}
          {!session.isAdmin && (
            <p className="sentence">
              {roleChoice(session.role).description} Runtimes, users and these settings are changed by admins, who can
              change your role too.
            </p>
          )}
        </div>
      </Panel>
      {me.data?.user && !me.data.user.external && <FactorsPanel />}
      {renaming && <RenameDialog name={found?.name ?? ""} onClose={() => setRenaming(false)} />}
    </div>
  );
}

function RenameDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const queries = useQueryClient();
  const [text, setText] = useState(name);
  return (
    <FormDialog
      title="Rename the account"
      submitLabel="Rename"
      onClose={onClose}
      problem={text.trim() === "" ? "Enter a name." : ""}
      onSubmit={async () => {
        await platform.account.updateAccount({ name: text.trim() });
        await queries.invalidateQueries({ queryKey: accountKey });
        await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
        toast("Account renamed.");
      }}
    >
      <TextField label="Name" value={text} onChange={setText} autoFocus />
      <p className="muted">The ID and the host names of tunnels do not change.</p>
    </FormDialog>
  );
}
