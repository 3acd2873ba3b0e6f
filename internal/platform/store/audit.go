package store

import (
	"context"
	"strconv"
	"time"
)

// AuditEntry records one action. Long texts are truncated: Detail to 4 KiB,
// the others to 512 bytes.
type AuditEntry struct {
	ID, AccountID                                              string
	At                                                         time.Time
	Actor, ActorKind, Action, Target, Outcome, Detail, Address string
	AuditPerson
	AuditObject
	// Code is the status code of a call, as Connect names it; ok for success.
	// Entries before schema version 4 have none, nor person and object.
	Code string
}

// AuditPerson is the user behind an action, also behind one with an API key.
// The email is that at the time of the action.
type AuditPerson struct{ UserID, UserEmail, KeyID string }

// AuditObject is what an action concerned, as far as it applies.
type AuditObject struct {
	// Runtime is a name, Application is namespace/name.
	Runtime, Project, Application string
	// Revision is the requested one, or that which the runtime responded with.
	Revision string
}

// texts returns the fields that are truncated to maxAuditText.
func (e *AuditEntry) texts() []*string {
	return []*string{
		&e.Actor, &e.ActorKind, &e.Action, &e.Target, &e.Outcome, &e.Address,
		&e.UserID, &e.UserEmail, &e.KeyID, &e.Runtime, &e.Project, &e.Application, &e.Revision, &e.Code,
	}
}

const (
	maxAuditDetail = 4 << 10
	maxAuditText   = 512
	// expireBatch is the number of entries deleted per transaction, so that
	// other writers are not blocked for long.
	expireBatch = 5000
)

// AuditFilter selects entries. Empty fields match everything.
type AuditFilter struct {
	Since, Until          time.Time // half-open interval
	Actor, Action, Target string
	// OldestFirst reverses the order, for an export.
	OldestFirst bool
}

const auditColumns = `id, account_id, at, detail,
	actor, actor_kind, action, target, outcome, address, user_id, user_email, key_id, runtime, project, application, revision, code`

func scanAudit(r row) (e AuditEntry, err error) {
	fields := []any{&e.ID, &e.AccountID, timeColumn{&e.At}, &e.Detail}
	for _, text := range e.texts() {
		fields = append(fields, text)
	}
	return e, r.Scan(fields...)
}

// AppendAudit stores an entry and sets ID and time if they are empty.
func (s *Store) AppendAudit(ctx context.Context, entry AuditEntry) error {
	s.setDefaults(&entry.ID, &entry.At)
	// Truncation keeps a hostile client from filling the database through
	// long names.
	entry.Detail = truncate(entry.Detail, maxAuditDetail)
	values := []any{entry.ID, entry.AccountID, micros(entry.At), entry.Detail}
	for _, text := range entry.texts() {
		*text = truncate(*text, maxAuditText)
		values = append(values, *text)
	}
	_, err := s.exec(ctx, `INSERT INTO audit_entries (`+auditColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`, values...)
	if err == nil && s.audited != nil {
		s.audited(entry)
	}
	return orConflict(err, "an audit entry with the ID %s", entry.ID)
}

// AuditEntries lists entries of an account, the newest first unless the filter
// reverses it.
func (s *Store) AuditEntries(ctx context.Context, accountID string, filter AuditFilter, page Page) (entries []AuditEntry, next string, err error) {
	list := newListID("audit", accountID, filter)
	query, err := auditQuery(list, accountID, filter, page)
	if err != nil {
		return nil, "", err
	}
	return readPage(ctx, s, query, scanAudit, func(last AuditEntry) string {
		return list.token(strconv.FormatInt(micros(last.At), 10), last.ID)
	})
}

// auditQuery builds the query of one page.
func auditQuery(list listID, accountID string, filter AuditFilter, page Page) (pageQuery, error) {
	var where condition
	where.add("account_id = ?", accountID)
	where.addText("actor = ?", filter.Actor)
	where.addText("action = ?", filter.Action)
	where.addText("target = ?", filter.Target)
	if !filter.Since.IsZero() {
		where.add("at >= ?", micros(filter.Since))
	}
	if !filter.Until.IsZero() {
		where.add("at < ?", micros(filter.Until))
	}
	comparison, order := "(at, id) <", "at DESC, id DESC"
	if filter.OldestFirst {
		comparison, order = "(at, id) >", "at, id"
	}
	if err := where.beyond(list, page.Token, comparison); err != nil {
		return pageQuery{}, err
	}
	return page.query("SELECT "+auditColumns+" FROM audit_entries", where, order), nil
}

// ExpireAudit deletes the entries of all accounts before a time and returns
// their number.
func (s *Store) ExpireAudit(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		// Each batch is its own transaction. The loop ends with the first
		// incomplete batch.
		n, err := s.exec(ctx, "DELETE FROM audit_entries WHERE id IN (SELECT id FROM audit_entries WHERE at < $1 ORDER BY at LIMIT $2)", micros(before), expireBatch)
		removed += n
		if err != nil || n < expireBatch {
			return removed, err
		}
	}
}
