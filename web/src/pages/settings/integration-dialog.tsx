// The form for a Git integration of a runtime.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Integration } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime } from "../../api/runtime";
import { RadioCards, Select, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Note } from "../../ui/page";
import { toast } from "../../ui/toast";
import { integrationsKey } from "./integrations-key";
import { providers } from "./providers";

interface Props {
  runtimeName: string;
  /** The one to change; without it a new one is added. */
  before?: Integration;
  onClose: () => void;
}

export function IntegrationDialog({ runtimeName, before, onClose }: Props) {
  const queries = useQueryClient();
  const [name, setName] = useState(before?.name ?? "");
  const [provider, setProvider] = useState(before?.provider ?? "github");
  const [api, setAPI] = useState(before?.apiUrl ?? "");
  const [sharing, setSharing] = useState(before?.sharing ?? "all-users");
  const moved = before !== undefined && (before.provider !== provider || before.apiUrl !== api.trim());
  return (
    <FormDialog
      title={before ? `Change the integration ${before.name}` : "Add integration"}
      submitLabel={before ? "Save" : "Add"}
      onClose={onClose}
      problem={name.trim() === "" ? "Enter a name." : ""}
      onSubmit={async () => {
        const integration = { name: name.trim(), provider, apiUrl: api.trim(), sharing };
        const services = runtime(runtimeName).integrations;
        if (before) await services.editIntegration({ integration });
        else await services.addIntegration({ integration });
        await queries.invalidateQueries({ queryKey: integrationsKey(runtimeName) });
        toast(before ? `The integration ${name.trim()} is changed.` : `The integration ${name.trim()} is added.`);
      }}
    >
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        isDisabled={before !== undefined}
        autoComplete="off"
        placeholder="github-enterprise"
        autoFocus={before === undefined}
      />
      <Select label="Provider" value={provider} onChange={setProvider} options={providers} />
      <TextField
        label="API URL"
        type="url"
        value={api}
        onChange={setAPI}
        autoComplete="off"
        description="Leave it empty for the provider's own service."
      />
      <RadioCards
        label="Who may use it"
        value={sharing}
        onChange={setSharing}
        options={[
          { value: "all-users", title: "All users", description: "Each user registers their own token." },
          { value: "admins", title: "Admins", description: "Only admins register tokens." },
        ]}
      />
      {moved && (before?.users.length ?? 0) > 0 && (
        <Note tone="warn">Changing the provider or URL deletes the registered tokens.</Note>
      )}
    </FormDialog>
  );
}
