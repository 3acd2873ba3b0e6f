// The settings, with the section in the address.

import { getRouteApi } from "@tanstack/react-router";
import { useSession } from "../../app/session";
import { Page } from "../../ui/page";
import { Tabs } from "../../ui/tabs";
import { AccountSection } from "./account";
import { AuditSection } from "./audit";
import { GitSection } from "./git";
import { KeysSection } from "./keys";
import { sectionOf } from "./sections";
import { UsersSection } from "./users";
import "./settings.css";

const route = getRouteApi("/inside/settings");

export function SettingsPage() {
  const section = sectionOf(route.useSearch().section);
  const navigate = route.useNavigate();
  const session = useSession();
  return (
    <Page title="Settings" subtitle={session.accountName}>
      <Tabs
        label="Settings sections"
        selected={section}
        onSelect={(id) => void navigate({ search: { section: id }, replace: true })}
        tabs={[
          { id: "account", label: "Account", content: <AccountSection /> },
          { id: "users", label: "Users and roles", content: <UsersSection /> },
          { id: "keys", label: "API keys", content: <KeysSection /> },
          { id: "git", label: "Git", content: <GitSection /> },
          { id: "audit", label: "Audit log", content: <AuditSection /> },
        ]}
      />
    </Page>
  );
}
