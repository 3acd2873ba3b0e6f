// Registering your token with a runtime, and with others at the same time.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { explain } from "../../api/errors";
import type { Integration } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime } from "../../api/runtime";
import { Checkbox, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Note } from "../../ui/page";
import { toast } from "../../ui/toast";
import { integrationsKey } from "./integrations-key";
import { providerName } from "./providers";
import { TokenHelpText, useTokenHelp } from "./token-help";

interface Props {
  runtimeName: string;
  others: string[];
  of: Integration;
  onClose: () => void;
}

export function RegisterDialog({ runtimeName, others, of, onClose }: Props) {
  const queries = useQueryClient();
  const [token, setToken] = useState("");
  const [username, setUsername] = useState("");
  const [everywhere, setEverywhere] = useState(false);
  const [refused, setRefused] = useState<string[]>([]);
  const help = useTokenHelp(of.provider, of.apiUrl);
  const needsName = of.provider === "bitbucket";
  const register = async (name: string) => {
    await runtime(name).integrations.register({
      integration: of.name,
      token: token.trim(),
      username: username.trim(),
    });
    await queries.invalidateQueries({ queryKey: integrationsKey(name) });
  };
  const submit = async () => {
    await register(runtimeName);
    if (!everywhere) {
      toast(`Your token is stored in ${runtimeName}.`);
      return "close";
    }
    const answers = await Promise.allSettled(others.map(register));
    const problems = answers.flatMap((answer, at) =>
      answer.status === "rejected" ? [`${others[at]}: ${explain(answer.reason)}`] : [],
    );
    setRefused(problems);
    toast(`Your token is stored in ${others.length + 1 - problems.length} of ${others.length + 1} runtimes.`);
    return problems.length > 0 ? "stay" : "close";
  };
  return (
    <FormDialog
      title={`Your token of ${providerName(of.provider)}`}
      submitLabel="Register the token"
      onClose={onClose}
      problem={
        token.trim() === ""
          ? "Paste the token from your Git provider."
          : needsName && username.trim() === ""
            ? "Bitbucket needs your user name too."
            : ""
      }
      onSubmit={submit}
    >
      <p className="muted">
        The runtime checks the token's permissions with the provider and stores it encrypted in its cluster. The
        platform forwards it and does not store it.
      </p>
      <TextField
        label="Token"
        type="password"
        value={token}
        onChange={setToken}
        autoComplete="off"
        description={<TokenHelpText of={help.data?.user} />}
        autoFocus
      />
      {needsName && <TextField label="User name" value={username} onChange={setUsername} autoComplete="off" />}
      {others.length > 0 && (
        <Checkbox isSelected={everywhere} onChange={setEverywhere}>
          Also in the {others.length === 1 ? "other runtime" : `${others.length} other runtimes`} that{" "}
          {others.length === 1 ? "is" : "are"} online
        </Checkbox>
      )}
      {refused.length > 0 && (
        <Note tone="bad">
          <p>Stored here, but not in every runtime:</p>
          <ul className="scope-list">
            {refused.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </Note>
      )}
    </FormDialog>
  );
}
