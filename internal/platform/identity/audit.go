package identity

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/permission"
)

// Outcomes in the audit log.
const (
	OutcomeOK     = "ok"
	OutcomeDenied = "denied"
	OutcomeFailed = "failed"
	// OutcomeBegun is written before a change by an admin; a second entry
	// follows with the result.
	OutcomeBegun = "begun"
	// OutcomeUnknown is a change that was sent to a runtime whose response did
	// not arrive: it may have been made.
	OutcomeUnknown = "unknown"
)

// CodeOK is the status code of a successful call; Connect has no name for it.
const CodeOK = "ok"

// auditText bounds each text of an entry.
const auditText = 256

// Event is the content of an audit entry. It must not contain secrets.
type Event struct {
	// Action is the action, such as runtime.register; the function Action
	// derives it from a procedure.
	Action string
	// Target is the affected object, as kind/name.
	Target string
	// Outcome is one of the Outcome constants.
	Outcome string
	// Code is the status code of a call that has ended.
	Code   string
	Detail string
	store.AuditObject
}

// Record writes an entry for the account of the caller. It completes even if
// the caller has disconnected.
func (i *Identity) Record(ctx context.Context, caller Caller, event Event) error {
	// Runtimes carry their account in the token.
	account := caller.Account.ID
	if account == "" && caller.Runtime != nil {
		account = caller.Runtime.AccountID
	}
	actor, kind := caller.Actor()
	if caller.Runtime != nil && event.Runtime == "" {
		event.Runtime = caller.Runtime.Name
	}
	return i.record(ctx, store.AuditEntry{AccountID: account, Actor: actor, ActorKind: kind, Address: caller.Address, AuditPerson: caller.person()}, event)
}

// record writes an entry, with a timeout independent of the request's.
func (i *Identity) record(ctx context.Context, entry store.AuditEntry, event Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	entry.At = i.now().UTC()
	err := i.store.AppendAudit(ctx, event.in(entry))
	if err != nil {
		i.log.Error("writing an audit entry failed", "action", entry.Action, "target", entry.Target, "outcome", entry.Outcome, "actor", entry.Actor, "err", err)
		return fmt.Errorf("write audit log: %w", err)
	}
	return nil
}

// in returns the entry with the event. All texts are cleaned here, because
// every entry about a call passes here.
func (e Event) in(entry store.AuditEntry) store.AuditEntry {
	entry.Action, entry.Target, entry.Outcome, entry.Code, entry.Detail = e.Action, e.Target, e.Outcome, e.Code, e.Detail
	entry.AuditObject = e.AuditObject
	for _, text := range []*string{
		&entry.Actor, &entry.Address, &entry.Action, &entry.Target, &entry.Outcome, &entry.Code, &entry.Detail,
		&entry.UserEmail, &entry.Runtime, &entry.Project, &entry.Application, &entry.Revision,
	} {
		*text = clean(*text)
	}
	return entry
}

// clean makes untrusted text safe for an entry: bounded, printable, on one
// line.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= auditText {
		return text
	}
	return strings.ToValidUTF8(text[:auditText-3], "") + "…"
}

// Action returns the audit action of a procedure: service and verb, such as
// key.revoke, git-source.create or account.create-user.
func Action(procedure string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	// The verb drops the noun where the method repeats it: RevokeKey of
	// KeyService is key.revoke.
	noun := kebab(strings.TrimSuffix(service[strings.LastIndex(service, ".")+1:], "Service"))
	verb := "-" + kebab(method) + "-"
	for _, form := range []string{"-" + noun + "s-", "-" + noun + "-"} {
		if short := strings.Replace(verb, form, "-", 1); short != "-" {
			verb = short
		}
	}
	return noun + "." + strings.Trim(verb, "-")
}

// kebab converts CamelCase to kebab-case.
func kebab(camel string) string {
	var b strings.Builder
	previous := 'A'
	for _, r := range camel {
		if unicode.IsUpper(r) && !unicode.IsUpper(previous) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return b.String()
}

// auditDetail is the audit entry of a call in progress. The procedure may add
// to it; mu guards it, because handlers may do so from several goroutines.
type auditDetail struct {
	mu     sync.Mutex
	caller *Caller
	event  Event
}

type auditDetailKey struct{}

// Describe sets target (as kind/name) and detail of the audit entry of the
// current call. Empty values keep the current ones. Neither may contain
// secrets.
func Describe(ctx context.Context, target, detail string) {
	call, ok := ctx.Value(auditDetailKey{}).(*auditDetail)
	if !ok {
		return
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	if target != "" {
		call.event.Target = target
	}
	if detail != "" {
		call.event.Detail = detail
	}
}

// actAs sets the caller that a public procedure has identified.
func actAs(ctx context.Context, caller Caller) {
	if call, ok := ctx.Value(auditDetailKey{}).(*auditDetail); ok {
		call.mu.Lock()
		defer call.mu.Unlock()
		call.caller = &caller
	}
}

// snapshot returns caller and event as they are now.
func (s *auditDetail) snapshot() (*Caller, Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caller, s.event
}

// isAudited reports whether successful and failed calls of a procedure are
// recorded.
func isAudited(rule permission.Rule) bool { return !rule.Read && !rule.Quiet }

// auditsFirst reports whether the call is recorded before it is made.
func auditsFirst(rule permission.Rule) bool {
	return isAudited(rule) && (rule.Permission == permission.Admin || rule.Permission == permission.RegisterRuntime)
}

// auditEvent derives action and target from the request: the target is the
// first non-empty field of name, id and email.
func auditEvent(procedure string, message any) Event {
	event := Event{Action: Action(procedure)}
	request, ok := message.(proto.Message)
	if !ok {
		return event
	}
	noun, _, _ := strings.Cut(event.Action, ".")
	event.Target = noun
	reflected := request.ProtoReflect()
	for _, name := range []protoreflect.Name{"name", "id", "email"} {
		if value := textField(reflected, name); value != "" {
			event.Target = noun + "/" + value
			if noun == "runtime" {
				event.Runtime = value
			}
			break
		}
	}
	return event
}

// textField returns a string field of a message; it is empty if there is none.
func textField(message protoreflect.Message, name protoreflect.Name) string {
	field := message.Descriptor().Fields().ByName(name)
	if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
		return ""
	}
	return message.Get(field).String()
}
