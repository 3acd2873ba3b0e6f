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
}

const auditColumns = "id, account_id, at, actor, actor_kind, action, target, outcome, detail, address"

func scanAudit(r row) (e AuditEntry, err error) {
	return e, r.Scan(&e.ID, &e.AccountID, timeColumn{&e.At}, &e.Actor, &e.ActorKind, &e.Action, &e.Target, &e.Outcome, &e.Detail, &e.Address)
}

// AppendAudit stores an entry and sets ID and time if they are empty.
func (s *Store) AppendAudit(ctx context.Context, entry AuditEntry) error {
	s.setDefaults(&entry.ID, &entry.At)
	// Truncation keeps a hostile client from filling the database through
	// long names.
	for _, text := range []*string{&entry.Actor, &entry.ActorKind, &entry.Action, &entry.Target, &entry.Outcome, &entry.Address} {
		*text = truncate(*text, maxAuditText)
	}
	entry.Detail = truncate(entry.Detail, maxAuditDetail)
	_, err := s.exec(ctx, "INSERT INTO audit_entries ("+auditColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		entry.ID, entry.AccountID, micros(entry.At), entry.Actor, entry.ActorKind, entry.Action, entry.Target, entry.Outcome, entry.Detail, entry.Address)
	return orConflict(err, "an audit entry with the ID %s", entry.ID)
}

// AuditEntries lists entries of an account, the newest first.
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
	if err := where.before(list, page.Token, "(at, id)"); err != nil {
		return pageQuery{}, err
	}
	return page.query("SELECT "+auditColumns+" FROM audit_entries", where, "at DESC, id DESC"), nil
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
