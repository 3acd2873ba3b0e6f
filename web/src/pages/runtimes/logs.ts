// Logs of the runtime's own components, as lines or as a file.

import { runtime } from "../../api/runtime";

// The runtime bounds an archive too.
const mostBytes = 300 * 1024 * 1024;

/** save hands data to the browser as a file. */
export function save(name: string, parts: BlobPart[], type: string): void {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** fileName has the time, so that two files of one runtime do not meet. */
export function fileName(name: string, component: string, at: Date): string {
  const time = at.toISOString().slice(0, 19).replaceAll(":", "");
  return component ? `${name}-${component}-${time}.log` : `${name}-logs-${time}.tar.gz`;
}

/** downloadLogs fetches the logs of one component, or of all as an archive. */
export async function downloadLogs(name: string, component: string, signal: AbortSignal): Promise<void> {
  const parts: BlobPart[] = [];
  let size = 0;
  for await (const message of runtime(name).runtime.componentLogs({ component }, { signal })) {
    // A copy: the message may share its memory with others.
    parts.push(message.data.slice());
    if (component) parts.push("\n");
    size += message.data.length;
    if (size > mostBytes) throw new Error(`The logs are too large for a browser. Use slipway runtime logs ${name}.`);
  }
  save(fileName(name, component, new Date()), parts, component ? "text/plain" : "application/gzip");
}
