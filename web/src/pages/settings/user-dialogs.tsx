// The forms for a user: adding one, and changing name and role.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Role, type User } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { roleChoice, roles } from "../../app/roles";
import { methodsQuery, useSession } from "../../app/session";
import { Checkbox, RadioCards, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { toast } from "../../ui/toast";
import { usersQuery } from "./users-query";

const roleOf = (value: string): Role => roles.find((one) => one.value === value)?.role ?? Role.UNSPECIFIED;

interface CreateProps {
  onClose: () => void;
  onMade: (handed: { email: string; password: string }) => void;
}

export function CreateUserDialog({ onClose, onMade }: CreateProps) {
  const queries = useQueryClient();
  const methods = useQuery(methodsQuery);
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [role, setRole] = useState("viewer");
  const [chosen, setExternal] = useState(false);
  const hasProvider = Boolean(methods.data?.oidcUrl);
  // Without passwords there is nothing to choose.
  const passwords = methods.data?.password ?? true;
  const external = chosen || !passwords;
  return (
    <FormDialog
      title="Add user"
      submitLabel="Add user"
      onClose={onClose}
      problem={email.includes("@") ? "" : "Enter an email address, such as ann@example.com."}
      onSubmit={async () => {
        const made = await platform.account.createUser({
          email: email.trim(),
          name: name.trim(),
          role: roleOf(role),
          external,
        });
        await queries.invalidateQueries({ queryKey: usersQuery.queryKey });
        if (made.oneTimePassword === "") toast(`${email.trim()} can sign in through the identity provider.`);
        else onMade({ email: email.trim(), password: made.oneTimePassword });
      }}
    >
      <TextField label="Email" type="email" value={email} onChange={setEmail} autoComplete="off" autoFocus />
      <TextField label="Name" value={name} onChange={setName} autoComplete="off" description="Optional." />
      <RadioCards label="Role" value={role} onChange={setRole} options={roles} />
      {hasProvider && passwords && (
        <Checkbox isSelected={external} onChange={setExternal}>
          Signs in through {methods.data?.oidcName || "the identity provider"} only
        </Checkbox>
      )}
    </FormDialog>
  );
}

export function EditUserDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const queries = useQueryClient();
  const { userID } = useSession();
  const own = user.id === userID;
  const before = roleChoice(user.role).value;
  const [name, setName] = useState(user.name);
  const [role, setRole] = useState(before);
  return (
    <FormDialog
      title={`Change ${user.email}`}
      submitLabel="Save"
      onClose={onClose}
      problem={name.trim() === "" ? "Enter a name." : ""}
      onSubmit={async () => {
        await platform.account.updateUser({
          id: user.id,
          name: name.trim(),
          ...(role === before ? {} : { role: roleOf(role) }),
        });
        await queries.invalidateQueries({ queryKey: usersQuery.queryKey });
        if (own) await queries.invalidateQueries({ queryKey: ["session"] });
        toast(`${user.email} is changed.`);
      }}
    >
      <TextField label="Name" value={name} onChange={setName} autoComplete="off" autoFocus />
      {own ? (
        <p className="muted">Only another admin can change your role.</p>
      ) : (
        <>
          <RadioCards label="Role" value={role} onChange={setRole} options={roles} />
          {role !== before && <p className="muted">Changing the role ends their sessions.</p>}
        </>
      )}
    </FormDialog>
  );
}
