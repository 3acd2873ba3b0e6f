// The platform's rules for passwords, checked before a request.

const shortest = 12;
const mostBytes = 1024;
const mostlyDifferent = 4;

/** passwordProblem returns why a password is invalid; empty if it is valid. */
export function passwordProblem(password: string, email: string): string {
  const letters = [...password];
  const plain = password.trim().toLowerCase();
  const local = email.split("@")[0]?.toLowerCase() ?? "";
  if (letters.length < shortest) return `At least ${shortest} characters, please.`;
  if (new TextEncoder().encode(password).length > mostBytes) return "The password is too long.";
  if (plain === email.toLowerCase() || plain === local) return "The password must not be the email address.";
  if (new Set(letters).size < mostlyDifferent) return `At least ${mostlyDifferent} different characters, please.`;
  return "";
}
