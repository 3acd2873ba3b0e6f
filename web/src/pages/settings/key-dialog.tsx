// The form for a new API key.

import { useState } from "react";
import { Scope } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { useSession } from "../../app/session";
import { RadioCards, Select, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";

const scopes: Record<string, Scope> = { all: Scope.ALL, read: Scope.READ, register: Scope.RUNTIME_REGISTER };

const lifetimes = [
  { value: "1", label: "1 day" },
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
];

interface Props {
  onClose: () => void;
  onMade: (name: string, secret: string) => void;
}

export function CreateKeyDialog({ onClose, onMade }: Props) {
  const { isAdmin } = useSession();
  const [name, setName] = useState("");
  const [scope, setScope] = useState("read");
  const [days, setDays] = useState("90");
  return (
    <FormDialog
      title="Make an API key"
      submitLabel="Create key"
      onClose={onClose}
      problem={name.trim() === "" ? "Enter a name that describes what the key is for." : ""}
      onSubmit={async () => {
        const made = await platform.keys.createKey({
          name: name.trim(),
          scopes: [scopes[scope] ?? Scope.READ],
          lifetime: { seconds: BigInt(days) * 86_400n },
        });
        onMade(name.trim(), made.secret);
      }}
    >
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        autoComplete="off"
        placeholder="ci of the shop"
        description="Describes what the key is for."
        autoFocus
      />
      <RadioCards
        label="Permissions"
        value={scope}
        onChange={setScope}
        options={[
          { value: "read", title: "Read", description: "Read access to everything that you can see." },
          { value: "all", title: "Everything", description: "Everything that you are allowed to do." },
          ...(isAdmin
            ? [
                {
                  value: "register",
                  title: "Register runtimes",
                  description: "Only registers runtimes, for an installation.",
                },
              ]
            : []),
        ]}
      />
      <Select label="Expires after" value={days} onChange={setDays} options={lifetimes} />
    </FormDialog>
  );
}
