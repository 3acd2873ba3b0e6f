import { counted } from "../../ui/count";

/** isCommand distinguishes a command or manifest, which can be copied, from a sentence. */
export function isCommand(fix: string): boolean {
  return fix.includes("\n") || /^(kubectl|helm|slipway|openssl|gcloud|aws) /.test(fix);
}

/** summarise returns the progress and the result of the checks. */
export function summarise(results: { state: string }[], total: number, ended: boolean): string {
  const count = (state: string) => results.filter((one) => one.state === state).length;
  const errors = count("error");
  const warnings = count("warning");
  const found = [
    ...(errors > 0 ? [counted(errors, "error", "errors")] : []),
    ...(warnings > 0 ? [counted(warnings, "warning", "warnings")] : []),
  ].join(" and ");
  if (!ended) return `${results.length} of ${total || "…"} checks have ended${found ? `: ${found}` : ""}.`;
  if (results.length === 0) return "No check has run.";
  return found ? `${counted(results.length, "check", "checks")}: ${found}.` : `All ${results.length} checks are good.`;
}
