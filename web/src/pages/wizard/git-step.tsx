// The Git provider and the shared repository, entered once for the account.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { explain } from "../../api/errors";
import { platform } from "../../api/transport";
import { Button } from "../../ui/button";
import { Select, TextField } from "../../ui/field";
import { Failure, Loading, Note } from "../../ui/page";
import { providerName, providers } from "../settings/providers";
import { type Draft, inferProvider, repositoryProblem } from "./draft";

export interface GitStepProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

/** useGitSettings is the Git provider of the account. */
export function useGitSettings() {
  return useQuery({ queryKey: ["git-settings"], queryFn: () => platform.git.getGitSettings({}) });
}

export function GitStep({ draft, change }: GitStepProps) {
  const settings = useGitSettings();
  // The form stays after it was saved: without it the steps below would jump up,
  // at a moment that the user cannot foresee.
  const [used, setUsed] = useState(false);
  if (settings.isPending) return <Loading lines={3} />;
  if (settings.isError) return <Failure error={settings.error} retry={() => void settings.refetch()} />;
  const found = settings.data.settings;
  const saved = found?.provider && (
    <p>
      All runtimes of the account share <code>{found.sharedRepository}</code> at {providerName(found.provider)}.{" "}
      <Link to="/settings" search={{ section: "git" }}>
        Open the settings.
      </Link>
    </p>
  );
  if (saved && !used) return saved;
  return <GitForm draft={draft} change={change} saved={saved} onUsed={() => setUsed(true)} />;
}

interface GitFormProps extends GitStepProps {
  /** What is shown instead of the button once the settings are saved. */
  saved: ReactNode;
  onUsed: () => void;
}

function GitForm({ draft, change, saved, onUsed }: GitFormProps) {
  const queries = useQueryClient();
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const repository = draft.sharedRepository.trim();
  const problem = repositoryProblem(repository);
  const guess = inferProvider(repository);
  const provider = draft.provider || guess.provider;
  const save = async () => {
    setTried(true);
    if (problem || busy || saved) return;
    onUsed();
    setBusy(true);
    setFailure("");
    try {
      await platform.git.setGitSettings({
        settings: { sharedRepository: repository, provider: draft.provider, apiUrl: draft.apiURL.trim() },
      });
      await queries.invalidateQueries({ queryKey: ["git-settings"] });
    } catch (error) {
      setFailure(explain(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <p className="muted">
        The shared repository holds the configuration of all runtimes. It may be empty; the runtime creates it if its
        token may.
      </p>
      <TextField
        label="Shared repository"
        value={draft.sharedRepository}
        onChange={(sharedRepository) => change({ sharedRepository })}
        autoComplete="off"
        placeholder="https://github.com/acme/slipway-config.git"
        description={
          <>
            <code>{"<repository>.git[/<path>][?ref=<branch>]"}</code>, such as
            https://github.com/acme/config.git/teams/blue?ref=main
          </>
        }
        error={(tried || repository !== "") && problem !== "" ? problem : undefined}
        isDisabled={Boolean(saved)}
      />
      <div className="fields-2">
        <Select
          label="Git provider"
          value={draft.provider || "auto"}
          onChange={(value) => change({ provider: value === "auto" ? "" : value })}
          isDisabled={Boolean(saved)}
          options={[
            {
              value: "auto",
              label: guess.provider ? `${providerName(guess.provider)}, detected from the URL` : "Detect from the URL",
            },
            ...providers,
          ]}
        />
        <TextField
          label="API URL"
          type="url"
          value={draft.apiURL}
          onChange={(apiURL) => change({ apiURL })}
          isDisabled={Boolean(saved)}
          autoComplete="off"
          placeholder={provider === guess.provider ? guess.apiURL : ""}
          description="Leave empty unless the API of your Git server has another URL."
        />
      </div>
      {repository !== "" && problem === "" && provider === "" && (
        <Note>
          The name of the server does not show the provider. The platform finds it out from the server when you save,
          unless you choose it.
        </Note>
      )}
      {failure && <Note tone="bad">{failure}</Note>}
      {saved || (
        <div>
          <Button type="submit" variant="primary" isPending={busy}>
            Save the Git settings
          </Button>
        </div>
      )}
    </form>
  );
}
