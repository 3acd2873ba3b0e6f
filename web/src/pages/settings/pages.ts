// Lists that the platform gives in pages.

// More than is readable; a longer list is marked as cut.
const most = 5_000;

export interface WholeList<T> {
  items: T[];
  /** There is more than is shown. */
  cut: boolean;
}

/** everyPage reads all pages of a list, one after the other. */
export async function everyPage<T>(
  read: (pageToken: string) => Promise<{ items: T[]; next: string }>,
  limit = most,
): Promise<WholeList<T>> {
  const items: T[] = [];
  for (let token = ""; ; ) {
    const page = await read(token);
    items.push(...page.items);
    if (page.next === "") return { items, cut: false };
    if (items.length >= limit) return { items, cut: true };
    token = page.next;
  }
}
