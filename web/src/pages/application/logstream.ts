// The log of containers, read as a stream into bounded memory.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { runtime } from "../../api/runtime";
import { LogBuffer, type LogLine } from "../../ui/logbuffer";
import type { Place } from "./follow";
import { type ResourceName, writeObject } from "./resourcename";

export interface LogQuestion {
  /** A Pod or what has Pods; without it all Pods of the application. */
  object: ResourceName | null;
  container: string;
  follow: boolean;
  previous: boolean;
  filter: string;
}

export interface LogState {
  lines: LogLine[];
  total: number;
  /** Containers that wrote something. */
  containers: string[];
  state: "reading" | "following" | "ended" | "failed";
  error: ConnectError | null;
}

const nothing: LogState = { lines: [], total: 0, containers: [], state: "reading", error: null };
// Lines that come together are shown together.
const gather = 100;
const tail = 1_000;

/** useLogs reads a log; another request starts again. */
export function useLogs(place: Place, question: LogQuestion): LogState {
  const [known, setKnown] = useState<LogState>(nothing);
  const { runtime: name, namespace, name: application } = place;
  const { container, follow, previous, filter } = question;
  const object = question.object ? writeObject(question.object) : "";

  // biome-ignore lint/correctness/useExhaustiveDependencies: object is the question's object as text, which stays equal.
  useEffect(() => {
    setKnown(nothing);
    const reader = new LogReader({ runtime: name, namespace, name: application }, question, setKnown);
    return () => reader.stop();
  }, [name, namespace, application, object, container, follow, previous, filter]);
  return known;
}

class LogReader {
  private readonly ended = new AbortController();
  private readonly buffer = new LogBuffer();
  private readonly containers = new Set<string>();
  // When each container wrote last: a stream that is opened again repeats lines.
  private readonly last = new Map<string, bigint>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private state: LogState["state"] = "reading";
  private error: ConnectError | null = null;

  constructor(
    private readonly place: Place,
    private readonly question: LogQuestion,
    private readonly show: (state: LogState) => void,
  ) {
    void this.read();
  }

  stop(): void {
    this.ended.abort();
    clearTimeout(this.timer);
  }

  private async read(): Promise<void> {
    for (let tries = 0; !this.ended.signal.aborted; tries++) {
      const began = Date.now();
      const error = await this.once();
      if (this.ended.signal.aborted) return;
      if (Date.now() - began > 10_000) tries = 0;
      const final = error !== null && !passes(error.code);
      this.error = error;
      this.state = error && (final || !this.question.follow) ? "failed" : "ended";
      this.publish();
      if (final || !this.question.follow) return;
      // Pods come and go: those that are there now are followed.
      await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 2_000 * (tries + 1))));
    }
  }

  private async once(): Promise<ConnectError | null> {
    const { object, container, follow, previous, filter } = this.question;
    const request = {
      ref: { namespace: this.place.namespace, name: this.place.name },
      ...(object ? { object } : {}),
      container,
      follow,
      previous,
      filter,
      tailLines: BigInt(tail),
    };
    // State of the previous stream.
    const known = new Map(this.last);
    try {
      const stream = runtime(this.place.runtime).applications.logs(request, { signal: this.ended.signal });
      this.state = follow ? "following" : "reading";
      this.publishSoon();
      for await (const line of stream) {
        const at = line.at ? timestampDate(line.at) : undefined;
        const source = `${line.pod}/${line.container}`;
        const moment = line.at ? line.at.seconds * 1_000_000_000n + BigInt(line.at.nanos) : 0n;
        const before = known.get(source);
        if (moment !== 0n && before !== undefined && moment <= before) continue;
        if (moment !== 0n) this.last.set(source, moment);
        this.containers.add(line.container);
        this.buffer.push({ at, source, text: line.line });
        this.error = null;
        this.publishSoon();
      }
      return null;
    } catch (error) {
      return ConnectError.from(error);
    }
  }

  private publishSoon(): void {
    this.timer ??= setTimeout(() => this.publish(), gather);
  }

  private publish(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.ended.signal.aborted) return;
    this.show({
      lines: this.buffer.snapshot(),
      total: this.buffer.total,
      containers: [...this.containers].sort(),
      state: this.state,
      error: this.error,
    });
  }
}

function passes(code: Code): boolean {
  return code === Code.Unavailable || code === Code.Aborted || code === Code.Unknown || code === Code.DeadlineExceeded;
}
