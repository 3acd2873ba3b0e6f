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
	// OutcomeBegun is written before an admin's change; another entry follows.
	OutcomeBegun = "begun"
)

// auditText bounds each text of an entry.
const auditText = 256

// Event is what an entry of the audit log says. It must hold no secrets.
type Event struct {
	// Action is what, such as runtime.register; Action gives it for a procedure.
	Action string
	// Target is on what, as kind/name.
	Target string
	// Outcome is one of the constants here.
	Outcome string
	Detail  string
}

// Audit writes an entry; the words are its outcome and, if there is more to say, the
// detail. When it cannot be written, the log says so. Who must not go on then calls
// Record.
func (i *Identity) Audit(ctx context.Context, caller Caller, action, target string, words ...string) {
	event := Event{Action: action, Target: target, Outcome: OutcomeOK}
	if len(words) > 0 {
		event.Outcome, event.Detail = words[0], strings.Join(words[1:], " ")
	}
	_ = i.Record(ctx, caller, event)
}

// Record writes an entry for the account of the caller. It finishes even when the
// caller has gone away.
func (i *Identity) Record(ctx context.Context, caller Caller, event Event) error {
	account := caller.Account.ID
	if account == "" && caller.Runtime != nil {
		account = caller.Runtime.AccountID
	}
	actor, kind := caller.Actor()
	return i.record(ctx, store.AuditEntry{AccountID: account, Actor: actor, ActorKind: kind, Address: caller.Address}, event)
}

func (i *Identity) record(ctx context.Context, entry store.AuditEntry, event Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	entry.At = i.now().UTC()
	entry.Actor, entry.Address = clean(entry.Actor), clean(entry.Address)
	entry.Action, entry.Target, entry.Outcome, entry.Detail = clean(event.Action), clean(event.Target), clean(event.Outcome), clean(event.Detail)
	err := i.store.AppendAudit(ctx, entry)
	if err != nil {
		i.log.Error("An entry of the audit log could not be written", "action", entry.Action, "target", entry.Target, "outcome", entry.Outcome, "actor", entry.Actor, "err", err)
		return fmt.Errorf("the audit log could not be written, so the call fails: %w", err)
	}
	return nil
}

// clean makes text from outside fit for an entry: bounded, on one line.
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

// Action names a procedure in the audit log: its service and what it does, such as
// key.revoke, git-source.create or account.create-user.
func Action(procedure string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	noun := kebab(strings.TrimSuffix(service[strings.LastIndex(service, ".")+1:], "Service"))
	verb := "-" + kebab(method) + "-"
	for _, form := range []string{"-" + noun + "s-", "-" + noun + "-"} {
		if short := strings.Replace(verb, form, "-", 1); short != "-" {
			verb = short
		}
	}
	return noun + "." + strings.Trim(verb, "-")
}

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

// story is what the entry of a running call will say. Its procedure may add to it.
type story struct {
	mu     sync.Mutex
	caller *Caller
	event  Event
}

type storyKey struct{}

// Describe sets what the audit log says of the running call: on what, as kind/name,
// and more. Empty values leave what is there. Neither may hold secrets.
func Describe(ctx context.Context, target, detail string) {
	tale, ok := ctx.Value(storyKey{}).(*story)
	if !ok {
		return
	}
	tale.mu.Lock()
	defer tale.mu.Unlock()
	if target != "" {
		tale.event.Target = target
	}
	if detail != "" {
		tale.event.Detail = detail
	}
}

// actAs says who a public procedure found its caller to be.
func actAs(ctx context.Context, caller Caller) {
	if tale, ok := ctx.Value(storyKey{}).(*story); ok {
		tale.mu.Lock()
		defer tale.mu.Unlock()
		tale.caller = &caller
	}
}

// told is the entry so far.
func (s *story) told() (*Caller, Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caller, s.event
}

// audited reports whether a successful or failed call of the procedure is written.
func audited(rule permission.Rule) bool { return !rule.Read && !rule.Quiet }

// before reports whether the call is written before it is done.
func before(rule permission.Rule) bool {
	return audited(rule) && (rule.Permission == permission.Admin || rule.Permission == permission.RegisterRuntime)
}

// targetOf names what a request is about by the fields that say so: the first of
// name, id and email that has a value.
func targetOf(procedure string, message any) string {
	request, ok := message.(proto.Message)
	if !ok {
		return ""
	}
	noun, _, _ := strings.Cut(Action(procedure), ".")
	reflected := request.ProtoReflect()
	for _, name := range []protoreflect.Name{"name", "id", "email"} {
		field := reflected.Descriptor().Fields().ByName(name)
		if field != nil && field.Kind() == protoreflect.StringKind && !field.IsList() {
			if value := reflected.Get(field).String(); value != "" {
				return noun + "/" + value
			}
		}
	}
	return noun
}
