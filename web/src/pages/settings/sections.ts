const sections = ["account", "users", "keys", "git", "audit"] as const;

/** Section is a part of the settings, as the address names it. */
export type Section = (typeof sections)[number];

/** sectionOf is the section that an address names; the first one when it names none. */
export function sectionOf(text: string | undefined): Section {
  return sections.find((section) => section === text) ?? "account";
}
