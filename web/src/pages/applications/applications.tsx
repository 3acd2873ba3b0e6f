import { Empty, Page } from "../../ui/page";

export function ApplicationsPage() {
  return (
    <Page title="Applications">
      <Empty title="Applications" />
    </Page>
  );
}
