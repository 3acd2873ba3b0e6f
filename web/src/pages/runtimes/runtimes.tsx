import { Empty, Page } from "../../ui/page";

export function RuntimesPage() {
  return (
    <Page title="Runtimes">
      <Empty title="Runtimes" />
    </Page>
  );
}
