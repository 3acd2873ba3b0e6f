import { Empty, Page } from "../../ui/page";

export function WizardPage() {
  return (
    <Page title="Install a runtime">
      <Empty title="Install a runtime" />
    </Page>
  );
}
