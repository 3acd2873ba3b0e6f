import { Empty, Page } from "../../ui/page";

export function TrafficPage() {
  return (
    <Page title="Traffic">
      <Empty title="Traffic" />
    </Page>
  );
}
