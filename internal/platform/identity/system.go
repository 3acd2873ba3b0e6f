package identity

import (
	"context"
	"fmt"
	"io"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
)

// System is the platform itself, or a local user who runs a command on its
// machine. Access to the machine authorizes its actions, so the audit log has
// the name of the local user in the place of a user of the platform.
type System struct {
	Store *store.Store
	// Actor is the name of the local user, or of the program.
	Actor string
}

// Record writes an entry to the log of each account; without accounts to all
// of them, for actions that concern the whole platform.
func (s System) Record(ctx context.Context, event Event, accounts ...string) error {
	if len(accounts) == 0 {
		all, err := s.Store.Accounts(ctx)
		if err != nil {
			return fmt.Errorf("write audit log: %w", err)
		}
		for _, account := range all {
			accounts = append(accounts, account.ID)
		}
	}
	for _, account := range accounts {
		if err := s.Store.AppendAudit(ctx, event.in(store.AuditEntry{AccountID: account, Actor: s.Actor, ActorKind: KindSystem})); err != nil {
			return fmt.Errorf("write audit log: %w", err)
		}
	}
	return nil
}

// Run records that an action begins, runs it, and records its outcome. An
// action that cannot be recorded does not begin.
func (s System) Run(ctx context.Context, event Event, do func() error, accounts ...string) error {
	event.Outcome = OutcomeBegun
	if err := s.Record(ctx, event, accounts...); err != nil {
		return err
	}
	err := do()
	event.Outcome, event.Code = OutcomeOK, CodeOK
	if err != nil {
		// The reason is in the output of the command, and may quote anything.
		event.Outcome, event.Code = OutcomeFailed, codeOf(err).String()
	}
	// The entry is written also when the command was interrupted.
	if written := s.Record(context.WithoutCancel(ctx), event, accounts...); err == nil {
		return written
	}
	return err
}

// Backup writes a backup.
func (s System) Backup(ctx context.Context, w io.Writer) error {
	return s.Run(ctx, Event{Action: "platform.backup", Target: "platform"}, func() error { return s.Store.Backup(ctx, w) })
}

// RotateKeys creates a new signing key; with revoke the others end.
func (s System) RotateKeys(ctx context.Context, signer *signing.Signer, revoke bool) error {
	event := Event{Action: ActionRotateKeys, Target: "platform"}
	if revoke {
		event.Detail = "revoke"
	}
	return s.Run(ctx, event, func() error { return signer.Rotate(ctx, revoke) })
}

// Actions of the platform itself.
const (
	ActionRotateKeys = "platform.rotate-keys"
	ActionRestore    = "platform.restore"
)
