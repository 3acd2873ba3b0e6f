// Where a sign-in leads to. The address comes from the outside, so it may only name a
// page of the console.

const base = "https://console.invalid";
const home = "/console/";

/** safeNext is a page of the console to go to after signing in; anything else is the first page. */
export function safeNext(text: string | undefined): string {
  if (!text?.startsWith("/") || text.length > 1024) return home;
  // Browsers read a backslash as a slash, and leave out tabs and line ends.
  for (const letter of text) if (letter === "\\" || letter < " " || letter === "\u007f") return home;
  let parsed: URL;
  try {
    parsed = new URL(text, base);
  } catch {
    return home;
  }
  const path = parsed.pathname;
  if (parsed.origin !== base || !path.startsWith(home) || /^\/console\/(sign-in|change-password)\/?$/.test(path)) {
    return home;
  }
  return path + parsed.search + parsed.hash;
}

/** withReturn is the address of the identity provider's sign-in that comes back to a page. */
export function withReturn(oidcURL: string, next: string): string {
  const address = new URL(oidcURL, base);
  address.searchParams.set("return", next);
  return address.origin === base ? address.pathname + address.search : address.toString();
}
