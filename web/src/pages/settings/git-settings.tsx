// The Git provider and the shared configuration repository of the account.

import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { GitSettings } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { platform } from "../../api/transport";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Select, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Empty, Facts, Failure, Loading, Panel } from "../../ui/page";
import { Status } from "../../ui/status";
import { toast } from "../../ui/toast";
import { providerName, providers } from "./providers";

const settingsQuery = queryOptions({
  queryKey: ["git-settings"],
  queryFn: () => platform.git.getGitSettings({}),
  // There is no stream for it, and a runtime may validate it while the page is open.
  refetchInterval: 10_000,
});

export function GitSettingsPanel() {
  const { isAdmin } = useSession();
  const queries = useQueryClient();
  const settings = useQuery(settingsQuery);
  const [editing, setEditing] = useState(false);
  const [resetting, setResetting] = useState(false);
  const found = settings.data?.settings;
  const set = Boolean(found?.provider);
  return (
    <Panel
      title="Account Git settings"
      actions={
        isAdmin &&
        set && (
          <>
            {!found?.validated && (
              <Button small onPress={() => setEditing(true)}>
                Change
              </Button>
            )}
            <Button small variant="danger" onPress={() => setResetting(true)}>
              Reset
            </Button>
          </>
        )
      }
    >
      {settings.isPending ? (
        <Loading lines={4} />
      ) : settings.isError ? (
        <Failure error={settings.error} retry={() => void settings.refetch()} />
      ) : !set ? (
        <Empty
          title="Git is not set up"
          action={
            isAdmin && (
              <Button variant="primary" onPress={() => setEditing(true)}>
                Set up Git
              </Button>
            )
          }
        >
          {isAdmin
            ? "All runtimes share one repository for their configuration. The installation of the first one requests it too."
            : "An admin sets up the repository that all runtimes share."}
        </Empty>
      ) : (
        <div className="stack">
          <Facts
            items={[
              ["Provider", providerName(found?.provider ?? "")],
              ["API", <code key="api">{found?.apiUrl}</code>],
              ["Shared repository", <code key="repository">{found?.sharedRepository}</code>],
              [
                "State",
                found?.validated ? (
                  <Status key="state" tone="good">
                    In use
                  </Status>
                ) : (
                  <Status key="state" tone="progress">
                    Not validated yet
                  </Status>
                ),
              ],
            ]}
          />
          <p className="sentence muted">
            {found?.validated
              ? "Runtimes use it, so it cannot be changed. It can be reset when no runtime is online."
              : "It can be changed until a runtime has validated it."}
          </p>
        </div>
      )}
      {editing && <GitSettingsDialog before={found} onClose={() => setEditing(false)} />}
      <ConfirmDialog
        title="Reset the Git settings"
        confirmLabel="Reset"
        danger
        isOpen={resetting}
        onClose={() => setResetting(false)}
        onConfirm={async () => {
          await platform.git.resetGitSettings({});
          await queries.invalidateQueries({ queryKey: settingsQuery.queryKey });
          toast("Git settings reset.");
        }}
      >
        <p>The account's provider and repository settings are deleted. The repository itself is not changed.</p>
        {found?.validated && <p>This is not possible while a runtime is online.</p>}
      </ConfirmDialog>
    </Panel>
  );
}

function GitSettingsDialog({ before, onClose }: { before: GitSettings | undefined; onClose: () => void }) {
  const queries = useQueryClient();
  const [repository, setRepository] = useState(before?.sharedRepository ?? "");
  const [provider, setProvider] = useState(before?.provider || "auto");
  const [api, setAPI] = useState(before?.apiUrl ?? "");
  return (
    <FormDialog
      title="Account Git settings"
      submitLabel="Save"
      onClose={onClose}
      problem={repository.trim() === "" ? "Enter the URL of the shared repository." : ""}
      onSubmit={async () => {
        await platform.git.setGitSettings({
          settings: {
            provider: provider === "auto" ? "" : provider,
            apiUrl: api.trim(),
            sharedRepository: repository.trim(),
          },
        });
        await queries.invalidateQueries({ queryKey: settingsQuery.queryKey });
        toast("Git settings saved.");
      }}
    >
      <TextField
        label="Shared repository"
        value={repository}
        onChange={setRepository}
        autoComplete="off"
        placeholder="https://github.com/acme/slipway-config.git?ref=main"
        description="<repository>.git, then a path and ?ref=<branch> if you like."
        autoFocus
      />
      <Select
        label="Provider"
        value={provider}
        onChange={setProvider}
        options={[{ value: "auto", label: "Detect from the URL" }, ...providers]}
      />
      <TextField
        label="API URL"
        type="url"
        value={api}
        onChange={setAPI}
        autoComplete="off"
        description="Leave empty unless the API of your Git server has another URL."
      />
    </FormDialog>
  );
}
