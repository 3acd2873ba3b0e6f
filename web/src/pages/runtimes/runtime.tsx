import { Empty, Page } from "../../ui/page";

export function RuntimePage() {
  return (
    <Page title="Runtime">
      <Empty title="Runtime" />
    </Page>
  );
}
