import { Empty, Page } from "../../ui/page";

export function ChangePasswordPage() {
  return (
    <Page title="Change the password">
      <Empty title="Change the password" />
    </Page>
  );
}
