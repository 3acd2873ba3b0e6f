import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { TrafficCertificate } from "../../api/gen/slipway/runtime/v1/traffic_pb";
import { useNarrow } from "../../ui/narrow";
import { Empty } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { type Column, VirtualTable } from "../../ui/table";
import { useNow } from "../../ui/time";
import { daysLeft } from "./model";

const end = (certificate: TrafficCertificate) =>
  certificate.notAfter ? timestampDate(certificate.notAfter) : new Date(0);

/** expiry returns the remaining lifetime of a certificate, and whether it is short. */
export function expiry(certificate: TrafficCertificate, now: number): { tone: Tone; word: string } {
  if (certificate.notBefore && timestampDate(certificate.notBefore).getTime() > now) {
    return { tone: "warn", word: "not valid yet" };
  }
  const days = daysLeft(end(certificate), now);
  if (days < 0) return { tone: "bad", word: "expired" };
  const word = days === 0 ? "less than a day" : days === 1 ? "1 day" : `${days} days`;
  return { tone: days < 7 ? "bad" : days < 21 ? "warn" : "good", word };
}

export function Certificates({ certificates, more }: { certificates: TrafficCertificate[]; more: number }) {
  const now = useNow();
  const narrow = useNarrow();
  if (certificates.length === 0) {
    return (
      <Empty title="No certificates">
        No Ingress has a certificate. HTTPS clients get the edge's self-signed default certificate, which browsers do
        not trust. Name a Secret in spec.tls of an Ingress, or let the edge request one by ACME.
      </Empty>
    );
  }
  const columns: Column<TrafficCertificate>[] = [
    {
      id: "names",
      header: "Names",
      width: "minmax(160px, 2fr)",
      cell: (c) => <span title={c.names.join("\n")}>{c.names.join(", ") || "–"}</span>,
    },
    {
      id: "expires",
      header: "Good for",
      width: "150px",
      cell: (c) => {
        const { tone, word } = expiry(c, now);
        return (
          <span title={end(c).toLocaleString()}>
            <Status tone={tone}>{word}</Status>
          </span>
        );
      },
    },
    {
      id: "until",
      header: "Until",
      width: "110px",
      wideOnly: true,
      cell: (c) => <time dateTime={end(c).toISOString()}>{end(c).toISOString().slice(0, 10)}</time>,
    },
    { id: "issuer", header: "Issuer", width: "minmax(120px, 1.2fr)", wideOnly: true, cell: (c) => c.issuer || "–" },
    {
      id: "secret",
      header: "Secret",
      width: "minmax(120px, 1.2fr)",
      wideOnly: true,
      cell: (c) => (c.secret === "" ? "the edge's own" : `${c.namespace}/${c.secret}`),
    },
    { id: "routes", header: "Routes", width: "70px", wideOnly: true, cell: (c) => c.routes },
  ];
  const rows = certificates.toSorted((a, b) => end(a).getTime() - end(b).getTime());
  return (
    <div className="stack">
      <div className="panel traffic-table">
        <VirtualTable
          label="Certificates"
          columns={columns}
          rows={rows}
          rowKey={(c) => JSON.stringify([c.namespace, c.secret, c.names, String(c.notAfter?.seconds)])}
          narrow={narrow}
        />
      </div>
      {more > 0 && <p className="muted">{more} more are not listed.</p>}
    </div>
  );
}
