// The Git credentials that the runtime itself uses. They go through the platform to
// the cluster and stay there.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { runtime } from "../../api/runtime";
import { platform } from "../../api/transport";
import { Button } from "../../ui/button";
import { Checkbox, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Note } from "../../ui/page";
import { toast, toastError } from "../../ui/toast";
import { integrationsKey } from "../settings/integrations-key";
import { beginOAuth } from "../settings/oauth-flow";
import { providerName } from "../settings/providers";
import { TokenHelpText, useTokenHelp } from "../settings/token-help";

export interface CredentialsProps {
  name: string;
  /** The page of the console to come back to from the provider, without /console. */
  back: string;
  onClose: () => void;
  /** Called after it is stored; the runtime reports that a little later. */
  onDone?: () => void;
}

export function CredentialsDialog({ name, back, onClose, onDone }: CredentialsProps) {
  const queries = useQueryClient();
  const [token, setToken] = useState("");
  const [username, setUsername] = useState("");
  const [key, setKey] = useState("");
  const [knownHosts, setKnownHosts] = useState("");
  const [authorities, setAuthorities] = useState("");
  const [skip, setSkip] = useState(false);
  const [leaving, setLeaving] = useState(false);
  const settings = useQuery({ queryKey: ["git-settings"], queryFn: () => platform.git.getGitSettings({}) });
  const help = useTokenHelp();
  const integrations = useQuery({
    queryKey: integrationsKey(name),
    queryFn: () => runtime(name).integrations.listIntegrations({}),
  });
  const present = useQuery({
    queryKey: ["runtime-credentials", name],
    queryFn: () => runtime(name).integrations.getRuntimeCredentials({}),
  });
  const provider = settings.data?.settings?.provider ?? "";
  const byDefault = integrations.data?.integrations.find((one) => one.name === "default");
  const needsName = provider === "bitbucket";
  const oauth = async () => {
    setLeaving(true);
    try {
      await beginOAuth({ runtime: name, integration: "default", runtimeToken: true, back });
    } catch (error) {
      toastError(error);
      setLeaving(false);
    }
  };
  const problem = () => {
    if (provider === "" && settings.isSuccess) return "Choose the Git provider of the account first, in the settings.";
    if (token.trim() === "" && !present.data?.configured) return "Paste the token.";
    if (needsName && token.trim() !== "" && username.trim() === "") return "Bitbucket needs the user name too.";
    return "";
  };
  return (
    <FormDialog
      title="Git credentials of the runtime"
      submitLabel="Store them"
      onClose={onClose}
      problem={problem()}
      onSubmit={async () => {
        const answer = await runtime(name).integrations.setRuntimeCredentials({
          token: token.trim(),
          username: username.trim(),
          sshPrivateKey: key,
          knownHosts,
          certificateAuthorities: authorities,
          skipValidation: skip,
        });
        await queries.invalidateQueries({ queryKey: ["runtime-credentials", name] });
        const login = answer.status?.login;
        toast(`${name} has its Git credentials${login ? `: it is ${login}` : ""}.`);
        onDone?.();
        return "close";
      }}
    >
      <p className="muted">
        The runtime clones, pulls and writes the shared repository with them. They are stored in its cluster only; the
        platform forwards them and does not store them.
      </p>
      {present.data?.configured && (
        <Note>
          It has credentials of <strong>{present.data.status?.login || "an unknown user"}</strong>. Fields that you
          leave empty are not changed.
        </Note>
      )}
      {byDefault?.oauth && (
        <div>
          <Button onPress={() => void oauth()} isPending={leaving}>
            {`Sign in with ${providerName(provider)}`}
          </Button>
        </div>
      )}
      <TextField
        label="Token"
        type="password"
        value={token}
        onChange={setToken}
        autoComplete="off"
        autoFocus
        description={<TokenHelpText of={help.data?.runtime} />}
      />
      {(needsName || provider === "bitbucket-server" || provider === "git") && (
        <TextField label="User name" value={username} onChange={setUsername} autoComplete="off" />
      )}
      <details className="more">
        <summary>SSH, or a self-hosted Git server</summary>
        <div className="stack details-body">
          <TextField
            label="SSH private key"
            rows={4}
            value={key}
            onChange={setKey}
            autoComplete="off"
            description="The whole key, in OpenSSH or PEM format, without a passphrase. Git Sources can then use SSH."
          />
          <TextField
            label="Known hosts"
            rows={2}
            value={knownHosts}
            onChange={setKnownHosts}
            autoComplete="off"
            description="Output of ssh-keyscan, for a server other than GitHub, GitLab or Bitbucket."
          />
          <TextField
            label="Certificate authorities"
            rows={3}
            value={authorities}
            onChange={setAuthorities}
            autoComplete="off"
            description="PEM certificates of the CA of a self-hosted Git server."
          />
        </div>
      </details>
      <Checkbox isSelected={skip} onChange={setSkip}>
        Store them even if a permission is missing or cannot be checked
      </Checkbox>
    </FormDialog>
  );
}
