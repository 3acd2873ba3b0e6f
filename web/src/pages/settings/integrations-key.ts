/** integrationsKey is where the integrations of a runtime are kept among the queries. */
export function integrationsKey(runtime: string): string[] {
  return ["integrations", runtime];
}
