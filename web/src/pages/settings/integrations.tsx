// The Git integrations of one runtime, and your token for each.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Integration, TokenStatus } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime } from "../../api/runtime";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Empty, Failure, Loading } from "../../ui/page";
import { Table } from "../../ui/table";
import { toast, toastError } from "../../ui/toast";
import { IntegrationDialog } from "./integration-dialog";
import { integrationsKey } from "./integrations-key";
import { beginOAuth } from "./oauth-flow";
import { providerName } from "./providers";
import { RegisterDialog } from "./register-dialog";
import { TokenFacts, TokenState } from "./token";

interface Props {
  name: string;
  /** Other runtimes that can be reached now. */
  others: string[];
}

export function Integrations({ name, others }: Props) {
  const { isAdmin } = useSession();
  const [adding, setAdding] = useState(false);
  const list = useQuery({
    queryKey: integrationsKey(name),
    queryFn: () => runtime(name).integrations.listIntegrations({}),
    // There is no stream for it, and tokens expire by themselves.
    refetchInterval: 30_000,
  });
  if (list.isPending) return <Loading lines={5} />;
  if (list.isError) return <Failure error={list.error} retry={() => void list.refetch()} />;
  return (
    <div>
      {list.data.integrations.length === 0 ? (
        <Empty title="No Git integration">
          {isAdmin
            ? "Set up Git for the account, or add an integration for another provider."
            : "An admin sets up Git for the account; then you register your token here."}
        </Empty>
      ) : (
        list.data.integrations.map((one) => <OneIntegration key={one.name} name={name} of={one} others={others} />)
      )}
      {isAdmin && (
        <div className="integration-add">
          <Button small onPress={() => setAdding(true)}>
            Add integration
          </Button>
        </div>
      )}
      {adding && <IntegrationDialog runtimeName={name} onClose={() => setAdding(false)} />}
    </div>
  );
}

type Doing = "" | "register" | "deregister" | "edit" | "remove";

function OneIntegration({ name, of, others }: { name: string; of: Integration; others: string[] }) {
  const session = useSession();
  const queries = useQueryClient();
  const [doing, setDoing] = useState<Doing>("");
  const [leaving, setLeaving] = useState(false);
  const own = of.users.find((one) => one.user === session.email || one.user === session.userID);
  const rest = of.users.filter((one) => one !== own);
  const closed = of.sharing === "admins" && !session.isAdmin;
  const again = () => queries.invalidateQueries({ queryKey: integrationsKey(name) });
  const oauth = async () => {
    setLeaving(true);
    try {
      await beginOAuth({ runtime: name, integration: of.name, back: "/settings?section=git" });
    } catch (error) {
      toastError(error);
      setLeaving(false);
    }
  };
  return (
    <section className="integration" aria-label={`Integration ${of.name}`}>
      <header>
        <h3>{of.name}</h3>
        <span className="muted">
          {providerName(of.provider)} at <code>{of.apiUrl}</code>
          {of.sharing === "admins" && ", for admins"}
        </span>
        <span className="spread" />
        {session.isAdmin && (
          <Menu
            label={`Actions for the integration ${of.name}`}
            entries={[
              { id: "edit", label: "Change", onAction: () => setDoing("edit") },
              { id: "remove", label: "Remove", danger: true, onAction: () => setDoing("remove") },
            ]}
          />
        )}
      </header>
      {closed ? (
        <p className="muted">This integration is for admins of the account.</p>
      ) : own ? (
        <TokenFacts of={own} />
      ) : (
        <p>
          You have no token here. Your changes in Git name you as their author, and the runtime commits and pushes them
          with its own token.
        </p>
      )}
      {!closed && (
        <div className="row">
          <Button variant={own ? "secondary" : "primary"} onPress={() => setDoing("register")}>
            {own ? "Replace the token" : "Register a token"}
          </Button>
          {of.oauth && (
            <Button onPress={() => void oauth()} isPending={leaving}>
              {`Sign in with ${providerName(of.provider)}`}
            </Button>
          )}
          {own && (
            <Button variant="danger" onPress={() => setDoing("deregister")}>
              Deregister
            </Button>
          )}
        </div>
      )}
      {rest.length > 0 && <OtherTokens of={of.name} rows={rest} />}
      {doing === "register" && (
        <RegisterDialog runtimeName={name} others={others} of={of} onClose={() => setDoing("")} />
      )}
      {doing === "edit" && <IntegrationDialog runtimeName={name} before={of} onClose={() => setDoing("")} />}
      <ConfirmDialog
        title="Deregister your token"
        confirmLabel="Deregister"
        danger
        isOpen={doing === "deregister"}
        onClose={() => setDoing("")}
        onConfirm={async () => {
          await runtime(name).integrations.deregister({ integration: of.name });
          await again();
          toast(`${name} deleted your token.`);
        }}
      >
        <p>The runtime deletes it. At {providerName(of.provider)} it stays valid until you revoke it there.</p>
      </ConfirmDialog>
      <ConfirmDialog
        title={`Remove the integration ${of.name}`}
        confirmLabel="Remove"
        danger
        typed={of.name}
        isOpen={doing === "remove"}
        onClose={() => setDoing("")}
        onConfirm={async () => {
          await runtime(name).integrations.removeIntegration({ name: of.name });
          await again();
          toast(`The integration ${of.name} is removed.`);
        }}
      >
        <p>The tokens of {of.users.length === 1 ? "one user" : `${of.users.length} users`} go with it.</p>
      </ConfirmDialog>
    </section>
  );
}

// OtherTokens is what admins see of the tokens of others: never the tokens.
function OtherTokens({ of, rows }: { of: string; rows: TokenStatus[] }) {
  return (
    <Table
      label={`Tokens of others for ${of}`}
      rows={rows}
      rowKey={(row) => row.user}
      columns={[
        { id: "user", header: "User", cell: (row) => row.user },
        { id: "login", header: "Provider login", wideOnly: true, cell: (row) => row.login },
        { id: "state", header: "State", cell: (row) => <TokenState of={row} /> },
        { id: "message", header: "Remark", wideOnly: true, cell: (row) => row.message },
      ]}
    />
  );
}
