import { Empty, Page } from "../../ui/page";

export function ApplicationPage() {
  return (
    <Page title="Application">
      <Empty title="Application" />
    </Page>
  );
}
