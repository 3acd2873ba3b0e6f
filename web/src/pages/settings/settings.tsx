import { Empty, Page } from "../../ui/page";

export function SettingsPage() {
  return (
    <Page title="Settings">
      <Empty title="Settings" />
    </Page>
  );
}
