package server_test

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/observe/otlp/otlptest"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestAuditExport: a collector gets each entry once, as the audit log has it, also
// those of the last moment, and no secret.
func TestAuditExport(t *testing.T) {
	receiver := otlptest.New(t, "")
	logs, err := otlp.NewLogs(otlp.LogOptions{Collector: otlp.Collector{Endpoint: receiver.URL}, ServiceName: "slipway-platform", Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	p := launch(t, func(o *server.Options) { o.Audit.Logs = logs })
	key := p.key("all")
	api := client(t, key, nil)
	users := platformv1connect.NewAccountServiceClient(api, p.url)
	_, err = users.CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: "eve@example.com", Role: platformv1.Role_ROLE_VIEWER}))
	check(t, err)
	_, err = platformv1connect.NewAuthServiceClient(client(t, "", nil), p.url).SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: "canary"}))
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Fatalf("signed in: %v", err)
	}
	list, err := platformv1connect.NewAuditServiceClient(api, p.url).ListEntries(t.Context(), connect.NewRequest(&platformv1.ListEntriesRequest{OldestFirst: true}))
	check(t, err)
	check(t, server.SendCommand(t.Context(), p.dir, "/backup", io.Discard))
	programs.Until(t, "records before the end", func() bool { return len(receiver.Records()) > 0 })
	p.stop()
	records := receiver.Records()
	entries := list.Msg.GetEntries()
	if len(records) != len(entries)+2 || len(entries) < 5 {
		t.Fatalf("%d records for %d entries and two of the backup", len(records), len(entries))
	}
	for n, entry := range entries {
		record := records[n]
		severity := "SEVERITY_NUMBER_INFO"
		if entry.GetOutcome() == "denied" {
			severity = "SEVERITY_NUMBER_WARN"
		}
		for name, want := range map[string]string{
			"slipway.audit.id": entry.GetId(), "slipway.audit.action": entry.GetAction(), "slipway.audit.target": entry.GetTarget(),
			"slipway.audit.outcome": entry.GetOutcome(), "slipway.audit.code": entry.GetCode(), "slipway.audit.detail": entry.GetDetail(),
			"slipway.audit.actor": entry.GetActor(), "slipway.audit.actor_kind": entry.GetActorKind(), "slipway.audit.key_id": entry.GetKeyId(),
			"user.id": entry.GetUserId(), "user.email": entry.GetUserEmail(), "client.address": entry.GetAddress(),
			".event": "slipway.audit", ".severity": severity, ".service": "slipway-platform",
		} {
			if record[name] != want {
				t.Errorf("%s of %v is %q, want %q", name, entry, record[name], want)
			}
		}
	}
	if last := records[len(records)-1]; last["slipway.audit.action"] != "platform.backup" || last["slipway.audit.outcome"] != "ok" {
		t.Errorf("the last record is %v", last)
	}
	if text := fmt.Sprint(records); strings.Contains(text, "canary") || strings.Contains(text, key) {
		t.Error("a secret was exported")
	}
}
