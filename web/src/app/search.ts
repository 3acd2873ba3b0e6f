// The query strings of the pages: their types, and how the router reads them. A
// file of its own, so that pages can name the types without importing the router,
// which imports the pages.

type RawSearch = Record<string, unknown>;

// Links carry only values that are set, so an empty value is the same as none.
const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/** readSearch returns a validator that keeps the named parameters and drops all others. */
export function readSearch<Key extends string>(...keys: Key[]): (search: RawSearch) => { [K in Key]?: string } {
  return (search) => {
    const read: { [K in Key]?: string } = {};
    for (const key of keys) read[key] = text(search[key]);
    return read;
  };
}

export interface ApplicationsSearch {
  view?: string | undefined;
  query?: string | undefined;
  health?: string | undefined;
  sync?: string | undefined;
  runtime?: string | undefined;
  cluster?: string | undefined;
  namespace?: string | undefined;
  label?: string | undefined;
}

export const readApplicationsSearch: (search: RawSearch) => ApplicationsSearch = readSearch(
  "view",
  "query",
  "health",
  "sync",
  "runtime",
  "cluster",
  "namespace",
  "label",
);

export interface TrafficSearch {
  runtime?: string | undefined;
  edge?: string | undefined;
  tab?: string | undefined;
  /** The URL, with its method, that the Explain tab explains. */
  url?: string | undefined;
  method?: string | undefined;
  query?: string | undefined;
  /** The route whose chain is open. */
  route?: string | undefined;
}

export const readTrafficSearch: (search: RawSearch) => TrafficSearch = readSearch(
  "runtime",
  "edge",
  "tab",
  "url",
  "method",
  "query",
  "route",
);

export interface HistorySearch {
  tab?: string | undefined;
  runtime?: string | undefined;
  /** A name of an application, or namespace/name. */
  app?: string | undefined;
  span?: string | undefined;
  /** What the DORA figures are grouped by. */
  by?: string | undefined;
}

export const readHistorySearch: (search: RawSearch) => HistorySearch = readSearch(
  "tab",
  "runtime",
  "app",
  "span",
  "by",
);

export interface PromotionsSearch {
  runtime?: string | undefined;
  /** The Promotion that is open. */
  promotion?: string | undefined;
}

export const readPromotionsSearch: (search: RawSearch) => PromotionsSearch = readSearch("runtime", "promotion");
