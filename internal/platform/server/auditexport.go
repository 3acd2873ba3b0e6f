package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
)

// exportTimeout bounds sending the last entries at the end.
const exportTimeout = 5 * time.Second

// AuditExport sends audit entries as OTLP log records after they are stored. The
// database has every entry; the export may lose some while its queue is full.
type AuditExport struct{ logs *otlp.Logs }

// NewAuditExport returns an export; without logs it does nothing.
func NewAuditExport(logs *otlp.Logs) AuditExport { return AuditExport{logs} }

// Emit queues an entry. It does not block.
func (e AuditExport) Emit(entry store.AuditEntry) {
	if e.logs == nil {
		return
	}
	severity := otlp.SeverityInfo
	if entry.Outcome != identity.OutcomeOK && entry.Outcome != identity.OutcomeBegun {
		severity = otlp.SeverityWarn
	}
	// Names without slipway are those of OpenTelemetry's conventions.
	e.logs.Emit(otlp.Record{
		At: entry.At, Severity: severity, Event: "slipway.audit",
		Body: fmt.Sprintf("%s %s by %s: %s", entry.Action, entry.Target, entry.Actor, entry.Outcome),
		Attributes: [][2]string{
			{"slipway.audit.id", entry.ID}, {"slipway.audit.action", entry.Action}, {"slipway.audit.target", entry.Target},
			{"slipway.audit.outcome", entry.Outcome}, {"slipway.audit.code", entry.Code}, {"slipway.audit.detail", entry.Detail},
			{"slipway.audit.actor", entry.Actor}, {"slipway.audit.actor_kind", entry.ActorKind}, {"slipway.audit.key_id", entry.KeyID},
			{"slipway.account.id", entry.AccountID}, {"slipway.runtime", entry.Runtime}, {"slipway.project", entry.Project},
			{"slipway.application", entry.Application}, {"slipway.revision", entry.Revision},
			{"user.id", entry.UserID}, {"user.email", entry.UserEmail}, {"client.address", entry.Address},
		},
	})
}

// register adds the metrics of the export.
func (e AuditExport) register(metrics *observe.Metrics) {
	if e.logs != nil {
		registerExport(metrics, e.logs.Stats)
	}
}

// registerExport adds the counters of the export, which stats has.
func registerExport(metrics *observe.Metrics, stats func() (sent, lost uint64)) {
	registry := promauto.With(metrics.For("audit"))
	registry.NewCounterFunc(prometheus.CounterOpts{Name: "exported_total", Help: "Audit entries that the collector accepted."},
		func() float64 { sent, _ := stats(); return float64(sent) })
	registry.NewCounterFunc(prometheus.CounterOpts{Name: "export_lost_total", Help: "Audit entries that were not exported: the queue was full, or the collector refused them."},
		func() float64 { _, lost := stats(); return float64(lost) })
}

// Close sends the last entries, within a timeout.
func (e AuditExport) Close(log *slog.Logger) {
	if e.logs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	if err := e.logs.Close(ctx); err != nil {
		log.Warn("audit export incomplete; slipway audit export has all entries", observe.KeyError, err)
	}
}
