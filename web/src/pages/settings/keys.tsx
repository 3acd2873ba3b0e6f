// API keys: your own, and those of all users for admins.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Key } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Checkbox } from "../../ui/field";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Time, useNow } from "../../ui/time";
import { toast } from "../../ui/toast";
import { CreateKeyDialog } from "./key-dialog";
import { keyState, scopeWords } from "./keystate";
import { List } from "./list";
import { OnceDialog } from "./once";
import { everyPage } from "./pages";
import { usersQuery } from "./users-query";

const keysKey = ["keys"];

export function KeysSection() {
  const session = useSession();
  const queries = useQueryClient();
  const [revoked, setRevoked] = useState(false);
  const [everybody, setEverybody] = useState(session.isAdmin);
  const keys = useQuery({
    queryKey: [...keysKey, revoked],
    queryFn: () =>
      everyPage(async (pageToken) => {
        const page = await platform.keys.listKeys({ includeRevoked: revoked, pageSize: 500, pageToken });
        return { items: page.keys, next: page.nextPageToken };
      }),
    // There is no stream of keys; when one was used last is worth seeing.
    refetchInterval: 15_000,
    placeholderData: (before) => before,
  });
  const users = useQuery({ ...usersQuery, enabled: session.isAdmin });
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<{ name: string; secret: string } | null>(null);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const owner = new Map(users.data?.items.map((user) => [user.id, user.email]));
  const columns: Column<Key>[] = [
    {
      id: "name",
      header: "Name",
      width: "minmax(160px, 2fr)",
      cell: (key) => (
        <div className="person">
          <div>{key.name}</div>
          <div className="muted mono">{key.prefix}…</div>
        </div>
      ),
    },
    { id: "scope", header: "May", width: "150px", wideOnly: true, cell: (key) => scopeWords(key.scopes) },
    ...(session.isAdmin
      ? [
          {
            id: "owner",
            header: "Of",
            width: "minmax(120px, 1fr)",
            wideOnly: true,
            cell: (key: Key) => (key.userId === session.userID ? "you" : (owner.get(key.userId) ?? "–")),
          },
        ]
      : []),
    { id: "state", header: "State", width: "110px", cell: (key) => <KeyState of={key} /> },
    { id: "expires", header: "Expires", width: "110px", wideOnly: true, cell: (key) => <Time at={key.expiresAt} /> },
    { id: "used", header: "Last used", width: "120px", wideOnly: true, cell: (key) => <Time at={key.lastUsedAt} /> },
    {
      id: "revoke",
      header: "Actions",
      width: "90px",
      cell: (key) =>
        key.revokedAt ? null : (
          <Button small variant="danger" onPress={() => setRevoking(key)} aria-label={`Revoke ${key.name}`}>
            Revoke
          </Button>
        ),
    },
  ];
  const rows = keys.data?.items.filter((key) => everybody || key.userId === session.userID) ?? [];
  return (
    <div className="stack">
      <p className="sentence muted">
        Programs authenticate with a key: <code>Authorization: Bearer slw_…</code>. A key may never do more than its
        user.
      </p>
      <Panel
        title="API keys"
        flush
        actions={
          <>
            {session.isAdmin && (
              <Checkbox isSelected={everybody} onChange={setEverybody}>
                Of everybody
              </Checkbox>
            )}
            <Checkbox isSelected={revoked} onChange={setRevoked}>
              Show revoked
            </Checkbox>
            <Button variant="primary" small onPress={() => setCreating(true)}>
              Create key
            </Button>
          </>
        }
      >
        {keys.isPending ? (
          <Loading lines={6} />
        ) : keys.isError ? (
          <Failure error={keys.error} retry={() => void keys.refetch()} />
        ) : rows.length === 0 ? (
          <Empty title="No API keys">Create one for a program, or to install a runtime.</Empty>
        ) : (
          <List label="List of API keys" columns={columns} rows={rows} rowKey={(key) => key.id} />
        )}
      </Panel>
      {keys.data?.cut && <Note tone="warn">Not all keys are shown.</Note>}
      {creating && (
        <CreateKeyDialog
          onClose={() => setCreating(false)}
          onMade={(name, secret) => {
            setMade({ name, secret });
            void queries.invalidateQueries({ queryKey: keysKey });
          }}
        />
      )}
      {made && (
        <OnceDialog title={`The key ${made.name}`} what="key" secret={made.secret} onClose={() => setMade(null)}>
          Store it in the secret store of your program.
        </OnceDialog>
      )}
      {revoking && (
        <ConfirmDialog
          title={`Revoke ${revoking.name}`}
          confirmLabel="Revoke the key"
          danger
          isOpen
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await platform.keys.revokeKey({ id: revoking.id });
            await queries.invalidateQueries({ queryKey: keysKey });
            toast(`${revoking.name} is revoked.`);
          }}
        >
          <p>
            Requests with <code>{revoking.prefix}…</code> are rejected within seconds. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function KeyState({ of }: { of: Key }) {
  const state = keyState(
    { revoked: Boolean(of.revokedAt), expiresAt: of.expiresAt ? timestampDate(of.expiresAt) : undefined },
    useNow(),
  );
  return <Status tone={state.tone}>{state.word}</Status>;
}
