// The users of the account and their roles. For admins.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { User } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { roleChoice } from "../../app/roles";
import { methodsQuery, useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Menu, type MenuEntry } from "../../ui/menu";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Time } from "../../ui/time";
import { toast } from "../../ui/toast";
import { List } from "./list";
import { OnceDialog } from "./once";
import { CreateUserDialog, EditUserDialog } from "./user-dialogs";
import { usersQuery } from "./users-query";

type Doing = { what: "edit" | "disable" | "enable" | "reset" | "reset-factor" | "delete"; user: User };
interface Handed {
  email: string;
  password: string;
}

export function UsersSection() {
  const { isAdmin } = useSession();
  if (!isAdmin) {
    return (
      <Empty title="Only admins manage users">
        You see your own user under Account. An admin of the account can add users and change roles.
      </Empty>
    );
  }
  return <Users />;
}

function Users() {
  const session = useSession();
  const users = useQuery(usersQuery);
  const passwords = useQuery(methodsQuery).data?.password ?? true;
  const [creating, setCreating] = useState(false);
  const [doing, setDoing] = useState<Doing | null>(null);
  const [handed, setHanded] = useState<Handed | null>(null);
  const columns: Column<User>[] = [
    {
      id: "user",
      header: "User",
      width: "minmax(180px, 2fr)",
      cell: (user) => (
        <div className="person">
          <div>
            {user.name || user.email}
            {user.id === session.userID && <span className="muted"> (you)</span>}
          </div>
          {user.name !== user.email && <div className="muted">{user.email}</div>}
        </div>
      ),
    },
    { id: "role", header: "Role", width: "90px", cell: (user) => roleChoice(user.role).title },
    { id: "state", header: "State", width: "190px", cell: (user) => <UserState user={user} /> },
    {
      id: "last",
      header: "Last sign-in",
      width: "140px",
      wideOnly: true,
      cell: (user) => <Time at={user.lastSignInAt} />,
    },
    { id: "made", header: "Made", width: "140px", wideOnly: true, cell: (user) => <Time at={user.createdAt} /> },
    {
      id: "menu",
      header: "Actions",
      width: "70px",
      cell: (user) => (
        <Menu
          label={`Actions for ${user.email}`}
          entries={entries(user, user.id === session.userID, passwords, (what) => setDoing({ what, user }))}
        />
      ),
    },
  ];
  return (
    <div className="stack">
      <Panel
        title="Users"
        flush
        actions={
          <Button variant="primary" small onPress={() => setCreating(true)}>
            Add user
          </Button>
        }
      >
        {users.isPending ? (
          <Loading lines={6} />
        ) : users.isError ? (
          <Failure error={users.error} retry={() => void users.refetch()} />
        ) : (
          <List label="Users" columns={columns} rows={users.data.items} rowKey={(user) => user.id} />
        )}
      </Panel>
      {users.data?.cut && <Note tone="warn">Not all users are shown.</Note>}
      <p className="sentence muted">
        Viewers see everything but logs. Operators also sync and roll back applications. Admins also delete them, change
        runtimes, users, keys and settings, and read the audit log. An account always has an admin.
      </p>
      {creating && <CreateUserDialog onClose={() => setCreating(false)} onMade={setHanded} />}
      {doing && <UserAction doing={doing} onClose={() => setDoing(null)} onHanded={setHanded} />}
      {handed && (
        <OnceDialog title="One-time password" what="password" secret={handed.password} onClose={() => setHanded(null)}>
          {`Give it to ${handed.email}, in a safe way. It is valid for one sign-in; then they choose their own.`}
        </OnceDialog>
      )}
    </div>
  );
}

function entries(user: User, own: boolean, passwords: boolean, act: (what: Doing["what"]) => void): MenuEntry[] {
  const all: MenuEntry[] = [{ id: "edit", label: own ? "Change the name" : "Change", onAction: () => act("edit") }];
  // Nobody can take their own rights away: the platform refuses it too.
  if (own) return all;
  if (passwords && !user.external) all.push({ id: "reset", label: "Reset the password", onAction: () => act("reset") });
  if (user.secondFactor) {
    all.push({ id: "reset-factor", label: "Reset the second factor", onAction: () => act("reset-factor") });
  }
  all.push(
    user.disabled
      ? { id: "enable", label: "Enable", onAction: () => act("enable") }
      : { id: "disable", label: "Disable", onAction: () => act("disable") },
    { id: "delete", label: "Delete", danger: true, onAction: () => act("delete") },
  );
  return all;
}

function UserState({ user }: { user: User }) {
  if (user.disabled) return <Status tone="off">Disabled</Status>;
  if (user.mustChangePassword) return <Status tone="warn">Must change password</Status>;
  if (user.external) return <Status tone="good">Identity provider</Status>;
  return <Status tone="good">{user.secondFactor ? "Active, second factor" : "Active"}</Status>;
}

interface ActionProps {
  doing: Doing;
  onClose: () => void;
  onHanded: (handed: Handed) => void;
}

// UserAction confirms an action on a user.
function UserAction({ doing: { what, user }, onClose, onHanded }: ActionProps) {
  const queries = useQueryClient();
  const again = () => queries.invalidateQueries({ queryKey: usersQuery.queryKey });
  switch (what) {
    case "edit":
      return <EditUserDialog user={user} onClose={onClose} />;
    case "reset":
      return (
        <ConfirmDialog
          title={`Reset the password of ${user.email}`}
          confirmLabel="Reset the password"
          isOpen
          onClose={onClose}
          onConfirm={async () => {
            const answer = await platform.account.resetPassword({ id: user.id });
            await again();
            onHanded({ email: user.email, password: answer.oneTimePassword });
          }}
        >
          <p>Their sessions and API keys end. You get a one-time password to hand over.</p>
        </ConfirmDialog>
      );
    case "reset-factor":
      return (
        <ConfirmDialog
          title={`Reset the second factor of ${user.email}`}
          confirmLabel="Reset the second factor"
          danger
          isOpen
          onClose={onClose}
          onConfirm={async () => {
            await platform.account.resetSecondFactor({ id: user.id });
            await again();
            toast(`${user.email} has no second factor any more.`);
          }}
        >
          <p>Make sure that it is them who ask. Their sessions end, and the next sign-in needs the password only.</p>
        </ConfirmDialog>
      );
    case "delete":
      return (
        <ConfirmDialog
          title={`Delete ${user.email}`}
          confirmLabel="Delete the user"
          danger
          typed={user.email}
          isOpen
          onClose={onClose}
          onConfirm={async () => {
            await platform.account.deleteUser({ id: user.id });
            await again();
            toast(`${user.email} is deleted.`);
          }}
        >
          <p>Their sessions and API keys are revoked. Their actions stay in the audit log.</p>
        </ConfirmDialog>
      );
    default:
      return (
        <ConfirmDialog
          title={what === "disable" ? `Disable ${user.email}` : `Enable ${user.email}`}
          confirmLabel={what === "disable" ? "Disable" : "Enable"}
          danger={what === "disable"}
          isOpen
          onClose={onClose}
          onConfirm={async () => {
            await platform.account.updateUser({ id: user.id, disabled: what === "disable" });
            await again();
            toast(what === "disable" ? `${user.email} is disabled.` : `${user.email} is enabled.`);
          }}
        >
          <p>
            {what === "disable"
              ? "Their sessions end, and their API keys are revoked."
              : "They can sign in again. Their API keys stay revoked."}
          </p>
        </ConfirmDialog>
      );
  }
}
