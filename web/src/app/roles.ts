// The roles of users, from the one with the fewest rights.

import { Role } from "../api/gen/slipway/platform/v1/identity_pb";

export interface RoleChoice {
  role: Role;
  value: string;
  title: string;
  description: string;
}

export const roles: readonly RoleChoice[] = [
  {
    role: Role.RESTRICTED,
    value: "restricted",
    title: "Restricted",
    description: "Has the rights that policies give, by project, and no others.",
  },
  {
    role: Role.VIEWER,
    value: "viewer",
    title: "Viewer",
    description: "Sees everything but logs, and changes nothing.",
  },
  {
    role: Role.OPERATOR,
    value: "operator",
    title: "Operator",
    description: "Also syncs and rolls back applications, and reads their logs.",
  },
  {
    role: Role.ADMIN,
    value: "admin",
    title: "Admin",
    description: "Also deletes applications, and changes runtimes, users, keys and settings.",
  },
];

/** roleChoice is how a role is shown. An unknown one, of a newer platform, is shown as the lowest. */
export function roleChoice(role: Role | undefined): RoleChoice {
  return roles.find((one) => one.role === role) ?? (roles[0] as RoleChoice);
}
