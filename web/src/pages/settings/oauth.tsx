import { Empty, Page } from "../../ui/page";

export function OAuthCallbackPage() {
  return (
    <Page title="Git provider">
      <Empty title="Git provider" />
    </Page>
  );
}
