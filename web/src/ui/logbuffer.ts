// The last lines of a log, in bounded memory.

export interface LogLine {
  id: number;
  at: Date | undefined;
  /** Which container wrote it. */
  source: string;
  text: string;
}

/** mostLogLines is how many lines of a log are kept. */
export const mostLogLines = 5_000;
// A line can be as long as a program likes; this much of it is kept.
const mostCharacters = 8_192;

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours of terminals begin with one.
const colours = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

/** cleanLine is a line without the colours of terminals, and not longer than can be shown. */
export function cleanLine(text: string): string {
  const clean = text.slice(0, 2 * mostCharacters).replace(colours, "");
  return clean.length > mostCharacters ? `${clean.slice(0, mostCharacters)} … (cut)` : clean;
}

/** LogBuffer keeps the last lines. Each snapshot is a new array. */
export class LogBuffer {
  private lines: LogLine[] = [];
  private next = 0;

  constructor(private readonly most = mostLogLines) {}

  push(line: Omit<LogLine, "id">): void {
    this.lines.push({ ...line, text: cleanLine(line.text), id: this.next++ });
    // Cut seldom: each cut copies the rest.
    if (this.lines.length >= 2 * this.most) this.lines = this.lines.slice(-this.most);
  }

  snapshot(): LogLine[] {
    return this.lines.slice(-this.most);
  }

  /** total is how many lines came, those that are gone included. */
  get total(): number {
    return this.next;
  }
}
