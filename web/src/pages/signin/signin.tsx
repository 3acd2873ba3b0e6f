import { Empty, Page } from "../../ui/page";

export function SignInPage() {
  return (
    <Page title="Sign in">
      <Empty title="Sign in" />
    </Page>
  );
}
