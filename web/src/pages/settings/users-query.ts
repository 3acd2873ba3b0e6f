import { queryOptions } from "@tanstack/react-query";
import { platform } from "../../api/transport";
import { everyPage } from "./pages";

/** usersQuery is all users of the account. Only admins may ask for it. */
export const usersQuery = queryOptions({
  queryKey: ["users"],
  queryFn: () =>
    everyPage(async (pageToken) => {
      const page = await platform.account.listUsers({ pageSize: 500, pageToken });
      return { items: page.users, next: page.nextPageToken };
    }),
});
